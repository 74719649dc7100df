"""Facts about the order itself: one for each of its status changes."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from mcc.contracts.callers import Actor
from mcc.contracts.fact import Fact
from mcc.contracts.order import NewOrder
from mcc.contracts.questions import SessionWords
from mcc.contracts.shape import Closed, JsonObject, Moment, Text, unchecked
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage


class Forked(Closed):
    """Entries 2 to `until` are copied from order `order_id`, up to its entry `after`, with new ids for this order."""

    order_id: str
    after: int
    until: int


class OrderQueued(Fact):
    """`retry_of` is the order whose input this one repeats, `forked` the one whose history it starts with. `words`:
    what people had said to its session since the turn before, shown above the prompt. `principal`, `door`, `token`: who
    placed it, which way it came, and the name of the token that it came by; null in older entries."""

    kind: ClassVar[str] = "order.queued"
    session_id: str
    session_seq: int
    agent: str
    queue: str
    priority: int
    model: str | None = None
    workspace: Text | None = None
    not_before: Moment | None = None
    metadata: JsonObject = Field(default_factory=dict)
    retry_of: str | None = None
    forked: Forked | None = None
    words: tuple[SessionWords, ...] = ()
    principal: str | None = None
    door: str | None = None
    token: Text | None = None

    @classmethod
    def of(
        cls,
        order: NewOrder,
        session_id: str,
        session_seq: int,
        *,
        retry_of: str | None = None,
        forked: Forked | None = None,
        words: tuple[SessionWords, ...] = (),
        by: Actor | None = None,
    ) -> "OrderQueued":
        """The fact for `order`, with the order's value for every field of the same name."""
        stated: dict[str, Any] = {
            "session_id": session_id,
            "session_seq": session_seq,
            "retry_of": retry_of,
            "forked": forked,
            "words": words,
            "principal": by.principal if by else None,
            "door": by.door if by else None,
            "token": by.token if by else None,
        }
        copied: dict[str, Any] = {name: getattr(order, name) for name in cls.model_fields if name not in stated}
        # The order was validated, and its values are those of the fact.
        return unchecked(OrderQueued, **copied, **stated)


class OrderClaimed(Fact):
    kind: ClassVar[str] = "order.claimed"
    attempt: int
    epoch: int
    drone: str
    incarnation: str


class OrderRequeued(Fact):
    kind: ClassVar[str] = "order.requeued"
    epoch: int
    lost: str
    message: Text


class OrderHandedBack(Fact):
    kind: ClassVar[str] = "order.handed_back"
    epoch: int
    drone: str
    message: Text


class OrderWaiting(Fact):
    """`found` is the key of another directory found at the workspace's path; after a resume the order goes on there.
    `tries`: with the next one, how often a forge was asked that cannot be asked now."""

    kind: ClassVar[str] = "order.waiting"
    reason: WaitingReason
    message: Text
    until: Moment | None = None
    found: str | None = None
    tries: int | None = None


class OrderResumed(Fact):
    kind: ClassVar[str] = "order.resumed"
    message: Text


class OrderFinished(Fact):
    kind: ClassVar[str] = "order.finished"
    status: Literal[OrderStatus.SUCCEEDED, OrderStatus.FAILED, OrderStatus.CANCELLED]
    reason: FailureReason | None = None
    detail: Text | None = None
    usage: Usage = Usage()
