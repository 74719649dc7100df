"""What the API answers beyond the nouns themselves: pages, problems, summaries, what is on offer."""

from datetime import datetime
from typing import Any, Generic, TypeVar

from mcc.contracts.control import Receipt
from mcc.contracts.drones import AgentSheet
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text
from mcc.contracts.status import OrderStatus, Reason

TITLE_CHARACTERS = 200

T = TypeVar("T")


class Listing(Closed, Generic[T]):
    """One page of a list; `next_cursor` asks for the next one, None at the end."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Problem(Closed):
    """An error as RFC 9457 wants it; `errors` names the fields, `id` finds an internal error in the service's log."""

    type: str = "about:blank"
    title: str
    status: int
    detail: Text
    errors: tuple[dict[str, Any], ...] | None = None
    id: str | None = None


class RecordSetup(Closed):
    """What the model of an agent was asked with in every round, as it was kept when the agent began.

    `definition` is the agent file in force without its prompt, which `system` holds; `session` the turns it was shown.
    """

    system: Text
    tools: tuple[JsonObject, ...]
    model: JsonObject
    limits: JsonObject
    definition: JsonObject
    gate: JsonAny = None
    session: tuple[JsonObject, ...] = ()


class Artifact(Closed):
    """A text that was too long for the entry that names it, whole."""

    id: str
    content: Text


class SteeredOrder(WorkOrder):
    """The running order that a prompt was given to as a steer, with the receipt of that."""

    receipt: Receipt


class Offer(Closed):
    """An agent, tool or model that drones have; `drones` can use it, `problem` says why none can.

    `agent` is what the first of them says of an agent; its prompt is there when one agent was asked for.
    """

    name: str
    description: Text = ""
    problem: Text | None = None
    drones: tuple[str, ...] = ()
    agent: AgentSheet | None = None


class OrderSummary(Closed):
    """An order as a line of a list: `title` is the beginning of its prompt."""

    id: str
    session_id: str
    session_seq: int
    title: Text
    agent: str
    model: str | None
    queue: str
    priority: int
    labels: tuple[str, ...]
    status: OrderStatus
    reason: Reason | None
    detail: Text | None
    attempt: int
    drone: str | None
    created_at: Moment
    started_at: datetime | None
    finished_at: datetime | None
    last_seq: int

    @classmethod
    def of(cls, order: WorkOrder) -> "OrderSummary":
        return cls(
            id=order.id,
            session_id=order.session_id,
            session_seq=order.session_seq,
            title=order.prompt[:TITLE_CHARACTERS],
            agent=order.agent,
            model=order.model,
            queue=order.queue,
            priority=order.priority,
            labels=order.labels,
            status=order.status,
            reason=order.reason,
            detail=order.detail,
            attempt=order.attempt,
            drone=order.drone,
            created_at=order.created_at,
            started_at=order.started_at,
            finished_at=order.finished_at,
            last_seq=order.last_seq,
        )
