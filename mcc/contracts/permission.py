"""Permission rules for tool calls, as written by operator, agent file, mode or order, and what decided over a call."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from mcc.contracts.shape import Closed, Text
from mcc.contracts.similar import closest_name

Word = Literal["allow", "ask", "deny"]
"""What a rule does with a call, the strictest last."""

Effects: TypeAlias = Literal["none", "read", "write", "execute", "network", "irreversible"]
"""The most that a call of a tool can do to the world outside the turn."""

Mode = Literal["develop", "plan", "build", "test", "ship"]
"""The purpose of an order; every mode except `develop` adds its own permission rules."""

OnAsk = Literal["wait", "deny"]
"""What happens to a call that needs approval: the order waits for a person, or the call is denied at once."""

RULES = 100
KEYS = 200
"""Most rules of one key, and most keys of one layer."""

PERMISSION_KEY = r"^[A-Za-z0-9_*?.:-]{1,100}$"
PermissionKey = Annotated[str, StringConstraints(pattern=PERMISSION_KEY)]
"""The name of a tool, a glob over such names (`*`, `?`), the name of a group, or `*` for all."""


class PermissionRule(Closed):
    """`when` is a CEL condition on one call, None = always; `message` tells people and the model why."""

    when: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    then: Word
    message: Annotated[str, StringConstraints(max_length=2_000)] = ""


_Rules = Annotated[tuple[PermissionRule, ...], Field(min_length=1, max_length=RULES)]
_RULES: TypeAdapter[tuple[PermissionRule, ...]] = TypeAdapter(_Rules)
_WORDS = 'Input should be "allow", "ask" or "deny", or a list of rules such as [{then = "ask"}]'


def _word_or_rules(value: object, _: object) -> object:
    """Reports errors only for the shape that was meant; pydantic would report those of both union members."""
    if isinstance(value, str) and value in get_args(Word):
        return value
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("permission", _WORDS)
    try:
        return _RULES.validate_python(value)
    except ValidationError as error:
        raise PydanticCustomError("permission", "{first}", {"first": _first_error(error)}) from None


def _first_error(error: ValidationError) -> str:
    """The first error in a list of rules, with its place; for an unknown key, also the key probably meant."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    if first["type"] == "extra_forbidden":
        near = closest_name(str(first["loc"][-1]), PermissionRule.model_fields)
        hint = f"did you mean {near!r}?" if near else "a rule has when, then and message"
        return f"rule {place}: there is no such key; {hint}"
    if first["type"] == "model_type":
        return f'rule {place}: Input should be a rule, such as {{then = "ask"}}'
    return f"rule {place}: {first['msg']}" if place else first["msg"].replace("Tuple", "List")


WordOrRules: TypeAlias = Annotated[Word | _Rules, WrapValidator(_word_or_rules)]

Permission: TypeAlias = Annotated[Mapping[PermissionKey, WordOrRules], Field(max_length=KEYS)]
"""By key, either one word, or rules of which the first whose condition holds decides. If several keys match a call, the
most specific one decides: the tool's name, then the longest glob, then the group, then `*`."""


LayerName = Literal["operator", "mode", "agent", "ancestor", "order", "default", "grant"]
"""Which layer a decision comes from. `ancestor`: the file of an agent above; `default`: no layer said anything, so the
tool's effects decide; `grant`: a standing approval that a person gave."""


class Why(Closed):
    """What decided over a call: the layer, its key, the condition that held, and the rule's message."""

    layer: LayerName
    key: Text | None = None
    when: Text | None = None
    message: Text = ""


class SavedRule(Closed):
    """The rule that a remembered approval saves: it allows calls that match `key` and for which `when` holds."""

    key: PermissionKey
    when: Text | None = None
    then: Literal["allow"] = "allow"
