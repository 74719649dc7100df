"""The functions and methods of CEL expressions: argument types, result types, implementations and step costs."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import re2

from mcc.rules import conversions
from mcc.rules.errors import Fault, Frame
from mcc.rules.kinds import ANY, Kinds, Null, TypeName, Uint, describe, describe_kinds, type_name
from mcc.rules.reads import READS, Reads
from mcc.rules.times import CALENDAR, CLOCK, Duration, Timestamp, civil, milliseconds, whole_units

MAX_PATTERN = 500
"""Characters of a regular expression."""
MAX_PROGRAM = 1_000
"""Instructions of a regular expression: `a{900}` has 900."""
COMPILE_STEPS = 400
"""Cost of compiling a regular expression. Also charged when it is cached, so that verdicts do not depend on caches."""

Act = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """`takes` lists the types of each argument (a method's receiver is the first), `gives` those of the result.

    The last `optional` arguments may be missing. `about` is a variable that the function reads in addition to its
    arguments. `called` are the argument names in the reference page.
    """

    name: str
    takes: tuple[Kinds, ...]
    gives: Kinds
    act: Act
    optional: int = 0
    about: str = ""
    called: tuple[str, ...] = ()

    def __call__(self, frame: Frame, *values: Any) -> Any:
        """Raises `Fault` for an argument of a type that the function does not take."""
        return _call(self, self.act, frame, values)

    def over_slot(self, slot: int) -> Act:
        """The function with the variable `about` bound to this slot."""

        def run(frame: Frame, *values: Any) -> Any:
            if (known := frame.slots[slot]) is None:
                raise Fault(f"calls {self.name} where nobody knows what was read")
            return _call(self, lambda frame, *values: self.act(frame, known, *values), frame, values)

        return run

    def with_known_pattern(self, frame: Frame, *values: Any) -> Any:
        """`matches` for a pattern that was compiled when the expression was declared."""
        return _call(self, matches_known, frame, values)


def _call(function: Function, act: Act, frame: Frame, values: tuple[Any, ...]) -> Any:
    for value, kinds in zip(values, function.takes, strict=False):
        if type(value) not in kinds:
            raise Fault(f"calls {function.name} with {describe(value)}, and it takes {describe_kinds(kinds)}")
    return act(frame, *values)


def _size(frame: Frame, value: Any) -> int:
    """The size of null is 0, because an unset value counts as empty."""
    return 0 if value is None else len(value)


def _text_test(act: Callable[[str, str], bool]) -> Act:
    def run(frame: Frame, text: str, part: str) -> bool:
        frame.spend(len(text) >> 8)
        return act(text, part)

    return run


def matches(frame: Frame, text: str, pattern: str) -> bool:
    """Whether RE2 finds `pattern` anywhere in `text`. Charges for compiling the pattern."""
    frame.spend(COMPILE_STEPS)
    return matches_known(frame, text, pattern)


def matches_known(frame: Frame, text: str, pattern: str) -> bool:
    """`matches` without the charge for compiling. The cost is linear in the text and in the pattern's program size."""
    compiled = searcher(pattern)
    frame.spend(20 + len(text) * compiled.programsize // 100)
    return compiled.search(text.encode("utf-8", "replace")) is not None


def searcher(pattern: str) -> Any:
    """The compiled RE2 expression; it searches UTF-8 bytes. Raises `Fault`."""
    if len(pattern) > MAX_PATTERN:
        raise Fault(f"uses a regular expression of {len(pattern):,} characters; at most {MAX_PATTERN} are allowed")
    return _searcher(pattern)


@functools.lru_cache(maxsize=256)
def _searcher(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    try:
        compiled = re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error as error:
        why = error.args[0] if error.args else "it cannot be read"
        reason = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise Fault(f"uses {pattern[:80]!r} as a regular expression: {reason[:120]} (RE2 syntax)") from error
    if compiled.programsize > MAX_PROGRAM:
        raise Fault(f"uses {pattern[:80]!r} as a regular expression, which is too large; repeat less in it")
    return compiled


def _kinds(*kinds: type) -> Kinds:
    return frozenset(kinds)


_TEXT, _BOOL, _INT = _kinds(str), _kinds(bool), _kinds(int)
_TEXT_OR_NULL, _LINE = _kinds(str, Null), _kinds(int, Uint, float, Null)
_TIMESTAMP = _kinds(Timestamp)
_TIMESTAMP_OR_DURATION = _kinds(Timestamp, Duration)


def _calendar_getter(read: Callable[[Any], int]) -> Act:
    return lambda frame, time, *zone: read(civil(frame, time, *zone))


def _clock_getter(read: Callable[[Any], int], unit: int) -> Act:
    def run(frame: Frame, value: Timestamp | Duration, *zone: str) -> int:
        if isinstance(value, Timestamp):
            return read(civil(frame, value, *zone))
        return whole_units(value, unit) if not zone else _refuse_zone()

    return run


def _milliseconds(frame: Frame, value: Timestamp | Duration, *zone: str) -> int:
    if isinstance(value, Timestamp):
        # Milliseconds are the same in every zone; this only refuses unknown zones and charges for the lookup.
        civil(frame, value, *zone)
    return milliseconds(value) if isinstance(value, Timestamp) or not zone else _refuse_zone()


def _refuse_zone() -> int:
    raise Fault("asks a duration for its time zone, which only a time has")


def _same_path(frame: Frame, reads: Reads, one: str | None, other: str | None) -> bool:
    frame.spend(1)
    return one is not None and other is not None and reads.same(one, other)


def _read_lines(frame: Frame, reads: Reads, path: str | None, line: float | None) -> bool:
    frame.spend(1 + (0 if path is None else reads.size(path) >> 8))
    if path is None or line is None:
        return _no_problem(frame, "no path is named" if path is None else "no line is named")
    if isinstance(line, float) and not line.is_integer():
        return _no_problem(frame, f"{line} is the number of no line")
    return _no_problem(frame, reads.line_problem(path, int(line)))


def _quoted(frame: Frame, reads: Reads, path: str | None, text: str | None) -> bool:
    """Charges about one step for 256 characters, also when an earlier call has already prepared the file's text."""
    frame.spend(20 + (0 if path is None or text is None else (len(text) + 2 * reads.size(path)) >> 8))
    if path is None or text is None:
        return _no_problem(frame, "no path is named" if path is None else "there is no text to look for")
    return _no_problem(frame, reads.quote_problem(path, text))


def _no_problem(frame: Frame, problem: str) -> bool:
    """Whether `problem` is empty; if not, it is added to the frame's notes."""
    if problem and frame.notes is not None:
        frame.notes.append(problem)
    return not problem


def _by_name(functions: Iterable[Function]) -> dict[str, Function]:
    return {function.name: function for function in functions}


METHODS = _by_name(
    (
        Function("contains", (_TEXT, _TEXT), _BOOL, _text_test(lambda text, part: part in text)),
        Function("startsWith", (_TEXT, _TEXT), _BOOL, _text_test(lambda text, part: text.startswith(part))),
        Function("endsWith", (_TEXT, _TEXT), _BOOL, _text_test(lambda text, part: text.endswith(part))),
        Function("matches", (_TEXT, _TEXT), _BOOL, matches),
        Function("size", (_kinds(str, bytes, list, dict, Null),), _INT, _size),
        *(Function(name, (_TIMESTAMP, _TEXT), _INT, _calendar_getter(read), 1) for name, read in CALENDAR.items()),
        *(
            Function(name, (_TIMESTAMP_OR_DURATION, _TEXT), _INT, _clock_getter(*read), 1)
            for name, read in CLOCK.items()
        ),
        Function("getMilliseconds", (_TIMESTAMP_OR_DURATION, _TEXT), _INT, _milliseconds, 1),
    )
)
"""Written `value.name(…)`."""

FUNCTIONS = _by_name(
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
        Function("timestamp", (_kinds(int, str, Timestamp),), _TIMESTAMP, conversions.to_timestamp),
        Function("duration", (_kinds(str, Duration),), _kinds(Duration), conversions.to_duration),
        Function("dyn", (ANY,), ANY, lambda frame, value: value),
        Function("type", (ANY,), _kinds(TypeName), lambda frame, value: type_name(value)),
        Function("quoted", (_TEXT_OR_NULL, _TEXT_OR_NULL), _BOOL, _quoted, about=READS, called=("path", "text")),
        Function("read_lines", (_TEXT_OR_NULL, _LINE), _BOOL, _read_lines, about=READS, called=("path", "line")),
        Function("same_path", (_TEXT_OR_NULL, _TEXT_OR_NULL), _BOOL, _same_path, about=READS, called=("a", "b")),
    )
)
"""Written `name(…)`."""
