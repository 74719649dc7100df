"""Permission: what the operator, an agent file, a mode and an order say of tool calls, and what was made of that."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, WrapValidator
from pydantic_core import PydanticCustomError

from mcc.contracts.shape import Closed, Text

Word = Literal["allow", "ask", "deny"]
"""What becomes of a call, the strictest one last."""

Effects: TypeAlias = Literal["none", "read", "write", "execute", "network", "irreversible"]
"""The most that a call of a tool may do to the world outside the turn."""

Mode = Literal["develop", "plan", "build", "test", "ship"]
"""What an order is for; every mode but `develop` adds permission of its own."""

OnAsk = Literal["wait", "deny"]
"""What becomes of a call that is to be asked for: the order waits for a person, or the call is denied at once."""

RULES = 100
KEYS = 200
"""Rules of one key, and keys of one layer."""

PERMISSION_KEY = r"^[A-Za-z0-9_*?.:-]{1,100}$"
PermissionKey = Annotated[str, StringConstraints(pattern=PERMISSION_KEY)]
"""The name of a tool, a glob over such names (`*`, `?`), the name of a group, or `*` for all."""


class PermissionRule(Closed):
    """`when` is CEL over one call, None = always; `message` says why, to people and to the model."""

    when: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    then: Word
    message: Annotated[str, StringConstraints(max_length=2_000)] = ""


_Rules = Annotated[tuple[PermissionRule, ...], Field(min_length=1, max_length=RULES)]
_RULES: TypeAdapter[tuple[PermissionRule, ...]] = TypeAdapter(_Rules)
_WORDS = 'Input should be "allow", "ask" or "deny", or a list of rules such as [{then = "ask"}]'


def _word_or_rules(value: object, _: object) -> object:
    """A mistake is told of the shape that was meant, and not of both."""
    if isinstance(value, str) and value in get_args(Word):
        return value
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("permission", _WORDS)
    try:
        return _RULES.validate_python(value)
    except ValidationError as error:
        raise PydanticCustomError("permission", "{said}", {"said": _said(error)}) from None


def _said(error: ValidationError) -> str:
    """The first mistake of a list of rules, where it is and, of a key that nobody knows, what there is."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    if first["type"] == "extra_forbidden":
        near = [name for name in PermissionRule.model_fields if name[:1] == str(first["loc"][-1])[:1].lower()]
        meant = f"did you mean {near[0]!r}?" if near else "a rule has when, then and message"
        return f"rule {place}: there is no such key; {meant}"
    if first["type"] == "model_type":
        return f'rule {place}: Input should be a rule, such as {{then = "ask"}}'
    return f"rule {place}: {first['msg']}" if place else first["msg"].replace("Tuple", "List")


WordOrRules: TypeAlias = Annotated[Word | _Rules, WrapValidator(_word_or_rules)]

Permission: TypeAlias = Annotated[Mapping[PermissionKey, WordOrRules], Field(max_length=KEYS)]
"""A word, or rules of which the first that holds counts, by key. Of several keys that fit a call the most specific one
counts: the name, then the longest glob, then the group, then `*`."""


LayerName = Literal["operator", "mode", "agent", "ancestor", "order", "default", "grant"]
"""Who said it. `ancestor`: the file of an agent above; `default`: nobody did, and the effects of the tool decide;
`grant`: an approval that a person let stand."""


class Why(Closed):
    """What decided over a call: which key of which layer, the condition that held there, and what it says."""

    layer: LayerName
    key: Text | None = None
    when: Text | None = None
    message: Text = ""


class SavedRule(Closed):
    """What would be saved when a person lets an approval stand: calls of `key` for which `when` holds."""

    key: PermissionKey
    when: Text | None = None
    then: Literal["allow"] = "allow"
