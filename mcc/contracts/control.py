"""Controls: requests that people place on an unfinished order, their receipts, and the limits of metadata."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from mcc.contracts.inbox_facts import Said
from mcc.contracts.shape import Closed, Identifier, JsonObject, Moment, Name, NotFinite, Text, finite_json


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


def metadata_problem(metadata: Mapping[str, Any]) -> str | None:
    """Why `metadata` exceeds its limits, as a sentence without subject and full stop; None when it does not."""
    if len(metadata) > METADATA_KEYS:
        return f"has {len(metadata)} keys; {METADATA_KEYS} are the most"
    if any(not 0 < len(key) <= KEY_CHARACTERS for key in metadata):
        return f"has a key that is empty or longer than {KEY_CHARACTERS} characters"
    try:
        size = len(finite_json(metadata))
    except NotFinite:
        return "has a number that is NaN or Infinity; JSON has no such numbers"
    return f"takes {size:,} bytes as JSON; {METADATA_BYTES:,} are the most" if size > METADATA_BYTES else None


def _within_limits(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if why := metadata_problem(value):
        raise PydanticCustomError("too_much_metadata", "Input {why}", {"why": why})
    return value


Metadata = Annotated[JsonObject, AfterValidator(_within_limits)]
"""Data that programs attach to an order: any JSON under short keys."""


def merged(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata `before` with `changes` applied by key; null deletes a key."""
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


class SteerMode(StrEnum):
    """How a steer's message changes the agent's task."""

    INJECT = "inject"  # take the message into account, beside the task
    REDIRECT = "redirect"  # the message is the task from now on


class NewControl(Closed):
    """Body of a control request; `record_id` addresses one agent of the tree, None the whole order.

    `mode` and `remove_tools` (names of tools or groups, removed from the agent and all below it) are for a steer, which
    needs a message or tools to remove. `metadata` is for a set_metadata; null deletes a key.
    """

    record_id: Identifier | None = None
    message: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    reason: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    mode: SteerMode | None = None
    remove_tools: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    metadata: Metadata | None = None


class ControlOfBatch(NewControl):
    """One of several controls in the same request."""

    kind: ControlKind


class NewControls(Closed):
    """Controls that are stored in sequence, all or none. If one cancels the whole order, the others are refused."""

    controls: Annotated[tuple[ControlOfBatch, ...], Field(min_length=1, max_length=20)]


class Receipt(Closed):
    """Confirms that a control was accepted: it is stored, and a drone will find it."""

    id: str
    requested_at: Moment
    order_id: str | None = None


class Control(Closed):
    """A control with its outcome: applied by entry `applied_seq`, or `refused` with a reason.

    `mode` is set for a steer only, `said` for a decide only. `delivered_at`: when a drone took it. A steer's message
    has reached its agent's model only with `carried_seq`, the first model request of that agent after `applied_seq`.
    `principal`, `door`, `token`: who asked for it, which way it came, and the name of the token that it came by.
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
    principal: str | None = None
    door: str | None = None
    token: Text | None = None
    requested_at: Moment
    delivered_at: Moment | None = None
    applied_at: Moment | None = None
    applied_seq: int | None = None
    carried_seq: int | None = None
    refused: Text | None = None

    @property
    def open(self) -> bool:
        return self.applied_seq is None and self.refused is None


def control_refusal(kind: ControlKind, record_id: str | None, allowed: Collection[ControlKind] | None) -> str | None:
    """Why an order that takes only `allowed` controls (None: all) refuses this one; None when it accepts it.

    A cancel of the whole order is always accepted: the person who pays for an order must be able to stop it.
    """
    if allowed is None or kind in allowed or (kind is ControlKind.CANCEL and record_id is None):
        return None
    listed = ", ".join(allowed) if allowed else "none"
    return f"This order takes no {kind.value}: when it was placed, only these controls were allowed: {listed}."
