"""CEL's operators: arithmetic, equality, order and `in`."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from mcc.rules.errors import Fault, Frame
from mcc.rules.kinds import MAX_INT, MAX_UINT, NUMBERS, Kinds, Null, Partial, Uint, describe, map_key
from mcc.rules.times import Duration, Timestamp

Act = Callable[[Frame, Any, Any], Any]
Pair = tuple[type, type]


def _int(act: Callable[[Any, Any], int]) -> Act:
    def run(frame: Frame, left: Any, right: Any) -> int:
        return _within_int64(act(_within_int64(left), _within_int64(right)))

    return run


def _within_int64(number: int) -> int:
    if not -MAX_INT - 1 <= number <= MAX_INT:
        raise Fault("calculates with a whole number beyond 64 bits")
    return number


def _uint(act: Callable[[Any, Any], int]) -> Act:
    def run(frame: Frame, left: Any, right: Any) -> Uint:
        result = act(int(left), int(right))
        if not 0 <= result <= MAX_UINT:
            raise Fault("calculates a number without sign that is negative or beyond 64 bits")
        return Uint(result)

    return run


def _double(act: Callable[[float, float], float]) -> Act:
    def run(frame: Frame, left: Any, right: Any) -> float:
        return act(_as_double(left), _as_double(right))

    return run


def _as_double(number: Any) -> float:
    return float(_within_int64(number) if type(number) is int else number)


def _int_quotient(left: int, right: int) -> int:
    """Integer division rounds towards zero, where Python's `//` rounds down."""
    if right == 0:
        raise Fault("divides by zero")
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _remainder(left: int, right: int) -> int:
    return left - right * _int_quotient(left, right)


def _double_quotient(left: float, right: float) -> float:
    """Division by zero gives infinity or NaN, as IEEE 754 defines; Python would raise an error."""
    if right != 0:
        return left / right
    return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)


def _concatenated(frame: Frame, left: Any, right: Any) -> Any:
    size = len(left) + len(right)
    frame.spend(size if type(left) is list else size >> 6)
    return left + right


def _nanos(act: Callable[[int, int], int], gives: type) -> Act:
    return lambda frame, left, right: gives(act(left.nanos, right.nanos))


def _of_numbers(whole: Callable[[Any, Any], int], double: Callable[[float, float], float]) -> dict[Pair, Act]:
    """Arithmetic on pairs of numbers. Int and double mix to a double, because JSON has only one kind of number."""
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
            (str, str): _concatenated,
            (bytes, bytes): _concatenated,
            (list, list): _concatenated,
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
    "multiplication_div": ("divides", _of_numbers(_int_quotient, _double_quotient)),
    "multiplication_mod": ("takes the rest of", {(int, int): _int(_remainder), (Uint, Uint): _uint(_remainder)}),
}
"""By the grammar's name of an operator: the verb for messages, and the function for each pair of operand types."""


def operation(name: str) -> Act:
    """The operator that the grammar calls `name`. It takes any values and raises `Fault` for types that do not fit."""
    verb, acts = _ACTS[name]

    def run(frame: Frame, left: Any, right: Any) -> Any:
        act = acts.get((type(left), type(right)))
        if act is None:
            why = _type_hint(name, type(left), type(right))
            raise Fault(f"{verb} {describe(left)} and {describe(right)}{why}")
        return act(frame, left, right)

    return run


def _type_hint(name: str, left: type, right: type) -> str:
    if name == "multiplication_mod" and float in (left, right):
        return " that is not whole"
    return "; kinds with and without sign do not mix" if {left, right} <= NUMBERS else ""


def result_kinds(name: str, left: Kinds, right: Kinds) -> Kinds:
    """The result types of the operator `name` for operands of these types; empty when it accepts no such operands."""
    return frozenset(_result_kind(a, b) for a, b in _ACTS[name][1] if a in left and b in right)


def _result_kind(left: type, right: type) -> type:
    if float in (left, right):
        return float
    if (left, right) == (Timestamp, Timestamp):
        return Duration
    return Timestamp if Timestamp in (left, right) else left


def negative(frame: Frame, value: Any) -> Any:
    """`-value` for an int or a double. Raises `Fault`."""
    if type(value) is float:
        return -value
    if type(value) is int:
        return _within_int64(-_within_int64(value))
    raise Fault(f"takes the negative of {describe(value)}")


_NULL: Kinds = frozenset({Null})
_ORDERED: Kinds = frozenset({bool, str, bytes, Timestamp, Duration})


def can_be_equal(left: Kinds, right: Kinds) -> bool:
    """Whether comparing values of these types for equality makes sense; a comparison with null always does."""
    return bool(left & right or (left & NUMBERS and right & NUMBERS)) or _NULL in (left, right)


def can_be_ordered(left: Kinds, right: Kinds) -> bool:
    return bool(left & right & _ORDERED or (left & NUMBERS and right & NUMBERS))


def equal(frame: Frame, left: Any, right: Any) -> bool:
    """CEL's `==`: values of different types are unequal, but 1, 1u and 1.0 are equal. NaN equals nothing."""
    frame.spend(1)
    a, b = type(left), type(right)
    if a is not b:
        if Partial in (a, b):
            raise Fault(f"compares {describe(left)} with {describe(right)}")
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
    """`item in container`: whether it is an item of a list or a key of an object; null contains nothing."""
    if container is None:
        return False
    if type(container) is dict:
        return type(item) in _LOOKUP_KINDS and map_key(item) in container
    if type(container) is list:
        return any(equal(frame, item, member) for member in container)
    if type(container) is Partial and any(equal(frame, item, member) for member in container):
        return True
    hint = "; write text.contains(part)" if type(container) is str else ""
    raise Fault(f"looks for {describe(item)} in {describe(container)}{hint}")


_LOOKUP_KINDS: Kinds = frozenset({str, int, Uint, float, bool})


def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Frame, Any, Any], bool]:
    """`compare` for two numbers, or two values of the same type: strings, bytes, bools, timestamps, durations."""

    def run(frame: Frame, left: Any, right: Any) -> bool:
        a, b = type(left), type(right)
        if not ((a in NUMBERS and b in NUMBERS) or (a is b and a in _ORDERED)):
            raise Fault(f"compares {describe(left)} with {describe(right)}")
        if a is str or a is bytes:
            frame.spend(min(len(left), len(right)) >> 10)
        return compare(_comparable(left, b), _comparable(right, a))

    return run


def _comparable(value: Any, other: type) -> Any:
    """`value` as a double when `other` is one: CEL compares int and double like this, although digits are lost.

    Integers beyond 64 bits, which CEL does not have, stay exact.
    """
    whole = other is float and type(value) in (int, Uint)
    return float(value) if whole and value.bit_length() <= 64 else value
