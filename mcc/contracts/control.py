"""This room is for control messages: what a person asks of a running order, and the receipt that it gets."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from mcc.contracts.order import Identifier
from mcc.contracts.shape import Closed, Moment, Text


class ControlKind(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    STEER = "steer"


class NewControl(Closed):
    """Body of a control request; `record_id` addresses one node of the tree, None the whole order."""

    record_id: Identifier | None = None
    message: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    reason: Annotated[str, StringConstraints(max_length=2_000)] | None = None


class Receipt(Closed):
    """What is promised when a control was accepted: it is a row, and a drone will find it."""

    id: str
    requested_at: Moment
    order_id: str | None = None


class Control(Closed):
    """A control with what became of it: delivered to a drone, applied at entry `applied_seq`, or refused with why."""

    id: str
    order_id: str
    number: Annotated[int, Field(ge=1)]
    kind: ControlKind
    record_id: str | None = None
    message: Text | None = None
    reason: Text | None = None
    requested_at: Moment
    delivered_at: Moment | None = None
    applied_at: Moment | None = None
    applied_seq: int | None = None
    refused: Text | None = None

    @property
    def open(self) -> bool:
        return self.applied_seq is None and self.refused is None
