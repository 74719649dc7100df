"""Headless generation: how an order asks for a document."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from mcc.contracts.shape import Closed, JsonObject

CONCURRENCY = 8
"""So many nodes are generated at a time where nothing is said."""

PATH_CHARACTERS = 8_000

BlueprintName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]

BLUEPRINT_REF = r"^[a-z0-9][a-z0-9_-]{0,63}(:[0-9a-f]{12})?$"
BlueprintRef = Annotated[str, StringConstraints(pattern=BLUEPRINT_REF)]
"""A blueprint's name, or `name:DIGEST12` with the first twelve hexadecimal digits of one content's digest."""

NodePath = Annotated[str, StringConstraints(min_length=1, max_length=PATH_CHARACTERS)]
"""The path of a node ("/lesson-2/activity-1"; "/" for the root), or its id."""


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class Quorum(Closed):
    """The order succeeds when this share of the nodes in question is done."""

    quorum: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def _one_sentence(value: object, read: ValidatorFunctionWrapHandler) -> object:
    """Of several shapes, a mistake would be told of each."""
    try:
        return read(value)
    except ValidationError:
        message = 'Input should be "collect", "fail_fast" or {"quorum": 0.9}, a share above 0 and at most 1'
        raise PydanticCustomError("on_failure", message) from None


OnFailure: TypeAlias = Annotated[Literal["collect", "fail_fast"] | Quorum, WrapValidator(_one_sentence)]
"""What a failed node means: the others go on, the order ends, or it depends on how many there are."""


class Generation(Closed):
    """How a document is generated. `metadata` is the root's, as a person sets it.

    `nodes`: paths of those in question; none = whatever is pending, stale or failed. `outline`: children and their
    metadata alone are made, then the order waits for approval. `concurrency`: nodes at a time.
    """

    metadata: JsonObject = Field(default_factory=dict)
    nodes: Annotated[tuple[NodePath, ...], BeforeValidator(_listed), Field(max_length=10_000)] = ()
    outline: Annotated[bool, Field(strict=True)] = False
    concurrency: Annotated[int, Field(ge=1, le=200, strict=True)] = CONCURRENCY
    on_failure: OnFailure = "collect"


LIMITS: Mapping[str, object] = {
    "subagent_rounds": 50,
    "tool_calls": 1_000_000,
    "output_tokens": 20_000_000,
    "spawns": 20_000,
    "wall_seconds": 86_400,
}
"""Limits of a generate order where it says nothing, as far as they differ from those of a chat turn. `concurrency` is
that of its `generation`."""


def limits_of(limits: object, generation: object) -> object:
    """The limits of a generate order as raw data: what is `said`, over its defaults. What is no object stays."""
    given = limits.model_dump(exclude_unset=True) if isinstance(limits, Closed) else limits or {}
    if not isinstance(given, Mapping):
        return limits
    asked = generation.concurrency if isinstance(generation, Generation) else None
    if isinstance(generation, Mapping):
        asked = generation.get("concurrency")
    together = asked if isinstance(asked, int) and asked >= 1 else CONCURRENCY
    return {**LIMITS, "concurrency": together, **given}
