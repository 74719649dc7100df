"""Settings of a generate order: which nodes of a document, how many at a time, what a failure means."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic_core import PydanticCustomError

from mcc.contracts.shape import LIST_AS_TUPLE, Closed, JsonObject

CONCURRENCY = 8
"""Nodes generated at the same time unless the order says otherwise."""

PATH_CHARACTERS = 8_000

BlueprintName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]

BLUEPRINT_REF = r"^[a-z0-9][a-z0-9_-]{0,63}(:[0-9a-f]{12})?$"
BlueprintRef = Annotated[str, StringConstraints(pattern=BLUEPRINT_REF)]
"""A blueprint's name, or `name:DIGEST12` with the first twelve hexadecimal digits of its content's digest."""

NodePath = Annotated[str, StringConstraints(min_length=1, max_length=PATH_CHARACTERS)]
"""The path of a node ("/lesson-2/activity-1"; "/" for the root), or its id."""


class Quorum(Closed):
    """The order succeeds when this share of its nodes is done."""

    quorum: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def _one_error(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    """One message for a wrong value; pydantic would report an error for each member of the union."""
    try:
        return validate(value)
    except ValidationError:
        message = 'Input should be "collect", "fail_fast" or {"quorum": 0.9}, a share above 0 and at most 1'
        raise PydanticCustomError("on_failure", message) from None


OnFailure: TypeAlias = Annotated[Literal["collect", "fail_fast"] | Quorum, WrapValidator(_one_error)]
"""What happens when a node fails: the others go on (`collect`), the order ends (`fail_fast`), or the share of done
nodes decides (`Quorum`)."""


class Generation(Closed):
    """How a document is generated. `metadata` is set on the root node, as if a person had set it.

    `nodes`: paths of the nodes to generate; empty = all that are pending, stale or failed. `outline`: generate only the
    children and their metadata, then wait for approval. `concurrency`: nodes at the same time.
    """

    metadata: JsonObject = Field(default_factory=dict)
    nodes: Annotated[tuple[NodePath, ...], LIST_AS_TUPLE, Field(max_length=10_000)] = ()
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
"""Default limits of a generate order, where they differ from those of a chat turn. The default of `concurrency` comes
from its `generation`."""


def generation_limits(limits: object, generation: object) -> object:
    """The limits of a generate order as raw data: the given `limits` over the defaults. Both may be unvalidated.

    `limits` that are no object come back unchanged, for validation to refuse.
    """
    stated = limits.model_dump(exclude_unset=True) if isinstance(limits, Closed) else limits or {}
    if not isinstance(stated, Mapping):
        return limits
    requested = generation.concurrency if isinstance(generation, Generation) else None
    if isinstance(generation, Mapping):
        requested = generation.get("concurrency")
    concurrency = requested if isinstance(requested, int) and requested >= 1 else CONCURRENCY
    return {**LIMITS, "concurrency": concurrency, **stated}
