"""When a provider wants to be asked again: what its headers and its words say."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from mcc.rules.patterns import Pattern

LONGEST_TOLD = 366 * 86_400.0
SOON_SECONDS = 60.0
"""Whoever speaks of a day and names less has named the time of another limit."""

EPOCH_SECONDS, EPOCH_MILLISECONDS = 1e9, 1e12
"""Numbers from here on are moments, in seconds or milliseconds since 1970."""

_NUMBER = Pattern(r"\s*\d{1,9}(\.\d{1,9})?\s*")
_MOMENT = Pattern(r"\s*\d{10,13}(\.\d{1,9})?\s*")
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
_PART = Pattern(rf"(?i)(\d{{1,9}}(?:\.\d{{1,9}})?)\s{{0,2}}({_UNIT})")
_DURATION = Pattern(rf"(?i)\s*(?:\d{{1,9}}(?:\.\d{{1,9}})?\s{{0,2}}{_UNIT}\s{{0,2}})+")
_WORDED = Pattern(
    r"(?i)(?:try(?: your request)? again|retry|retrying|reset|resets|available|wait)"
    r"(?: again)?(?: in| after| for)?(?: about| approximately)?\s"
    rf"((?:\d{{1,9}}(?:\.\d{{1,9}})?\s{{0,2}}{_UNIT}(?:[\s,]| and){{0,2}})+)(?:[^a-z0-9]|$)"
)
_DELAY = Pattern(r'"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d{1,9})?s)"')
_LONG = Pattern(
    r"(?i)\bper[ -_]?(?:day|month)\b|PerDay|\b(?:daily|monthly)\b|\b[RT]PD\b|for today|"
    r"check your plan and billing|credit balance is too low|out of credits"
)
_IN_SECONDS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def header_seconds(headers: Mapping[str, str], now: float, *, limited: bool = True) -> float | None:
    """Seconds that the headers ask to wait at `now`, in seconds since the epoch; None when they say nothing that can
    be understood. `limited`: the answer tells of a rate limit, so that the times of those count."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "").strip()
    seconds = _number(said)
    if seconds is not None:
        return seconds
    if said and (date := _date(said, now)) is not None:
        return date
    return _room_again(headers, now) if limited else None


def worded_seconds(words: str) -> float | None:
    """Seconds that a sentence such as "try again in 1m6.5s" asks to wait; None where there is none."""
    if (found := _DELAY.search(words)) is not None:
        return _duration(str(found[1]))
    if (found := _WORDED.search(words)) is not None:
        return _duration(str(found[1]))
    return None


def spent_for_long(words: str, told: float | None) -> bool:
    """Whether a quota of a day or more is used up, or the money, and nobody said a time that can be waited for."""
    return (told is None or told < SOON_SECONDS) and _speaks_of_long(words, told)


def _speaks_of_long(words: str, told: float | None) -> bool:
    found = [match.group() for match in _LONG.finditer(words)]
    # Who names a time says in the same breath that plan and billing are to be looked at, whatever limit was met.
    return any("billing" not in one.lower() for one in found) if told is not None else bool(found)


def _room_again(headers: Mapping[str, str], now: float) -> float | None:
    """When the limits that are used up, of all that are told, have room again; the nearest one where none is said to
    be used up."""
    limits = list(_limits(headers, now))
    used = [seconds for seconds, is_used in limits if is_used]
    return max(used) if used else min((seconds for seconds, _ in limits), default=None)


def _limits(headers: Mapping[str, str], now: float) -> Iterator[tuple[float, bool]]:
    """The limits of the headers: seconds until they have room again, and whether they are said to be used up."""
    for name, said in headers.items():
        name = name.lower()
        if "ratelimit" not in name or "reset" not in name:
            continue
        seconds = _until(said, now)
        if seconds is not None:
            yield seconds, headers.get(name.replace("reset", "remaining"), "").strip() in ("0", "0.0")


def _until(said: str, now: float) -> float | None:
    """Seconds that "6m0s", "12", a moment since the epoch or a date of ISO 8601 mean at `now`."""
    if _MOMENT.fullmatch(said):
        moment = float(said)
        return _future(moment / 1000 if moment >= EPOCH_MILLISECONDS else moment, now)
    seconds = _number(said)
    if seconds is not None:
        return _future(seconds, now) if seconds >= EPOCH_SECONDS else seconds
    if _DURATION.fullmatch(said):
        return _duration(said)
    try:
        date = datetime.fromisoformat(said.strip())
        return _future((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp(), now)
    except (ValueError, OverflowError):
        return None


def _future(moment: float, now: float) -> float | None:
    left = max(0.0, moment - now)
    return left if left <= LONGEST_TOLD else None


def _duration(said: str) -> float:
    return sum(float(found[1]) * _of(str(found[2]).lower()) for found in _PART.finditer(said))


def _of(unit: str) -> float:
    return 0.001 if unit == "ms" or unit.startswith("milli") else _IN_SECONDS[unit[0]]


def _date(said: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _number(said: str) -> float | None:
    return float(said) if _NUMBER.fullmatch(said) else None
