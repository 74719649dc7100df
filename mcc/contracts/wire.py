"""Names and messages on Celery and Redis: tasks, channels, keys, and the messages on each channel."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.answers import ModelsToCheck
from mcc.contracts.entry import Entry
from mcc.contracts.shape import Closed, Moment, Text, to_json
from mcc.contracts.waits import WaitsFor

RUN_ORDER_TASK = "mcc.orders.run"
"""Celery task name; its only argument is the order's id."""

CANARY_TASK = "mcc.drones.canary"

KEY_PREFIX = "mcc:"
"""What all keys and channels in Redis begin with, unless the setting `redis_prefix` says otherwise."""

STATUS_CHANNEL = f"{KEY_PREFIX}status"
"""Channel with a hint for every status change of any order, under the default prefix."""


def status_channel(prefix: str = KEY_PREFIX) -> str:
    """Channel with a hint for every status change of any order."""
    return f"{prefix}status"


def worker_name(drone: str) -> str:
    """A drone's worker name in Celery and its monitors."""
    return f"{drone}@drone"


def order_channel(order_id: str, prefix: str = KEY_PREFIX) -> str:
    """Channel with the entries, hints and deltas of one order."""
    return f"{prefix}order:{order_id}"


def drone_channel(drone: str, prefix: str = KEY_PREFIX) -> str:
    """Channel with the heartbeats of one drone."""
    return f"{prefix}drone:{drone}"


def control_channel(incarnation: str, prefix: str = KEY_PREFIX) -> str:
    """Channel with messages to one drone process: controls for orders that it runs, waiting orders, checks to make."""
    return f"{prefix}control:{incarnation}"


def listener_channel(listener: str, prefix: str = KEY_PREFIX) -> str:
    """Channel of one subscription, on which nothing is published: where nobody hears it, the subscription is gone."""
    return f"{prefix}listener:{listener}"


def installation_key(prefix: str = KEY_PREFIX) -> str:
    """Key that holds the id of the database whose installation uses this prefix."""
    return f"{prefix}installation"


def probe_key(prefix: str = KEY_PREFIX) -> str:
    """Key that nobody sets. To delete it changes nothing, but is a write, which only a master does."""
    return f"{prefix}nothing"


def check_key(check_id: str, prefix: str = KEY_PREFIX) -> str:
    """Key of the Redis list to which a drone appends the results of a check."""
    return f"{prefix}check:{check_id}"


def nudged_key(order_id: str, last_seq: int, prefix: str = KEY_PREFIX) -> str:
    """Key that exists while no further nudge is needed for the order with its journal at `last_seq`."""
    return f"{prefix}nudged:{order_id}:{last_seq}"


CheckId = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]


class Hint(Closed):
    """The order's journal has reached `seq`; `status` is set when it changed."""

    type: Literal["hint"] = "hint"
    order_id: str
    seq: int
    status: str | None = None


class InboxMoved(Closed):
    """Something was asked of a person in this order, or settled; the order may run on meanwhile."""

    type: Literal["inbox"] = "inbox"
    order_id: str


class InboxChange(Closed):
    """An item of the inbox that appeared or was settled; `status` as `GET /inbox` has it."""

    id: str
    kind: str
    order_id: str
    status: str


class InboxEvent(Closed):
    """How many items of agents wait for a person, and which have changed since the last event of this kind."""

    pending: int
    changed: tuple[InboxChange, ...] = ()


class Delta(Closed):
    """A piece of streamed text; never stored.

    A viewer drops deltas of lower epochs, and discards the text once the reply is in the journal.

    `offset` counts the characters of this `kind` before this piece, in the same try. For tool call arguments
    (`tool_call.delta`) it counts those of one call; `index` is the call's place in the reply and `name` its tool. For
    output of a running call (`tool.progress`) it counts the output of `call_id`, a call of the tool `name`; pieces of
    it may be left out.
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
    """How far the generation of a document is: nodes by status, nodes being generated, usage, estimated time left.

    `cost_usd` None: no price is known. `seconds_left` None: no estimate yet, because no node has ended.
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
    """The progress of a generate order; never stored, each message replaces the one before."""

    type: Literal["progress"] = "progress"
    order_id: str
    epoch: int
    data: GenerationProgress


class OrderWaits(Closed):
    """What the order waits for from now on, None = nothing; never stored, and read from the database alone."""

    waits_for: WaitsFor | None = None


OrderEvent: TypeAlias = Entry | Delta | GenerationProgress | OrderWaits
"""What a client that follows an order receives: journal entries, and messages that are never stored."""


class DroneBeat(Closed):
    """A drone's heartbeat: it is alive, with `active` of its `slots` in use."""

    type: Literal["heartbeat"] = "heartbeat"
    drone: str
    incarnation: str
    at: Moment
    slots: int
    active: int
    draining: bool = False


class EntryHead(Closed):
    """An entry that is too large for a channel, without its `data`, which must be read from the journal."""

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
"""The first bytes of every message with an entry or an entry's head."""


def entry_message(entry: Entry) -> bytes:
    """A committed entry as a message for its order's channel; above `LARGEST_ENTRY_BYTES`, only the entry's head."""
    message = ENTRY_BEGINS + to_json(entry)[1:]
    if len(message) <= LARGEST_ENTRY_BYTES:
        return message
    origin = entry.origin.model_dump()
    return to_json(EntryHead(order_id=entry.order_id, seq=entry.seq, at=entry.at, kind=entry.kind, **origin))


class Wake(Closed):
    """To a drone, on its control channel: the control with this number was placed on the order."""

    type: Literal["wake"] = "wake"
    order_id: str
    control_seq: int


class OrdersWait(Closed):
    """To a drone, on its control channel: many orders were queued at once, so look for some to claim."""

    type: Literal["orders_wait"] = "orders_wait"


class TryServer(Closed):
    """To one drone, on its control channel: run the trial of an MCP server that the database holds under this id, and
    append the result to the list `check_key`."""

    type: Literal["try_server"] = "try_server"
    trial_id: CheckId


class CheckModels(ModelsToCheck):
    """To one drone, on its control channel: check these models, and append each result to the list `check_key`."""

    type: Literal["check_models"] = "check_models"
    check_id: CheckId
