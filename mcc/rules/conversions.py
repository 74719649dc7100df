"""CEL's type conversions: `int(…)`, `string(…)`, `timestamp(…)` and the others."""

import functools
import math
from typing import Any

from mcc.rules.errors import Fault, Frame
from mcc.rules.kinds import MAX_INT, MAX_UINT, Uint, describe
from mcc.rules.patterns import Pattern
from mcc.rules.times import Duration, Timestamp, duration, timestamp

_MAX_CHARACTERS = 400
"""Longest text that is parsed as a number."""
_BOOLS = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}
_PARSE_STEPS = 16
"""Cost of parsing a timestamp, a duration or a number."""
_DURATION_STEPS = 6
"""Cost of each character of a duration, because each number with its unit takes a regular expression match."""
_EXPONENT_FROM = 1e21
"""Doubles from this size on are written with an exponent."""


def to_int(frame: Frame, value: Any) -> int:
    if isinstance(value, Timestamp):
        return value.nanos // 1_000_000_000
    frame.spend(_PARSE_STEPS)
    number = _truncated(value, "int")
    # The double -2**63 may be the rounded form of a smaller number, so it is refused like 2**63.
    if not -MAX_INT - 1 <= number <= MAX_INT or (type(value) is float and number == -MAX_INT - 1):
        raise _not_a_number("int", value)
    return number


def to_uint(frame: Frame, value: Any) -> Uint:
    frame.spend(_PARSE_STEPS)
    number = _truncated(value, "uint")
    if not 0 <= number <= MAX_UINT:
        raise _not_a_number("uint", value)
    return Uint(number)


def _truncated(value: Any, name: str) -> int:
    """`value` as an integer, without the fraction of a double. Raises `Fault`, which says that there is no `name`."""
    if type(value) is float:
        if not math.isfinite(value):
            raise _not_a_number(name, value)
        return int(value)
    if type(value) is str:
        digits = value[1:] if value[:1] in ("-", "+") else value
        if len(value) > _MAX_CHARACTERS or not (digits.isascii() and digits.isdigit()):
            raise _not_a_number(name, value)
        return int(value)
    return int(value)


@functools.cache
def _double_pattern() -> Pattern:
    return Pattern(
        r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)",
        ignore_case=True,
    )


def to_double(frame: Frame, value: Any) -> float:
    frame.spend(_PARSE_STEPS)
    if type(value) is str and (len(value) > _MAX_CHARACTERS or _double_pattern().fullmatch(value) is None):
        raise _not_a_number("double", value)
    try:
        number = float(value)
    except OverflowError as error:
        raise _not_a_number("double", value) from error
    if type(value) is str and math.isinf(number) and "inf" not in value.lower():
        raise _not_a_number("double", value)
    return number


def _not_a_number(name: str, value: object) -> Fault:
    shown = repr(value[:40]) if isinstance(value, str) else "a number beyond its range"
    return Fault(f"makes {name} of {shown}, which is no such number")


def to_string(frame: Frame, value: Any) -> str:
    exact = type(value)
    if exact is str:
        return str(value)
    if exact is bool:
        return "true" if value else "false"
    if exact is bytes:
        frame.spend(len(value) >> 8)
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError as error:
            raise Fault("makes string of bytes that are not UTF-8") from error
    if exact is float:
        return _double_text(value)
    if exact is int and value.bit_length() > 64:
        raise Fault(f"makes string of {describe(value)} beyond 64 bits")
    return str(value)


def _double_text(number: float) -> str:
    """A whole double is written like an int, because JSON does not distinguish them either."""
    if math.isinf(number) or math.isnan(number):
        return "NaN" if number != number else "+Inf" if number > 0 else "-Inf"
    return f"{number:.0f}" if number.is_integer() and abs(number) < _EXPONENT_FROM else repr(number)


def to_bytes(frame: Frame, value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    frame.spend(len(value) >> 8)
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Fault("makes bytes of a text with half a character in it (a lone surrogate)") from error


def to_bool(frame: Frame, value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if value not in _BOOLS:
        raise Fault(f"makes bool of {value[:40]!r}; write true or false")
    return _BOOLS[value]


def to_timestamp(frame: Frame, value: int | str | Timestamp) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    frame.spend(2 * _PARSE_STEPS)
    return Timestamp(value * 1_000_000_000) if isinstance(value, int) else timestamp(value)


def to_duration(frame: Frame, value: str | Duration) -> Duration:
    if isinstance(value, Duration):
        return value
    frame.spend(_PARSE_STEPS + _DURATION_STEPS * min(len(value), _MAX_CHARACTERS))
    return duration(value)
