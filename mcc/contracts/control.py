"""Control messages: what a person asks of a running order, and the receipt that it gets."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from mcc.contracts.inbox_facts import Said as Said
from mcc.contracts.shape import Closed, Identifier, JsonObject, Moment, Name, Text, to_json


class ControlKind(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    STEER = "steer"
    SET_METADATA = "set_metadata"
    DECIDE = "decide"


METADATA_BYTES = 16_000
METADATA_KEYS = 64
KEY_CHARACTERS = 100


def too_much(metadata: Mapping[str, Any]) -> str | None:
    """Why this is more than an order or an agent may have, in a sentence without its end; None when it is not."""
    if len(metadata) > METADATA_KEYS:
        return f"has {len(metadata)} keys; {METADATA_KEYS} are the most"
    if any(not 0 < len(key) <= KEY_CHARACTERS for key in metadata):
        return f"has a key that is empty or longer than {KEY_CHARACTERS} characters"
    size = len(to_json(metadata))
    return f"takes {size:,} bytes as JSON; {METADATA_BYTES:,} are the most" if size > METADATA_BYTES else None


def _small(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if why := too_much(value):
        raise PydanticCustomError("too_much_metadata", "Input {why}", {"why": why})
    return value


Metadata = Annotated[JsonObject, AfterValidator(_small)]
"""What programs keep beside an order: any JSON under short keys."""


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Each key of `changes` in the place of what it had; null takes it away."""
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


class SteerMode(StrEnum):
    """How a steer's message is meant."""

    INJECT = "inject"  # something to take into account, beside the task
    REDIRECT = "redirect"  # the task from now on


class NewControl(Closed):
    """Body of a control request; `record_id` addresses one agent of the tree, None the whole order.

    `mode` and `remove_tools` (tool or group names, taken from the agent and all below it) belong to a steer, which
    needs a message or tools to remove; `metadata`, in which null takes a key away, to a set_metadata.
    """

    record_id: Identifier | None = None
    message: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    reason: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    mode: SteerMode | None = None
    remove_tools: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    metadata: Metadata | None = None


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

    `mode` is that of a steer, `said` what a decide brings; None of all others.
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
    metadata: JsonObject | None = None
    said: Said | None = None
    requested_at: Moment
    delivered_at: Moment | None = None
    applied_at: Moment | None = None
    applied_seq: int | None = None
    refused: Text | None = None

    @property
    def open(self) -> bool:
        return self.applied_seq is None and self.refused is None


def not_taken(kind: ControlKind, record_id: str | None, takes: Collection[ControlKind] | None) -> str | None:
    """Why an order that `takes` only these (None: all) refuses such a control; None when it does not.

    The whole order can always be cancelled: whoever pays for it must be able to stop it.
    """
    if takes is None or kind in takes or (kind is ControlKind.CANCEL and record_id is None):
        return None
    allowed = ", ".join(takes) if takes else "none"
    return f"This order takes no {kind.value}: when it was placed, only these controls were allowed: {allowed}."
