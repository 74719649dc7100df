"""Control messages: what a person asks of a running order, and the receipt that it gets."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from mcc.contracts.order import Identifier, Name
from mcc.contracts.shape import Closed, Moment, Text


class ControlKind(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    STEER = "steer"


class SteerMode(StrEnum):
    """How a steer's message is meant."""

    INJECT = "inject"  # something to take into account, beside the task
    REDIRECT = "redirect"  # the task from now on


class NewControl(Closed):
    """Body of a control request; `record_id` addresses one agent of the tree, None the whole order.

    `mode` and `remove_tools` (tool or group names, taken from the agent and all below it) belong to a steer, which
    needs a message or tools to remove.
    """

    record_id: Identifier | None = None
    message: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    reason: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    mode: SteerMode | None = None
    remove_tools: Annotated[tuple[Name, ...], Field(max_length=100)] = ()


class ControlOfBatch(NewControl):
    """One of several controls that are requested together."""

    kind: ControlKind


class NewControls(Closed):
    """Controls that are kept in this order, all or none. A cancel of the whole order wins: the others are refused."""

    controls: Annotated[tuple[ControlOfBatch, ...], Field(min_length=1, max_length=20)]


class Receipt(Closed):
    """What is promised when a control was accepted: it is a row, and a drone will find it."""

    id: str
    requested_at: Moment
    order_id: str | None = None


class Control(Closed):
    """A control with what became of it: delivered to a drone, applied at entry `applied_seq`, or refused with why.

    `mode` is that of a steer, None of all others.
    """

    id: str
    order_id: str
    number: Annotated[int, Field(ge=1)]
    kind: ControlKind
    record_id: str | None = None
    message: Text | None = None
    reason: Text | None = None
    mode: SteerMode | None = None
    remove_tools: tuple[str, ...] = ()
    requested_at: Moment
    delivered_at: Moment | None = None
    applied_at: Moment | None = None
    applied_seq: int | None = None
    refused: Text | None = None

    @property
    def open(self) -> bool:
        return self.applied_seq is None and self.refused is None
