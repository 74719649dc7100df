"""Type checks of field values: text, number, boolean, choice, list, date, reference."""

import math
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from mcc.contracts.blueprints import FieldSpec, ListField, NumberField
from mcc.rules.patterns import Pattern

_DATE = Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TOO_LARGE = 10**300

Judge = Callable[[Any], str | None]


def check_kind(spec: FieldSpec, value: object) -> str | None:
    """A sentence that says why `value` does not have the field's type; None where it has. Null fits every type.

    Only the type is checked: a text that is too short or a choice outside the options breaks a rule, not the type.
    """
    if value is None:
        return None
    if isinstance(spec, ListField):
        return _list(spec, value)
    return _KINDS[spec.type](value)


def as_stored(spec: FieldSpec, value: Any) -> Any:
    """`value`, already of the field's type, in its stored form: 45.0 in a field of whole numbers becomes 45."""
    if isinstance(spec, NumberField) and spec.integer and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(spec, ListField) and isinstance(value, list | tuple):
        return [as_stored(spec.items, item) for item in value]
    return value


def as_date(text: str) -> date | None:
    """The date written as YYYY-MM-DD; None for any other text."""
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def word_for(value: object) -> str:
    """The everyday name of the value's JSON type, for error messages."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "a list"
    return "an object"


def _list(spec: ListField, value: object) -> str | None:
    if not isinstance(value, list | tuple):
        return f"This must be a list, and {word_for(value)} was given."
    for place, item in enumerate(value):
        why = "An item of a list cannot be null." if item is None else check_kind(spec.items, item)
        if why:
            return f"Item {place + 1}: {why}"
    return None


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else f"This must be a text, and {word_for(value)} was given."


def _number(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"This must be a number, and {word_for(value)} was given."
    if isinstance(value, int):
        return None if abs(value) < _TOO_LARGE else "This number has more than 300 digits."
    return None if math.isfinite(value) else f"This must be a number, and JSON does not have {value}."


def _boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else f"This must be true or false, and {word_for(value)} was given."


def _choice(value: object) -> str | None:
    return (
        None if isinstance(value, str) else f"This must be one of its options, a text, and {word_for(value)} was given."
    )


def _date(value: object) -> str | None:
    if not isinstance(value, str):
        return f"This must be a date, such as 2026-01-31, and {word_for(value)} was given."
    return (
        None
        if as_date(value) is not None
        else f"This must be a date, such as 2026-01-31, and {value[:40]!r} is not one."
    )


def _reference(value: object) -> str | None:
    if not isinstance(value, str):
        return f"This must be the path of a node, and {word_for(value)} was given."
    if value.startswith("/"):
        return None
    return f"This must be the path of a node, such as /lesson-2, and {value[:40]!r} is not one."


_KINDS: Mapping[str, Judge] = {
    "text": _text,
    "number": _number,
    "boolean": _boolean,
    "choice": _choice,
    "date": _date,
    "reference": _reference,
}
