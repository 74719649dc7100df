"""Names and messages on the wire: Celery's task, Redis' channels, hints and text deltas."""

from typing import Annotated, Literal

from pydantic import Field

from mcc.contracts.model_checks import ModelsToCheck
from mcc.contracts.shape import Closed, Text

RUN_ORDER_TASK = "mcc.orders.run"
"""Celery task name; its only argument is the order's id."""

CANARY_TASK = "mcc.drones.canary"

KEY_PREFIX = "mcc:"
"""Prefix of everything that this system keeps in Redis."""

STATUS_CHANNEL = "mcc:status"
"""Hints about any order whose status moved."""


def order_channel(order_id: str) -> str:
    """Hints and deltas of one order."""
    return f"mcc:order:{order_id}"


def control_channel(incarnation: str) -> str:
    """Wake-ups for one drone process: a control is waiting for an order that it runs."""
    return f"mcc:control:{incarnation}"


def check_key(check_id: str) -> str:
    """The list of rows that a drone found when it was asked to try models."""
    return f"mcc:check:{check_id}"


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
    (`tool_call.delta`) those of this call, of which `index` is the place in the reply and `name` the tool.
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


class Wake(Closed):
    """A control with this number was placed on the order."""

    type: Literal["wake"] = "wake"
    order_id: str
    control_seq: int


class CheckModels(ModelsToCheck):
    """To one drone, on its control channel: try these models, and put what each showed at the end of `check_key`."""

    type: Literal["check_models"] = "check_models"
    check_id: CheckId
