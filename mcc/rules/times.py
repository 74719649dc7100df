"""CEL's timestamps and durations in nanoseconds: parsing, formatting, and their parts in a time zone."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from mcc.rules.errors import Fault, Frame
from mcc.rules.patterns import Pattern

_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = -62_135_596_800
_LAST = 253_402_300_799
"""CEL's range of timestamps, in seconds since 1970: the first second of the year 1 to the last of the year 9999."""
_LONGEST = 2**63 - 1
"""The longest duration in nanoseconds, about 292 years."""
_UNITS = {
    "h": 3_600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 1_000_000,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ns": 1,
}
_MAX_CHARACTERS = 100
"""Longest text of a timestamp, of a duration or of the name of a time zone."""
_ZONE_STEPS = 400
"""Cost of loading a time zone's table. Also charged when it is cached, so that verdicts do not depend on caches."""


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970 in UTC, from the year 1 to the year 9999. Raises `Fault` outside that range."""

    nanos: int

    def __post_init__(self) -> None:
        if not _FIRST <= self.nanos // _SECOND <= _LAST:
            raise Fault("is a time before the year 1 or after the year 9999")

    def __str__(self) -> str:
        """In the format of RFC 3339, in UTC: `2009-02-13T23:31:30.5Z`."""
        seconds, nanos = divmod(self.nanos, _SECOND)
        moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
        return f"{moment.isoformat()}{_fraction(nanos)}Z"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """Nanoseconds, positive or negative, within 64 bits. Raises `Fault` outside that range."""

    nanos: int

    def __post_init__(self) -> None:
        if abs(self.nanos) > _LONGEST:
            raise Fault("is a duration of more than 292 years")

    def __str__(self) -> str:
        """In seconds: `-1.5s`."""
        seconds, nanos = divmod(abs(self.nanos), _SECOND)
        return f"{'-' if self.nanos < 0 else ''}{seconds}{_fraction(nanos)}s"


def _fraction(nanos: int) -> str:
    return f".{nanos:09d}".rstrip("0").rstrip(".")


@functools.cache
def _timestamp_pattern() -> Pattern:
    return Pattern(
        r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?([Zz]|[+-][0-9]{2}:[0-9]{2})"
    )


@functools.cache
def _duration_part_pattern() -> Pattern:
    return Pattern(r"([0-9]{0,20})(?:\.([0-9]{0,20}))?(h|ms|m|s|us|µs|μs|ns)")


def timestamp(text: str) -> Timestamp:
    """Parse a timestamp in the format of RFC 3339. Raises `Fault`."""
    match = _timestamp_pattern().fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        raise Fault(f"reads {text[:40]!r} as a time; write it like 2009-02-13T23:31:30Z")
    numbers = [int(match[group]) for group in range(1, 7)]
    try:
        moment = datetime(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], tzinfo=UTC)
    except ValueError as error:
        raise Fault(f"reads {text[:40]!r} as a time, and no calendar has it") from error
    since = moment - _EPOCH
    zone = match[8]
    offset = 0 if zone in "Zz" else _offset_minutes(zone) * 60
    seconds = since.days * 86_400 + since.seconds - offset
    return Timestamp(seconds * _SECOND + int((match[7] or "").ljust(9, "0")))


def duration(text: str) -> Duration:
    """Parse a duration: numbers with the units h, m, s, ms, us or ns, one after another. Raises `Fault`."""
    sign = -1 if text.startswith("-") else 1
    body = text[1:] if text[:1] in ("-", "+") else text
    fault = Fault(f"reads {text[:40]!r} as a duration; write it like 1h30m, 90s or 1.5s")
    if body == "0":
        return Duration(0)
    if not body or len(body) > _MAX_CHARACTERS:
        raise fault
    total = at = 0
    while at < len(body):
        part = _duration_part_pattern().match(body, at)
        if part is None or not (part[1] or part[2]):
            raise fault
        unit, fraction = _UNITS[part[3]], part[2] or ""
        total += int(part[1] or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        at += len(part.group())
    return Duration(sign * total)


def _offset_minutes(offset: str) -> int:
    """Minutes east of UTC for `+05:30`, `-02:00` or `02:00`. Raises `Fault`."""
    sign = -1 if offset.startswith("-") else 1
    hours, _, minutes = offset.lstrip("+-").partition(":")
    if int(hours) > 23 or int(minutes) > 59:
        raise Fault(f"reads {offset!r} as a time zone; it has up to 23 hours and 59 minutes")
    return sign * (int(hours) * 60 + int(minutes))


@functools.cache
def _offset_pattern() -> Pattern:
    return Pattern(r"[+-]?[0-9]{2}:[0-9]{2}")


def _zone(frame: Frame, name: str) -> tzinfo:
    frame.spend(_ZONE_STEPS)
    if len(name) <= _MAX_CHARACTERS and _offset_pattern().fullmatch(name):
        return timezone(timedelta(minutes=_offset_minutes(name)))
    try:
        return ZoneInfo(name if 0 < len(name) <= _MAX_CHARACTERS else "?")
    except (KeyError, ValueError, OSError) as error:
        raise Fault(f"uses the time zone {name[:40]!r}, which is not known; write one like Europe/Berlin") from error


CALENDAR: Mapping[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
}
"""Methods that only timestamps have. Months, `getDayOfMonth` and `getDayOfYear` count from 0, as CEL defines them."""

CLOCK: Mapping[str, tuple[Callable[[datetime], int], int]] = {
    "getHours": (lambda at: at.hour, _UNITS["h"]),
    "getMinutes": (lambda at: at.minute, _UNITS["m"]),
    "getSeconds": (lambda at: at.second, _SECOND),
}
"""Methods of timestamps and durations: the part of a timestamp's clock time, and the unit in nanoseconds in which the
method gives the whole of a duration."""


def civil(frame: Frame, time: Timestamp, zone: str = "UTC") -> datetime:
    """`time` in the time zone `zone`: a name such as `Europe/Berlin`, or an offset such as `+05:30`. Raises `Fault`."""
    moment = _EPOCH + timedelta(seconds=time.nanos // _SECOND)
    if zone == "UTC":
        return moment
    try:
        return moment.astimezone(_zone(frame, zone))
    except OverflowError as error:
        raise Fault("is a time before the year 1 or after the year 9999 in that time zone") from error


def whole_units(duration: Duration, unit: int) -> int:
    """`duration` in units of `unit` nanoseconds, rounded towards zero."""
    count = abs(duration.nanos) // unit
    return count if duration.nanos >= 0 else -count


def milliseconds(value: Timestamp | Duration) -> int:
    """The milliseconds beyond the last whole second."""
    if isinstance(value, Timestamp):
        return value.nanos % _SECOND // 1_000_000
    return whole_units(Duration(value.nanos - whole_units(value, _SECOND) * _SECOND), 1_000_000)
