"""What the API answers beyond the nouns themselves: pages, problems, summaries, what is on offer and was tried."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field

from mcc.contracts.control import Receipt
from mcc.contracts.drones import AgentSheet, ToolSheet
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text
from mcc.contracts.status import OrderStatus, Reason
from mcc.contracts.usage import Usage

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
    """A text that was too long for the entry that names it, whole; of a picture its bytes as base64."""

    id: str
    content: Text


class SteeredOrder(WorkOrder):
    """The running order that a prompt was given to as a steer, with the receipt of that."""

    receipt: Receipt


class PlacedOrder(Closed):
    """What became of one of several orders that were placed together: it was `created`, or its key was known.

    `receipt`: its prompt became a steer of the running order that this names.
    """

    id: str
    session_id: str
    session_seq: int
    status: OrderStatus
    created: bool
    receipt: Receipt | None = None


class Offer(ToolSheet):
    """An agent, tool or model that drones have; `drones` can use it, `problem` says why none can.

    `agent` is what the first of them says of an agent; its prompt is there when one agent was asked for.
    `default`: a model that one of them asks where nobody names another. `origin`: where a tool of the operator's own
    comes from. What a `ToolSheet` says is said of tools alone.
    """

    name: str
    description: Text = ""
    problem: Text | None = None
    drones: tuple[str, ...] = ()
    agent: AgentSheet | None = None
    default: bool = False
    origin: Text | None = None


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


MOST_NAMES = 50
"""Models that one request may name: each of them costs a call."""

CHECK_SECONDS = 60.0
"""How long the one call of a model may take."""

CHECKS_AT_A_TIME = 8
SPARE_SECONDS = 5.0
"""For the way to the drone and back."""


def longest_check(count: int) -> float:
    """Seconds that a drone may take for so many models."""
    return -(-count // CHECKS_AT_A_TIME) * CHECK_SECONDS + SPARE_SECONDS


ModelName = Annotated[str, Field(min_length=1, max_length=200)]


class ModelsToCheck(Closed):
    """Models to try, by alias or `provider/model`; without `names` all that live drones tell of."""

    names: Annotated[tuple[ModelName, ...], Field(max_length=MOST_NAMES)] = ()


class ModelCheck(Closed):
    """How one model answered one small question with one tool; what is None was not found out.

    `model` is `provider/model`, `problem` a sentence that says what is wrong and what to do, None = it answered.

    `key`: accepted, none (it answered without one), missing, refused, unknown. `context_tokens` is its window, and
    `window_from` who says so. `tools`: whether it called the tool; `streaming`: whether its reply came as a stream;
    `thinking`: whether it thought, with thinking set as it is for this model. `caching`: seen in the usage of this
    call, or priced, where the price list has a price for cached tokens.
    """

    name: str
    model: Text = ""
    drone: str = ""
    problem: Text | None = None
    key: Literal["accepted", "none", "missing", "refused", "unknown"] = "unknown"
    context_tokens: int | None = None
    window_from: Literal["configuration", "table", "server"] | None = None
    tools: bool | None = None
    streaming: bool | None = None
    thinking: bool | None = None
    caching: Literal["seen", "priced"] | None = None
    seconds: float | None = None
    first_token_ms: float | None = None
    usage: Usage | None = None
    notes: tuple[Text, ...] = ()
