"""Sessions: conversations whose turns are orders, what their turns get by default, and what is asked of them."""

from typing import Annotated

from pydantic import Field, StringConstraints

from mcc.contracts.limits import Limits, SomeLimits
from mcc.contracts.order import ModelName, NewOrder, Path, WorkOrder
from mcc.contracts.permission import Mode
from mcc.contracts.shape import Closed, Identifier, Moment, Name, Text
from mcc.contracts.turn_context import ContextMode
from mcc.contracts.usage import Usage

Title = Annotated[str, StringConstraints(max_length=200)]
TurnNumber = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]


class SessionDefaults(Closed):
    """What a chat turn of a session gets where its order does not give it; None: what it would get in any session.
    Limits are merged one by one, an order's own first."""

    agent: Name | None = None
    model: ModelName | None = None
    mode: Mode | None = None
    workspace: Path | None = None
    limits: SomeLimits = None

    def apply(self, new: NewOrder) -> NewOrder:
        """The order with these defaults in place of the fields that its caller left out."""
        given = {name: value for name, value in self if value is not None and name != "limits"}
        filled = {name: value for name, value in given.items() if name not in new.model_fields_set}
        if self.limits is not None:
            own = new.limits.model_dump(exclude_unset=True) if new.limits is not None else {}
            filled["limits"] = Limits.model_validate({**self.limits.model_dump(exclude_unset=True), **own})
        return new.model_copy(update=filled) if filled else new


class ForkedFrom(Closed):
    """Where a session that is a fork begins: after turn `turn` of another session, or within that turn, the order
    `order_id`."""

    session_id: Identifier
    turn: int
    order_id: Identifier


class Session(Closed):
    """A conversation. Its orders are its turns, in the sequence in which they were accepted.

    `agent` to `limits` are the defaults of its turns; None: as the configuration says. `context` is what later turns
    are shown of earlier ones: `full`, all that was said, or `answers`, their prompts and answers. `usage` is that of
    all its turns. `unread`: turns after the last one that the caller marked as read.

    `tokens`: what the next turn would be shown, `window`: how much fits, `cached_share`: the share of the last
    request's input that came from the provider's cache; null: not known. `principal`, `door`, `token`: who
    opened it, as `WorkOrder` says it.
    """

    id: Identifier
    title: Text
    created_at: Moment
    turns: int
    last_order_id: Identifier | None = None
    archived: bool = False
    agent: Name | None = None
    model: ModelName | None = None
    mode: Mode | None = None
    workspace: Path | None = None
    context: ContextMode | None = None
    limits: SomeLimits = None
    usage: Usage = Usage()
    tokens: int | None = None
    window: int | None = None
    cached_share: float | None = None
    unread: int = 0
    forked_from: ForkedFrom | None = None
    principal: str | None = None
    door: str | None = None
    token: Text | None = None


class NewSession(SessionDefaults):
    """A session to open. `context` is fixed once the session has a turn."""

    title: Title = ""
    context: ContextMode | None = None


class SessionChange(SessionDefaults):
    """What changes of a session: the fields that are given. null unsets one."""

    title: Title | None = None
    archived: bool | None = None
    context: ContextMode | None = None


class NewSessionFork(Closed):
    """A session that begins with the first `turn` turns of another one."""

    turn: TurnNumber
    title: Title | None = None


class ReadMark(Closed):
    """The caller has read the session up to turn `turn`; an earlier turn than the last one marked changes nothing."""

    turn: TurnNumber


class SessionWithTurns(Session):
    """A session with some of its turns, newest first. `next_before`: the `before` of the next page; None: no more."""

    orders: tuple[WorkOrder, ...] = ()
    next_before: int | None = None


class TurnUsage(Closed):
    """What one turn used, or an order that compacted the session (`compaction`), whose `turn` is the last one before
    it.

    `cached_share`: the share of its input that came from the provider's cache; null: not known.
    """

    turn: int
    order_id: Identifier
    compaction: bool = False
    usage: Usage
    cached_share: float | None = None


class PrunedTurn(Closed):
    """All that an export has of a turn whose journal was pruned."""

    order_id: Identifier
    pruned_at: Moment
    prompt: Text
    answer: Text | None = None
