"""What is found in the history of a session."""

from typing import Annotated

from pydantic import Field, StringConstraints

from mcc.contracts.shape import Closed, Identifier, Moment, Text

MOST_FOUND = 50
"""Most places that one search answers."""

FoundLimit = Annotated[int, Field(ge=1, le=MOST_FOUND)]
Question = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class HistoryMatch(Closed):
    """One journal entry in which words of the question stand. `turn` is that of its order in the order's session.

    `kind`: `prompt` and `steer` are what people asked and told later, `task` what a subagent was to do, `text` what an
    agent wrote, `call` and `tool` arguments and result of a tool call, `report` what a subagent reported, `answer` that
    of the order. `excerpt`: at most 240 characters around the words, those of a tool call after its name. `left_out`:
    the turn was rolled back. `back`: the turn is one of a session that this one comes from, so many forks back.
    """

    turn: int
    order_id: Identifier
    seq: int
    record_id: str | None = None
    agent: Text | None = None
    kind: str
    at: Moment
    excerpt: Text
    left_out: bool = False
    back: int = 0


class HistoryTurn(Closed):
    """A turn of the session that was searched, or, `back` forks back, of one that it comes from."""

    turn: int
    order_id: Identifier
    session_id: Identifier
    back: int = 0


class HistoryFound(Closed):
    """Best match first, then newest. `not_searched`: turns that were not read for the search in time; the same search
    again goes on with them. `pruned`: turns of which only the prompt, what people told later, and the answer are left.
    `turns_not_searched`, `turns_pruned`: the same, each with its session, as turns of several can have one number.
    """

    items: tuple[HistoryMatch, ...] = ()
    not_searched: tuple[int, ...] = ()
    pruned: tuple[int, ...] = ()
    turns_not_searched: tuple[HistoryTurn, ...] = ()
    turns_pruned: tuple[HistoryTurn, ...] = ()
