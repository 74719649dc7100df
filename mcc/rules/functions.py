"""Functions of expressions: what each takes, what it gives, what it costs."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import re2

from mcc.rules import conversions
from mcc.rules.errors import Fault, Frame
from mcc.rules.kinds import ANY, Kinds, Named, Null, Uint, kind, word, words
from mcc.rules.reads import READS, Reads
from mcc.rules.times import CALENDAR, CLOCK, Duration, Timestamp, civil, milliseconds, whole

MAX_PATTERN = 500
"""Characters of a regular expression."""
MAX_PROGRAM = 1_000
"""Instructions of a regular expression: `a{900}` has 900."""
READING = 400
"""Steps of reading a regular expression, paid also where it was kept: verdicts must not depend on what was."""

Act = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """`takes` says the kinds of each of its values (that before the dot is the first), `gives` those of its own.

    The last `optional` of the values may be missing. `about` is a variable that it looks at beside its values; `called`
    are the names of its values on the page that explains them.
    """

    name: str
    takes: tuple[Kinds, ...]
    gives: Kinds
    act: Act
    optional: int = 0
    about: str = ""
    called: tuple[str, ...] = ()

    def __call__(self, frame: Frame, *values: Any) -> Any:
        """Raises `Fault` for a value of a kind that the function does not take."""
        return _called(self, self.act, frame, values)

    def looking_at(self, slot: int) -> Act:
        """The function over the variable `about`, which stands in this slot."""

        def run(frame: Frame, *values: Any) -> Any:
            if (known := frame.slots[slot]) is None:
                raise Fault(f"calls {self.name} where nobody knows what was read")
            return _called(self, lambda frame, *values: self.act(frame, known, *values), frame, values)

        return run

    def of_known_pattern(self, frame: Frame, *values: Any) -> Any:
        """`matches`, where the pattern was read when the expression was declared."""
        return _called(self, matches_known, frame, values)


def _called(function: Function, act: Act, frame: Frame, values: tuple[Any, ...]) -> Any:
    for value, kinds in zip(values, function.takes, strict=False):
        if type(value) not in kinds:
            raise Fault(f"calls {function.name} with {word(value)}, and it takes {words(kinds)}")
    return act(frame, *values)


def _size(frame: Frame, value: Any) -> int:
    """The size of null is 0: what was not set is empty."""
    return 0 if value is None else len(value)


def _of_texts(act: Callable[[str, str], bool]) -> Act:
    def run(frame: Frame, text: str, part: str) -> bool:
        frame.spend(len(text) >> 8)
        return act(text, part)

    return run


def matches(frame: Frame, text: str, pattern: str) -> bool:
    """Whether RE2 finds `pattern` anywhere in `text`, where the pattern is not known before."""
    frame.spend(READING)
    return matches_known(frame, text, pattern)


def matches_known(frame: Frame, text: str, pattern: str) -> bool:
    """The same for a pattern that was read before: linear in the text, and in the size of the pattern's program."""
    found = searcher(pattern)
    frame.spend(20 + len(text) * found.programsize // 100)
    return found.search(text.encode("utf-8", "replace")) is not None


def searcher(pattern: str) -> Any:
    """The compiled RE2 expression, for UTF-8 bytes. Raises `Fault`."""
    if len(pattern) > MAX_PATTERN:
        raise Fault(f"uses a regular expression of {len(pattern):,} characters; at most {MAX_PATTERN} are allowed")
    return _searcher(pattern)


@functools.lru_cache(maxsize=256)
def _searcher(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        found = re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error as error:
        why = error.args[0] if error.args else "it cannot be read"
        reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise Fault(f"uses {pattern[:80]!r} as a regular expression: {reason[:120]} (RE2 syntax)") from error
    if found.programsize > MAX_PROGRAM:
        raise Fault(f"uses {pattern[:80]!r} as a regular expression, which is too large; repeat less in it")
    return found


def _kinds(*kinds: type) -> Kinds:
    return frozenset(kinds)


_TEXT, _BOOL, _INT = _kinds(str), _kinds(bool), _kinds(int)
_SOME, _LINE = _kinds(str, Null), _kinds(int, Uint, float, Null)
_TIME = _kinds(Timestamp)
_TIMED = _kinds(Timestamp, Duration)


def _of_calendar(read: Callable[[Any], int]) -> Act:
    return lambda frame, time, *zone: read(civil(frame, time, *zone))


def _of_clock(read: Callable[[Any], int], unit: int) -> Act:
    def run(frame: Frame, value: Timestamp | Duration, *zone: str) -> int:
        if isinstance(value, Timestamp):
            return read(civil(frame, value, *zone))
        return whole(value, unit) if not zone else _without_zone()

    return run


def _milliseconds(frame: Frame, value: Timestamp | Duration, *zone: str) -> int:
    if isinstance(value, Timestamp):
        civil(frame, value, *zone)
    return milliseconds(value) if isinstance(value, Timestamp) or not zone else _without_zone()


def _without_zone() -> int:
    raise Fault("asks a duration for its time zone, which only a time has")


def _same_path(frame: Frame, reads: Reads, one: str | None, other: str | None) -> bool:
    frame.spend(1)
    return one is not None and other is not None and reads.same(one, other)


def _read_lines(frame: Frame, reads: Reads, path: str | None, line: float | None) -> bool:
    frame.spend(1 + (0 if path is None else reads.size(path) >> 8))
    if path is None or line is None:
        return _not_so(frame, "no path is named" if path is None else "no line is named")
    if isinstance(line, float) and not line.is_integer():
        return _not_so(frame, f"{line} is the number of no line")
    return _not_so(frame, reads.without_line(path, int(line)))


def _quoted(frame: Frame, reads: Reads, path: str | None, text: str | None) -> bool:
    """Reading what was read costs about a step for 256 characters, whoever reads it first."""
    frame.spend(20 + (0 if path is None or text is None else (len(text) + 2 * reads.size(path)) >> 8))
    if path is None or text is None:
        return _not_so(frame, "no path is named" if path is None else "there is no text to look for")
    return _not_so(frame, reads.without_quote(path, text))


def _not_so(frame: Frame, why: str) -> bool:
    """Whether there is no reason why not; one that there is, is told to whoever wants to know it."""
    if why and frame.notes is not None:
        frame.notes.append(why)
    return not why


def _named(functions: Iterable[Function]) -> dict[str, Function]:
    return {function.name: function for function in functions}


METHODS = _named(
    (
        Function("contains", (_TEXT, _TEXT), _BOOL, _of_texts(lambda text, part: part in text)),
        Function("startsWith", (_TEXT, _TEXT), _BOOL, _of_texts(lambda text, part: text.startswith(part))),
        Function("endsWith", (_TEXT, _TEXT), _BOOL, _of_texts(lambda text, part: text.endswith(part))),
        Function("matches", (_TEXT, _TEXT), _BOOL, matches),
        Function("size", (_kinds(str, bytes, list, dict, Null),), _INT, _size),
        *(Function(name, (_TIME, _TEXT), _INT, _of_calendar(read), 1) for name, read in CALENDAR.items()),
        *(Function(name, (_TIMED, _TEXT), _INT, _of_clock(*read), 1) for name, read in CLOCK.items()),
        Function("getMilliseconds", (_TIMED, _TEXT), _INT, _milliseconds, 1),
    )
)
"""Written `value.name(…)`."""

FUNCTIONS = _named(
    (
        METHODS["matches"],
        METHODS["size"],
        Function("int", (_kinds(int, Uint, float, str, Timestamp),), _INT, conversions.to_int),
        Function("uint", (_kinds(int, Uint, float, str),), _kinds(Uint), conversions.to_uint),
        Function("double", (_kinds(int, Uint, float, str),), _kinds(float), conversions.to_double),
        Function(
            "string",
            (_kinds(bool, int, Uint, float, str, bytes, Timestamp, Duration),),
            _TEXT,
            conversions.to_string,
        ),
        Function("bytes", (_kinds(str, bytes),), _kinds(bytes), conversions.to_bytes),
        Function("bool", (_kinds(bool, str),), _BOOL, conversions.to_bool),
        Function("timestamp", (_kinds(int, str, Timestamp),), _TIME, conversions.to_timestamp),
        Function("duration", (_kinds(str, Duration),), _kinds(Duration), conversions.to_duration),
        Function("dyn", (ANY,), ANY, lambda frame, value: value),
        Function("type", (ANY,), _kinds(Named), lambda frame, value: kind(value)),
        Function("quoted", (_SOME, _SOME), _BOOL, _quoted, about=READS, called=("path", "text")),
        Function("read_lines", (_SOME, _LINE), _BOOL, _read_lines, about=READS, called=("path", "line")),
        Function("same_path", (_SOME, _SOME), _BOOL, _same_path, about=READS, called=("a", "b")),
    )
)
"""Written `name(…)`."""
