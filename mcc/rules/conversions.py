"""Conversions of CEL: a value of one kind made into another, or a fault when none fits."""

import functools
import math
from typing import Any

from mcc.rules.errors import Fault, Frame
from mcc.rules.kinds import MAX_INT, MAX_UINT, Uint, word
from mcc.rules.patterns import Pattern
from mcc.rules.times import Duration, Timestamp, duration, timestamp

_CHARACTERS = 400
"""Of a text that is read as a number."""
_TRUTHS = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}
_READING = 16
"""Steps of reading a time, a duration or a number that a text says."""
_EACH = 6
"""Steps for each character of a duration."""
_PLAIN = 1e21
"""From here on a double is written with its exponent."""


def to_int(frame: Frame, value: Any) -> int:
    if isinstance(value, Timestamp):
        return value.nanos // 1_000_000_000
    frame.spend(_READING)
    found = _whole(value, "int")
    # -2**63 as a double may have been anything below it, so it is refused like 2**63.
    if not -MAX_INT - 1 <= found <= MAX_INT or (type(value) is float and found == -MAX_INT - 1):
        raise _no_such("int", value)
    return found


def to_uint(frame: Frame, value: Any) -> Uint:
    frame.spend(_READING)
    found = _whole(value, "uint")
    if not 0 <= found <= MAX_UINT:
        raise _no_such("uint", value)
    return Uint(found)


def _whole(value: Any, name: str) -> int:
    """The number without what stands behind its point."""
    if type(value) is float:
        if not math.isfinite(value):
            raise _no_such(name, value)
        return int(value)
    if type(value) is str:
        digits = value[1:] if value[:1] in ("-", "+") else value
        if len(value) > _CHARACTERS or not (digits.isascii() and digits.isdigit()):
            raise _no_such(name, value)
        return int(value)
    return int(value)


@functools.cache
def _double() -> Pattern:
    return Pattern(
        r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)",
        ignore_case=True,
    )


def to_double(frame: Frame, value: Any) -> float:
    frame.spend(_READING)
    if type(value) is str and (len(value) > _CHARACTERS or _double().fullmatch(value) is None):
        raise _no_such("double", value)
    try:
        found = float(value)
    except OverflowError as error:
        raise _no_such("double", value) from error
    if type(value) is str and math.isinf(found) and "inf" not in value.lower():
        raise _no_such("double", value)
    return found


def _no_such(name: str, value: object) -> Fault:
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
        return _written(value)
    if exact is int and value.bit_length() > 64:
        raise Fault(f"makes string of {word(value)} beyond 64 bits")
    return str(value)


def _written(number: float) -> str:
    """A whole double is written like an int: JSON does not tell them apart either."""
    if math.isinf(number) or math.isnan(number):
        return "NaN" if number != number else "+Inf" if number > 0 else "-Inf"
    return f"{number:.0f}" if number.is_integer() and abs(number) < _PLAIN else repr(number)


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
    if value not in _TRUTHS:
        raise Fault(f"makes bool of {value[:40]!r}; write true or false")
    return _TRUTHS[value]


def to_timestamp(frame: Frame, value: int | str | Timestamp) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    frame.spend(2 * _READING)
    return Timestamp(value * 1_000_000_000) if isinstance(value, int) else timestamp(value)


def to_duration(frame: Frame, value: str | Duration) -> Duration:
    if isinstance(value, Duration):
        return value
    # Every number with its unit is found by a search of its own.
    frame.spend(_READING + _EACH * min(len(value), _CHARACTERS))
    return duration(value)
