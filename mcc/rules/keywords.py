"""This room is for the keywords of JSON Schema: what each asks of a value, and the sentence when it is not so."""

from collections.abc import Callable, Mapping
from typing import Any

from mcc.rules.fitting import Error, Holding, Keyword, Keywords, Place
from mcc.rules.values import word

Part = Mapping[str, Any]

_CALLED = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
_TYPES: Mapping[str, type] = {"array": list, "boolean": bool, "null": type(None), "object": dict, "string": str}


def _type(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    names = [wanted] if isinstance(wanted, str) else wanted
    if not any(_is(value, name) for name in names):
        holding.wrong(at, f"must be {' or '.join(_CALLED[name] for name in names)}, and is {word(value)}")


def _is(value: Any, name: str) -> bool:
    if name == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    if name == "number":
        return type(value) is int or type(value) is float
    return type(value) is _TYPES[name]


def _enum(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    if not any(holding.equal(value, one) for one in wanted):
        listed = ", ".join(_quoted(one) for one in wanted[:20]) + (", …" if len(wanted) > 20 else "")
        holding.wrong(at, f"must be one of {listed}, and is {_quoted(value)}")


def _const(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    if not holding.equal(value, wanted):
        holding.wrong(at, f"must be {_quoted(wanted)}, and is {_quoted(value)}")


def _quoted(value: Any) -> str:
    """A value as JSON would write it, when it is short."""
    if isinstance(value, str):
        return f'"{value[:60]}…"' if len(value) > 60 else f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 200):
        return str(value)
    return word(value)


def _number(good: Callable[[Any, Any], bool], asked: str) -> Keyword:
    def keyword(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
        if type(value) in (int, float) and not good(value, wanted):
            holding.wrong(at, f"must be {asked} {_quoted(wanted)}, and is {_quoted(value)}")

    return keyword


def _multiple(value: Any, wanted: Any) -> bool:
    """A quotient beyond what floats carry is taken for no multiple."""
    try:
        return bool((value / wanted).is_integer() if isinstance(wanted, float) else value % wanted == 0)
    except OverflowError:
        return False


def _size(good: Callable[[Any, Any], bool], asked: str, of: str) -> Keyword:
    def keyword(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
        if not good(len(value), wanted):
            holding.wrong(at, f"must have {asked} {wanted} {of}, and has {len(value)}")

    return keyword


def _pattern(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    if not holding.matches(value, wanted):
        holding.wrong(at, f"must match the pattern {wanted[:100]}, and is {_quoted(value)}")


def _unique(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    seen: dict[Any, int] = {}
    for index, item in enumerate(value if wanted else ()):
        first = seen.setdefault(_frozen(holding, item), index)
        if first != index:
            holding.wrong((*at, index), f"is the same as [{first}]; each may stand there once")


def _frozen(holding: Holding, value: Any) -> Any:
    """Hashable, and equal exactly when the values are."""
    holding.spend(1)
    if type(value) is list:
        return ("list", *(_frozen(holding, item) for item in value))
    if type(value) is dict:
        return ("object", frozenset((key, _frozen(holding, item)) for key, item in value.items()))
    return (type(value) is bool, value)


def _contains(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    least, most = part.get("minContains", 1), part.get("maxContains")
    found = sum(not holding.tried(item, wanted, at) for item in value)
    if found < least:
        holding.wrong(at, f"must contain {least} or more of the described items, and has {found}")
    elif most is not None and found > most:
        holding.wrong(at, f"must contain {most} or fewer of the described items, and has {found}")


def _required(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for name in wanted:
        if name not in value:
            holding.wrong((*at, name), "is required")


def _dependent_required(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for key, names in wanted.items():
        for name in names:
            if key in value and name not in value:
                holding.wrong((*at, name), f"is required where {key[:60]} is given")


def _properties(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for key, below in wanted.items():
        if key in value:
            holding.hold(value[key], below, (*at, key))


def _pattern_properties(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for pattern, below in wanted.items():
        for key, item in value.items():
            if holding.matches(key, pattern):
                holding.hold(item, below, (*at, key))


def _additional(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    known, patterns = part.get("properties", {}), part.get("patternProperties", {})
    for key, item in value.items():
        if key in known or any(holding.matches(key, pattern) for pattern in patterns):
            continue
        if wanted is False:
            hint = f"; there is: {', '.join(list(known)[:20])}" if known else ""
            holding.wrong((*at, key), f"is not a property here{hint}")
        else:
            holding.hold(item, wanted, (*at, key))


def _names(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for key in value:
        errors = holding.tried(key, wanted, at)
        if errors:
            holding.wrong((*at, key), f"cannot be the name of a property here: it {errors[0][1]}")


def _items(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    first = len(part.get("prefixItems", ()))
    for index, item in enumerate(value[first:], first):
        holding.hold(item, wanted, (*at, index))


def _prefix(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for index, (item, below) in enumerate(zip(value, wanted, strict=False)):
        holding.hold(item, below, (*at, index))


def _dependent_schemas(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for key, below in wanted.items():
        if key in value:
            holding.hold(value, below, at)


def _all_of(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    for below in wanted:
        holding.hold(value, below, at)


def _any_of(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    attempts = []
    for below in wanted:
        attempts.append(holding.tried(value, below, at))
        if not attempts[-1]:
            return
    _tell_nearest(holding, attempts, at)


def _one_of(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    attempts = [holding.tried(value, below, at) for below in wanted]
    fitting = [str(number) for number, errors in enumerate(attempts, 1) if not errors]
    if len(fitting) > 1:
        holding.wrong(at, f"fits the alternatives {' and '.join(fitting[:5])}, and must fit exactly one")
    elif not fitting:
        _tell_nearest(holding, attempts, at)


def _tell_nearest(holding: Holding, attempts: list[list[Error]], at: Place) -> None:
    """What is missing for the alternative that came nearest: the one whose first error lies deepest."""
    place, said = max((errors[0] for errors in attempts), key=lambda error: len(error[0]))
    if len(place) > len(at) or len(attempts) == 1:
        holding.wrong(place, said)
    else:
        reasons = dict.fromkeys(errors[0][1] for errors in attempts)
        holding.wrong(at, f"fits none of the alternatives: it {'; or it '.join(list(reasons)[:4])}")


def _not(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    if not holding.tried(value, wanted, at):
        holding.wrong(at, "is what the schema excludes")


def _if(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    branch = "else" if holding.tried(value, wanted, at) else "then"
    holding.hold(value, part.get(branch, True), at)


def _ref(holding: Holding, value: Any, wanted: Any, part: Part, at: Place) -> None:
    holding.hold(value, holding.target(wanted), at)


def _at_most(found: Any, wanted: Any) -> bool:
    return bool(found <= wanted)


def _at_least(found: Any, wanted: Any) -> bool:
    return bool(found >= wanted)


KEYWORDS: Keywords = {
    "$ref": (None, _ref),
    "type": (None, _type),
    "enum": (None, _enum),
    "const": (None, _const),
    "multipleOf": (None, _number(_multiple, "a multiple of")),
    "maximum": (None, _number(_at_most, "at most")),
    "exclusiveMaximum": (None, _number(lambda value, wanted: value < wanted, "less than")),
    "minimum": (None, _number(_at_least, "at least")),
    "exclusiveMinimum": (None, _number(lambda value, wanted: value > wanted, "more than")),
    "maxLength": (str, _size(_at_most, "at most", "characters")),
    "minLength": (str, _size(_at_least, "at least", "characters")),
    "pattern": (str, _pattern),
    "maxItems": (list, _size(_at_most, "at most", "items")),
    "minItems": (list, _size(_at_least, "at least", "items")),
    "uniqueItems": (list, _unique),
    "contains": (list, _contains),
    "items": (list, _items),
    "prefixItems": (list, _prefix),
    "maxProperties": (dict, _size(_at_most, "at most", "properties")),
    "minProperties": (dict, _size(_at_least, "at least", "properties")),
    "required": (dict, _required),
    "dependentRequired": (dict, _dependent_required),
    "properties": (dict, _properties),
    "patternProperties": (dict, _pattern_properties),
    "additionalProperties": (dict, _additional),
    "propertyNames": (dict, _names),
    "dependentSchemas": (dict, _dependent_schemas),
    "allOf": (None, _all_of),
    "anyOf": (None, _any_of),
    "oneOf": (None, _one_of),
    "not": (None, _not),
    "if": (None, _if),
}
"""`format` and what only describes asks nothing."""
