"""Operators of expressions: how values are computed and compared."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from mcc.rules.errors import Fault, Frame
from mcc.rules.kinds import MAX_INT, MAX_UINT, NUMBERS, Kinds, Null, Partial, Uint, key_of, word
from mcc.rules.times import Duration, Timestamp

Act = Callable[[Frame, Any, Any], Any]
Pair = tuple[type, type]


def _int(act: Callable[[Any, Any], int]) -> Act:
    def run(frame: Frame, left: Any, right: Any) -> int:
        found = act(_fitting(left), _fitting(right))
        return _fitting(found)

    return run


def _fitting(number: int) -> int:
    if not -MAX_INT - 1 <= number <= MAX_INT:
        raise Fault("calculates with a whole number beyond 64 bits")
    return number


def _uint(act: Callable[[Any, Any], int]) -> Act:
    def run(frame: Frame, left: Any, right: Any) -> Uint:
        found = act(int(left), int(right))
        if not 0 <= found <= MAX_UINT:
            raise Fault("calculates a number without sign that is negative or beyond 64 bits")
        return Uint(found)

    return run


def _double(act: Callable[[float, float], float]) -> Act:
    def run(frame: Frame, left: Any, right: Any) -> float:
        return act(_as_double(left), _as_double(right))

    return run


def _as_double(number: Any) -> float:
    return float(_fitting(number) if type(number) is int else number)


def _quotient(left: int, right: int) -> int:
    """Whole numbers are divided towards zero."""
    if right == 0:
        raise Fault("divides by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _rest(left: int, right: int) -> int:
    return left - right * _quotient(left, right)


def _divided(left: float, right: float) -> float:
    """What IEEE 754 says: by zero it is infinite, or no number."""
    if right != 0:
        return left / right
    return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)


def _joined(frame: Frame, left: Any, right: Any) -> Any:
    size = len(left) + len(right)
    frame.spend(size if type(left) is list else size >> 6)
    return left + right


def _nanos(act: Callable[[int, int], int], gives: type) -> Act:
    return lambda frame, left, right: gives(act(left.nanos, right.nanos))


def _of_numbers(whole: Callable[[Any, Any], int], double: Callable[[float, float], float]) -> dict[Pair, Act]:
    """JSON has one kind of number, so int and double mix, and the result is a double."""
    mixed = _double(double)
    return {
        (int, int): _int(whole),
        (Uint, Uint): _uint(whole),
        (float, float): mixed,
        (int, float): mixed,
        (float, int): mixed,
    }


_ACTS: Mapping[str, tuple[str, Mapping[Pair, Act]]] = {
    "addition_add": (
        "adds",
        {
            **_of_numbers(operator.add, operator.add),
            (str, str): _joined,
            (bytes, bytes): _joined,
            (list, list): _joined,
            (Timestamp, Duration): _nanos(operator.add, Timestamp),
            (Duration, Timestamp): _nanos(operator.add, Timestamp),
            (Duration, Duration): _nanos(operator.add, Duration),
        },
    ),
    "addition_sub": (
        "subtracts",
        {
            **_of_numbers(operator.sub, operator.sub),
            (Timestamp, Timestamp): _nanos(operator.sub, Duration),
            (Timestamp, Duration): _nanos(operator.sub, Timestamp),
            (Duration, Duration): _nanos(operator.sub, Duration),
        },
    ),
    "multiplication_mul": ("multiplies", _of_numbers(operator.mul, operator.mul)),
    "multiplication_div": ("divides", _of_numbers(_quotient, _divided)),
    "multiplication_mod": ("takes the rest of", {(int, int): _int(_rest), (Uint, Uint): _uint(_rest)}),
}
"""By the grammar's name: the verb of a sentence, and what is done with each pair of kinds."""


def operation(name: str) -> Act:
    """The operation that the grammar calls `name`, over values of all kinds."""
    verb, acts = _ACTS[name]

    def run(frame: Frame, left: Any, right: Any) -> Any:
        act = acts.get((type(left), type(right)))
        if act is None:
            raise Fault(f"{verb} {word(left)} and {word(right)}{_why(name, type(left), type(right))}")
        return act(frame, left, right)

    return run


def _why(name: str, left: type, right: type) -> str:
    if name == "multiplication_mod" and float in (left, right):
        return " that is not whole"
    return "; kinds with and without sign do not mix" if {left, right} <= NUMBERS else ""


def result_kinds(name: str, left: Kinds, right: Kinds) -> Kinds:
    """The kinds that the operation `name` can have for operands of these kinds; empty when it has none for them."""
    return frozenset(_kind(name, a, b) for a, b in _ACTS[name][1] if a in left and b in right)


def _kind(name: str, left: type, right: type) -> type:
    if float in (left, right):
        return float
    if (left, right) == (Timestamp, Timestamp):
        return Duration
    return Timestamp if Timestamp in (left, right) else left


def negative(frame: Frame, value: Any) -> Any:
    """`-value`, of an int or a double."""
    if type(value) is float:
        return -value
    if type(value) is int:
        return _fitting(-_fitting(value))
    raise Fault(f"takes the negative of {word(value)}")


_NULL: Kinds = frozenset({Null})
_ORDERED: Kinds = frozenset({bool, str, bytes, Timestamp, Duration})


def can_be_equal(left: Kinds, right: Kinds) -> bool:
    """Whether values of these kinds can ever be equal; to ask anything whether it is null is always sensible."""
    return bool(left & right or (left & NUMBERS and right & NUMBERS)) or _NULL in (left, right)


def can_be_ordered(left: Kinds, right: Kinds) -> bool:
    return bool(left & right & _ORDERED or (left & NUMBERS and right & NUMBERS))


def _in_order(left: type, right: type) -> bool:
    return (left in NUMBERS and right in NUMBERS) or (left is right and left in _ORDERED)


def equal(frame: Frame, left: Any, right: Any) -> bool:
    """Values of different kinds are unequal; 1, 1u and 1.0 are equal, 1 and true are not, NaN equals nothing."""
    frame.spend(1)
    a, b = type(left), type(right)
    if a is not b:
        if Partial in (a, b):
            raise Fault(f"compares {word(left)} with {word(right)}")
        return a in NUMBERS and b in NUMBERS and bool(_comparable(left, b) == _comparable(right, a))
    if a is str or a is bytes:
        frame.spend(min(len(left), len(right)) >> 10)
    frame.spend(1)
    if a is list:
        return len(left) == len(right) and all(equal(frame, x, y) for x, y in zip(left, right, strict=True))
    if a is dict:
        return left.keys() == right.keys() and all(equal(frame, item, right[key]) for key, item in left.items())
    return bool(left == right)


def unequal(frame: Frame, left: Any, right: Any) -> bool:
    return not equal(frame, left, right)


def contained(frame: Frame, item: Any, container: Any) -> bool:
    """`item in container`: an item of a list, a key of an object; nothing is in null."""
    if container is None:
        return False
    if type(container) is dict:
        return type(item) in _ASKED and key_of(item) in container
    if type(container) is list:
        return any(equal(frame, item, one) for one in container)
    if type(container) is Partial and any(equal(frame, item, one) for one in container):
        return True
    hint = "; write text.contains(part)" if type(container) is str else ""
    raise Fault(f"looks for {word(item)} in {word(container)}{hint}")


_ASKED: Kinds = frozenset({str, int, Uint, float, bool})


def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Frame, Any, Any], bool]:
    """The comparison of two numbers, or of two texts, bytes, truth values, times or durations."""

    def run(frame: Frame, left: Any, right: Any) -> bool:
        a, b = type(left), type(right)
        if not _in_order(a, b):
            raise Fault(f"compares {word(left)} with {word(right)}")
        if a is str or a is bytes:
            frame.spend(min(len(left), len(right)) >> 10)
        return compare(_comparable(left, b), _comparable(right, a))

    return run


def _comparable(value: Any, other: type) -> Any:
    """A whole number as a double, where it meets one and 64 bits hold it: CEL compares so, though digits are lost."""
    whole = other is float and type(value) in (int, Uint)
    return float(value) if whole and value.bit_length() <= 64 else value
