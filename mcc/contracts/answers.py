"""Responses of the API: pages of lists, problems, order summaries, capabilities of drones, checks of models."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import Field

from mcc.contracts.budgets import BudgetOfDay
from mcc.contracts.control import Receipt
from mcc.contracts.drones import AgentSheet, ToolSheet
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text
from mcc.contracts.status import OrderStatus, Reason
from mcc.contracts.usage import Usage

TITLE_CHARACTERS = 200

T = TypeVar("T")


class Listing(Closed, Generic[T]):
    """One page of a list; pass `next_cursor` to get the next page, None at the end."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class Problem(Closed):
    """An error as defined by RFC 9457. `errors` names the faulty fields; `id` is the number of an internal error in the
    service's log; `needs` the right that the caller lacks; `error`, in words of RFC 8628, why a login waits; `budget`
    what is left of one that does not suffice."""

    type: str = "about:blank"
    title: str
    status: int
    detail: Text
    errors: tuple[dict[str, Any], ...] | None = None
    id: str | None = None
    needs: str | None = None
    error: str | None = None
    budget: BudgetOfDay | None = None


class RecordSetup(Closed):
    """The constant part of an agent's model requests, stored when the agent started.

    `definition` is the agent file in force, without its prompt, which `system` contains. `session` holds the earlier
    turns that the agent was shown, in set-ups of versions before `agent.started` had a `context`.
    """

    system: Text
    tools: tuple[JsonObject, ...]
    model: JsonObject
    limits: JsonObject
    definition: JsonObject
    gate: JsonAny = None
    session: tuple[JsonObject, ...] = ()


class Artifact(Closed):
    """The full text that was too long for the entry that names it; for a picture, its bytes as base64."""

    id: str
    content: Text


class SteeredOrder(WorkOrder):
    """The running order that received a prompt as a steer, with the receipt of that control."""

    receipt: Receipt


class PlacedOrder(Closed):
    """The outcome for one of several orders placed together: it was `created`, or its key was already known.

    `receipt`: no order was created; the prompt became a steer of the running order named here.
    """

    id: str
    session_id: str
    session_seq: int
    status: OrderStatus
    created: bool
    receipt: Receipt | None = None


class Offer(ToolSheet):
    """An agent, tool or model that drones offer. `drones` lists those that can use it; `problem` says why none can.

    `agent` describes an agent as the first of these drones has it; the prompt is included when one agent was requested.
    `default`: some drone uses this model when an order names none. `origin`: where an operator's own tool comes from.
    The fields of `ToolSheet` are for tools only.
    """

    name: str
    description: Text = ""
    problem: Text | None = None
    drones: tuple[str, ...] = ()
    agent: AgentSheet | None = None
    default: bool = False
    origin: Text | None = None


class Needs(Closed):
    """How many items of the inbox wait for a person: calls and outlines, and questions."""

    approvals: int = 0
    questions: int = 0


class OrderSummary(Closed):
    """An order as a row of a list; `title` is the beginning of its prompt.

    `principal`, `door`, `token`: who placed it, as `WorkOrder` says it; `needs`: what waits for a person. `cost_usd`,
    None = not known, and `tokens` (input and output) are what it has used so far.
    """

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
    principal: str | None = None
    door: str | None = None
    token: Text | None = None
    needs: Needs | None = None
    cost_usd: float | None = None
    tokens: int = 0

    @classmethod
    def of(cls, order: WorkOrder, needs: Needs | None = None) -> "OrderSummary":
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
            principal=order.principal,
            door=order.door,
            token=order.token,
            needs=needs,
            cost_usd=order.usage.cost_usd,
            tokens=order.usage.input_tokens + order.usage.output_tokens,
        )


MAX_CHECKED_MODELS = 50
"""Most models that one request may name, because each costs a model call."""

CHECK_SECONDS = 60.0
"""Time limit of the one call that checks a model."""

CONCURRENT_CHECKS = 8
"""Models that a drone checks at the same time."""
ROUND_TRIP_SECONDS = 5.0
"""Allowance for the way to the drone and back."""


def longest_check(count: int) -> float:
    """Seconds to wait at most for a drone to check `count` models."""
    return -(-count // CONCURRENT_CHECKS) * CHECK_SECONDS + ROUND_TRIP_SECONDS


class ModelsToCheck(Closed):
    """Models to check, by alias or `provider/model`; without `names`, all models of live drones."""

    names: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=MAX_CHECKED_MODELS)
    ] = ()


class ModelCheck(Closed):
    """The outcome of one small model call that offers one tool. None: not determined.

    `model` is `provider/model`. `problem` is a sentence that says what is wrong and what to do, None = the model
    answered.

    `key`: whether the provider accepted the API key; "none": it answered without one. `context_tokens` is the context
    window, `window_from` the source of that figure. `tools`: whether the model called the tool; `streaming`: whether
    the reply came as a stream; `thinking`: whether the model thought, with the thinking setting that it has.
    `caching`: "seen" in the usage of this call, or "priced": the price list has a price for cached tokens.
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
