"""Names and messages on the wire: Celery's task, Redis' channels, hints and text deltas."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.answers import ModelsToCheck
from mcc.contracts.entry import Entry
from mcc.contracts.shape import Closed, Moment, Text, to_json

RUN_ORDER_TASK = "mcc.orders.run"
"""Celery task name; its only argument is the order's id."""

CANARY_TASK = "mcc.drones.canary"

KEY_PREFIX = "mcc:"
"""Prefix of everything that this system keeps in Redis."""

STATUS_CHANNEL = "mcc:status"
"""Hints about any order whose status moved."""


def worker_name(drone: str) -> str:
    """The name under which Celery and its monitors know a drone."""
    return f"{drone}@drone"


def order_channel(order_id: str) -> str:
    """Entries, hints and deltas of one order."""
    return f"mcc:order:{order_id}"


def drone_channel(drone: str) -> str:
    """Heartbeats of one drone."""
    return f"mcc:drone:{drone}"


def control_channel(incarnation: str) -> str:
    """Wake-ups for one drone process: a control is waiting for an order that it runs."""
    return f"mcc:control:{incarnation}"


def check_key(check_id: str) -> str:
    """The list of rows that a drone found when it was asked to try models."""
    return f"mcc:check:{check_id}"


def nudged_key(order_id: str, last_seq: int) -> str:
    """There while a nudge for the order, as its journal stands, need not be sent again."""
    return f"mcc:nudged:{order_id}:{last_seq}"


CheckId = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]


class Hint(Closed):
    """This order's journal reached `seq`; `status` is told when it moved."""

    type: Literal["hint"] = "hint"
    order_id: str
    seq: int
    status: str | None = None


class Delta(Closed):
    """A piece of text on its way; never stored.

    A viewer drops lower epochs, and forgets the text once the reply is in the journal.

    `offset` counts characters of this kind of text before this piece in the same try; of the arguments of tool calls
    (`tool_call.delta`) those of this call, of which `index` is the place in the reply and `name` the tool; of what a
    call of the tool `name` says while it runs (`tool.progress`) those of `call_id`, of which pieces may be left out.
    """

    type: Literal["delta"] = "delta"
    kind: Literal["model.delta", "thinking.delta", "tool_call.delta", "tool.progress"]
    order_id: str
    epoch: int
    record_id: str
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    round: int
    attempt: int
    offset: int
    text: Text
    index: int | None = None
    name: Text = ""
    call_id: str | None = None


class GenerationProgress(Closed):
    """How far the generation of a document is: its nodes by their status, those at work, what was spent, what is left.

    `cost_usd` None: no price is known. `seconds_left` None: nothing has ended yet to go by.
    """

    document_id: str
    done: int
    running: int
    pending: int
    stale: int
    failed: int
    conflicts: int
    output_tokens: int
    cost_usd: float | None = None
    seconds_left: float | None = None


class Progress(Closed):
    """The progress of an order that generates a document; never stored, the newest counts."""

    type: Literal["progress"] = "progress"
    order_id: str
    epoch: int
    data: GenerationProgress


Seen: TypeAlias = Entry | Delta | GenerationProgress
"""What whoever follows an order sees: its entries, and what is told on the way and never stored."""


class DroneBeat(Closed):
    """A drone is there, and how busy it is."""

    type: Literal["heartbeat"] = "heartbeat"
    drone: str
    incarnation: str
    at: Moment
    slots: int
    active: int
    draining: bool = False


class EntryHead(Closed):
    """Of an entry that is too large for a channel: all but its `data`, which is read from the journal."""

    type: Literal["entry"] = "entry"
    order_id: str
    seq: int
    at: Moment
    kind: str
    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    whole: Literal[False] = False


LARGEST_ENTRY_BYTES = 16 * 1024
ENTRY_BEGINS = b'{"type":"entry",'
"""How every message with an entry, or the head of one, begins."""


def entry_message(entry: Entry) -> bytes:
    """A committed entry for its order's channel: whole, or its head alone where that is more than 16 KB."""
    message = ENTRY_BEGINS + to_json(entry)[1:]
    if len(message) <= LARGEST_ENTRY_BYTES:
        return message
    origin = entry.origin.model_dump()
    return to_json(EntryHead(order_id=entry.order_id, seq=entry.seq, at=entry.at, kind=entry.kind, **origin))


class Wake(Closed):
    """A control with this number was placed on the order."""

    type: Literal["wake"] = "wake"
    order_id: str
    control_seq: int


class OrdersWait(Closed):
    """To a drone, on its control channel: many orders were queued together, so look for some."""

    type: Literal["orders_wait"] = "orders_wait"


class TryServer(Closed):
    """To one drone, on its control channel: make the call that stands in the database under this id, and put what it
    showed at the end of `check_key`."""

    type: Literal["try_server"] = "try_server"
    trial_id: CheckId


class CheckModels(ModelsToCheck):
    """To one drone, on its control channel: try these models, and put what each showed at the end of `check_key`."""

    type: Literal["check_models"] = "check_models"
    check_id: CheckId
