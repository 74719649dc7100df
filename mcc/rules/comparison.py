"""How values of expressions compare: numbers by value whatever their kind, all else only with its own kind."""

from collections.abc import Callable
from typing import Any

from mcc.rules.faults import Fault, Frame
from mcc.rules.kinds import NUMBERS, Kinds, Null, Uint, key_of, word
from mcc.rules.times import Duration, Timestamp

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
