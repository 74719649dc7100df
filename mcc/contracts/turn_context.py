"""What an agent that answers for a turn was shown of its session's earlier turns."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from mcc.contracts.shape import Closed

ContextMode: TypeAlias = Literal["full", "answers"]
"""What later turns are shown of an ended one: all that its agent was shown and said, or its prompt and answer alone."""

MOST_AFTER_BASE = 64
"""Turns after its base that a context names at most; beyond that, the turns become a new base."""


class TurnContext(Closed):
    """What a turn's agent was shown before its own first message, so that a resumed run is shown exactly that again.

    `base`: the digest of the stored text with everything up to some turn; `turns`: the orders of the turns after it.
    `messages`, `tokens` (estimated): how much it was altogether; `digest`: of all of it. `environment`: the digest of
    each part of the environment that the session's model has been told.
    """

    mode: ContextMode
    base: str | None = None
    turns: tuple[str, ...] = ()
    messages: int
    tokens: int
    digest: str
    environment: Mapping[str, str] = {}
