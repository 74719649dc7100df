"""Facts of an order itself: its way through the statuses."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from mcc.contracts.fact import Fact
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import Closed, JsonObject, Moment, Text
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage


class Forked(Closed):
    """Entries 2 to `until` are those of order `order_id` up to its entry `after`, under ids of this order's own."""

    order_id: str
    after: int
    until: int


class OrderQueued(Fact):
    """`retry_of` is the order of whose input this one was made, `forked` the one whose history it begins with."""

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

    @classmethod
    def of(
        cls,
        order: NewOrder,
        session_id: str,
        session_seq: int,
        *,
        retry_of: str | None = None,
        forked: Forked | None = None,
    ) -> "OrderQueued":
        """The entry of this order: each field that an order has under the same name is told as the order has it."""
        own: dict[str, Any] = {
            "session_id": session_id,
            "session_seq": session_seq,
            "retry_of": retry_of,
            "forked": forked,
        }
        asked: dict[str, Any] = {name: getattr(order, name) for name in cls.model_fields if name not in own}
        return OrderQueued(**asked, **own)


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
    """`found` is the key of a directory that has the place of the order's workspace: a resume lets it go on there."""

    kind: ClassVar[str] = "order.waiting"
    reason: WaitingReason
    message: Text
    until: Moment | None = None
    found: str | None = None


class OrderResumed(Fact):
    kind: ClassVar[str] = "order.resumed"
    message: Text


class OrderFinished(Fact):
    kind: ClassVar[str] = "order.finished"
    status: Literal[OrderStatus.SUCCEEDED, OrderStatus.FAILED, OrderStatus.CANCELLED]
    reason: FailureReason | None = None
    detail: Text | None = None
    usage: Usage = Usage()
