"""Validates a value against a checked JSON Schema, with a step budget and a sentence for each error.

The library `jsonschema` is not used for this because it quotes whole values in its messages, runs patterns with
exponential backtracking, and cannot be stopped. A test compares the verdicts of both.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcc.rules.errors import Frame, StepsExhausted
from mcc.rules.functions import searcher
from mcc.rules.kinds import describe
from mcc.rules.operators import equal
from mcc.rules.schema_form import Form, Schema

MAX_ERRORS = 10
MAX_STEPS = 150_000
"""Step budget of one validation; a step takes about a microsecond."""

Location = tuple[str | int, ...]
Error = tuple[Location, str]
Keyword = Callable[["Validation", Any, Any, Mapping[str, Any], Location], None]
"""Checks one keyword and calls `Validation.add_error`. Arguments: validation, value, the keyword's value, the schema
that contains the keyword, the value's location."""

Keywords = Mapping[str, tuple[type | None, Keyword]]
"""By keyword, the only type of value that it applies to (None = any), and its check."""


class _TooManyErrors(Exception):
    """`MAX_ERRORS` errors have been found; the rest of the value is not checked."""


def violations(form: Form, value: Any) -> tuple[str, ...]:
    """At most `MAX_ERRORS` sentences with their locations. `value` is plain JSON of a bounded size."""
    validation = Validation(form)
    try:
        validation.check(value, form.root, ())
    except _TooManyErrors:
        pass
    except (StepsExhausted, RecursionError):
        return ("This is too large or too deep to be checked; hand in less.",)
    return tuple(
        f"{path_text(location)}: {sentence}" if location else sentence for location, sentence in validation.errors
    )


def path_text(location: Location) -> str:
    """A location in a message: `findings[2].path`."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step[:80]}" if text else step[:80]
    return text


class Validation:
    """The state of validating one value: the errors so far, and the steps left."""

    def __init__(self, form: Form) -> None:
        self._targets = form.targets
        self._frame = Frame([], MAX_STEPS)
        self._trials = 0
        self.errors: list[Error] = []

    def check(self, value: Any, schema: Schema, at: Location) -> None:
        """Add an error to `errors` for each part of `value` that does not fit `schema`."""
        self._frame.spend(1)
        if isinstance(schema, bool):
            if not schema:
                self.add_error(at, "nothing may stand here; leave it out")
            return
        for key, wanted in schema.items():
            kind, keyword = KEYWORDS.get(key, (None, None))
            if keyword is not None and (kind is None or type(value) is kind):
                self._frame.spend(1)
                keyword(self, value, wanted, schema, at)

    def errors_of(self, value: Any, schema: Schema, at: Location) -> list[Error]:
        """The errors of `value` against `schema`, without adding them to `errors`."""
        outer, self.errors = self.errors, []
        self._trials += 1
        self.check(value, schema, at)
        self._trials -= 1
        found, self.errors = self.errors, outer
        return found

    def add_error(self, at: Location, sentence: str) -> None:
        if len(self.errors) < MAX_ERRORS:
            self.errors.append((at, sentence))
        elif not self._trials:
            raise _TooManyErrors

    def equal(self, left: Any, right: Any) -> bool:
        return equal(self._frame, left, right)

    def matches(self, text: str, pattern: str) -> bool:
        compiled = searcher(pattern)
        self.spend(5 + len(text) * compiled.programsize // 200)
        return compiled.search(text.encode("utf-8", "replace")) is not None

    def spend(self, steps: int) -> None:
        self._frame.spend(steps)

    def target(self, ref: str) -> Schema:
        return self._targets[ref]


Part = Mapping[str, Any]

_TYPE_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
_TYPES: Mapping[str, type] = {"array": list, "boolean": bool, "null": type(None), "object": dict, "string": str}


def _type(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    names = [wanted] if isinstance(wanted, str) else wanted
    if not any(_is(value, name) for name in names):
        validation.add_error(
            at, f"must be {' or '.join(_TYPE_WORDS[name] for name in names)}, and is {describe(value)}"
        )


def _is(value: Any, name: str) -> bool:
    if name == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    if name == "number":
        return type(value) is int or type(value) is float
    return type(value) is _TYPES[name]


def _enum(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    if not any(validation.equal(value, one) for one in wanted):
        listed = ", ".join(_quoted(one) for one in wanted[:20]) + (", …" if len(wanted) > 20 else "")
        validation.add_error(at, f"must be one of {listed}, and is {_quoted(value)}")


def _const(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    if not validation.equal(value, wanted):
        validation.add_error(at, f"must be {_quoted(wanted)}, and is {_quoted(value)}")


def _quoted(value: Any) -> str:
    """A short value as JSON, a long one cut or only described."""
    if isinstance(value, str):
        return f'"{value[:60]}…"' if len(value) > 60 else f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) or (isinstance(value, int) and value.bit_length() < 200):
        return str(value)
    return describe(value)


def _number(good: Callable[[Any, Any], bool], asked: str) -> Keyword:
    def keyword(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
        if type(value) in (int, float) and not good(value, wanted):
            validation.add_error(at, f"must be {asked} {_quoted(wanted)}, and is {_quoted(value)}")

    return keyword


def _multiple(value: Any, wanted: Any) -> bool:
    """Whether `value` is a multiple of `wanted`. False when their quotient exceeds the range of floats."""
    try:
        return bool((value / wanted).is_integer() if isinstance(wanted, float) else value % wanted == 0)
    except OverflowError:
        return False


def _size(good: Callable[[Any, Any], bool], asked: str, of: str) -> Keyword:
    def keyword(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
        if not good(len(value), wanted):
            validation.add_error(at, f"must have {asked} {wanted} {of}, and has {len(value)}")

    return keyword


def _pattern(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    if not validation.matches(value, wanted):
        validation.add_error(at, f"must match the pattern {wanted[:100]}, and is {_quoted(value)}")


def _unique(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    seen: dict[Any, int] = {}
    for index, item in enumerate(value if wanted else ()):
        first = seen.setdefault(_frozen(validation, item), index)
        if first != index:
            validation.add_error((*at, index), f"is the same as [{first}]; each may stand there once")


def _frozen(validation: Validation, value: Any) -> Any:
    """A hashable form of `value`; two forms are equal exactly when their values are."""
    validation.spend(1)
    if type(value) is list:
        return ("list", *(_frozen(validation, item) for item in value))
    if type(value) is dict:
        return ("object", frozenset((key, _frozen(validation, item)) for key, item in value.items()))
    return (type(value) is bool, value)


def _contains(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    least, most = part.get("minContains", 1), part.get("maxContains")
    found = sum(not validation.errors_of(item, wanted, at) for item in value)
    if found < least:
        validation.add_error(at, f"must contain {least} or more of the described items, and has {found}")
    elif most is not None and found > most:
        validation.add_error(at, f"must contain {most} or fewer of the described items, and has {found}")


def _required(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for name in wanted:
        if name not in value:
            validation.add_error((*at, name), "is required")


def _dependent_required(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for key, names in wanted.items():
        for name in names:
            if key in value and name not in value:
                validation.add_error((*at, name), f"is required where {key[:60]} is given")


def _properties(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for key, below in wanted.items():
        if key in value:
            validation.check(value[key], below, (*at, key))


def _pattern_properties(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for pattern, below in wanted.items():
        for key, item in value.items():
            if validation.matches(key, pattern):
                validation.check(item, below, (*at, key))


def _additional(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    known, patterns = part.get("properties", {}), part.get("patternProperties", {})
    for key, item in value.items():
        if key in known or any(validation.matches(key, pattern) for pattern in patterns):
            continue
        if wanted is False:
            hint = f"; there is: {', '.join(list(known)[:20])}" if known else ""
            validation.add_error((*at, key), f"is not a property here{hint}")
        else:
            validation.check(item, wanted, (*at, key))


def _names(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for key in value:
        errors = validation.errors_of(key, wanted, at)
        if errors:
            validation.add_error((*at, key), f"cannot be the name of a property here: it {errors[0][1]}")


def _items(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    first = len(part.get("prefixItems", ()))
    for index, item in enumerate(value[first:], first):
        validation.check(item, wanted, (*at, index))


def _prefix(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for index, (item, below) in enumerate(zip(value, wanted, strict=False)):
        validation.check(item, below, (*at, index))


def _dependent_schemas(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for key, below in wanted.items():
        if key in value:
            validation.check(value, below, at)


def _all_of(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    for below in wanted:
        validation.check(value, below, at)


def _any_of(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    attempts = []
    for below in wanted:
        attempts.append(validation.errors_of(value, below, at))
        if not attempts[-1]:
            return
    _add_nearest_error(validation, attempts, at)


def _one_of(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    attempts = [validation.errors_of(value, below, at) for below in wanted]
    fitting = [str(number) for number, errors in enumerate(attempts, 1) if not errors]
    if len(fitting) > 1:
        validation.add_error(at, f"fits the alternatives {' and '.join(fitting[:5])}, and must fit exactly one")
    elif not fitting:
        _add_nearest_error(validation, attempts, at)


def _add_nearest_error(validation: Validation, attempts: list[list[Error]], at: Location) -> None:
    """Add the first error of the alternative that fits best, which is the one whose first error lies deepest."""
    location, sentence = max((errors[0] for errors in attempts), key=lambda error: len(error[0]))
    if len(location) > len(at) or len(attempts) == 1:
        validation.add_error(location, sentence)
    else:
        reasons = dict.fromkeys(errors[0][1] for errors in attempts)
        validation.add_error(at, f"fits none of the alternatives: it {'; or it '.join(list(reasons)[:4])}")


def _not(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    if not validation.errors_of(value, wanted, at):
        validation.add_error(at, "is what the schema excludes")


def _if(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    branch = "else" if validation.errors_of(value, wanted, at) else "then"
    validation.check(value, part.get(branch, True), at)


def _ref(validation: Validation, value: Any, wanted: Any, part: Part, at: Location) -> None:
    validation.check(value, validation.target(wanted), at)


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
"""Other keywords, such as `format` and annotations, do not restrict a value."""
