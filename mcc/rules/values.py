"""Values of expressions: how they compare and combine, what a step costs, and JSON copied into them within bounds.

Values are plain JSON of Python. Numbers compare and combine across int and double; other kinds never mix.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from mcc.rules.errors import meant

MAX_STEPS = 400_000
"""Steps of one round of checks; one is about half a microsecond."""

_INT64 = 2**63


class Named(str):
    """The name of a kind, as `type(x)` gives it; equal to no text."""

    __slots__ = ()


_WORDS: Mapping[type, tuple[str, str]] = {
    bool: ("bool", "a truth value"),
    int: ("int", "a number"),
    float: ("double", "a number"),
    str: ("string", "a text"),
    list: ("list", "a list"),
    dict: ("map", "an object"),
    type(None): ("null_type", "null"),
    Named: ("type", "a type"),
}


class Fault(Exception):
    """An expression has no value; the message says why, without its full stop.

    `placed` says that the message quotes the part at fault; else it begins with a verb that the part is the subject of.
    """

    placed = False

    @classmethod
    def at(cls, message: str) -> "Fault":
        """One whose message quotes the part."""
        made = cls(message)
        made.placed = True
        return made


class MissingKey(Fault):
    """The part `text` asks `found` for a key that it has not. The message is made only when someone reads it."""

    placed = True

    def __init__(self, text: str, found: Mapping[str, Any], key: str) -> None:
        super().__init__()
        self._asked = (text, found, key)

    def __str__(self) -> str:
        text, found, key = self._asked
        return f"`{text}`: there is no key {key[:60]!r}{self._hint(found, key)}"

    def _hint(self, found: Mapping[str, Any], key: str) -> str:
        near = meant(key, list(found)[:200])
        if near is not None:
            return f"; did you mean {near!r}?"
        shown = ", ".join(name[:40] for name in list(found)[:10])
        return f"; there is: {shown}" if shown else "; the object is empty"


class Exhausted(Exception):
    """The steps of this round of checks are used up. Not a Fault: no operator may pass over it."""


KINDS = {name: Named(name) for name, _ in _WORDS.values()}
"""What `type(x)` gives, by name."""


class Frame:
    """What one evaluation reads and spends: the values by slot, and the steps left."""

    __slots__ = ("slots", "steps")

    def __init__(self, slots: list[Any], steps: int) -> None:
        self.slots = slots
        self.steps = steps

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Exhausted


def word(value: object) -> str:
    """What a person calls a value of this kind."""
    return _WORDS[type(value)][1]


def kind(value: object) -> Named:
    return KINDS[_WORDS[type(value)][0]]


def equal(frame: Frame, left: Any, right: Any) -> bool:
    """Values of different kinds are unequal; 1 and 1.0 are equal, 1 and true are not."""
    frame.spend(1)
    a, b = type(left), type(right)
    if _is_number(a) and _is_number(b):
        return bool(_comparable(left) == _comparable(right))
    if a is not b:
        return False
    if a is str:
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
        return type(item) is str and item in container
    if type(container) is list:
        return any(equal(frame, item, one) for one in container)
    hint = "; write text.contains(part)" if type(container) is str else ""
    raise Fault(f"looks for {word(item)} in {word(container)}{hint}")


def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Frame, Any, Any], bool]:
    """The comparison of two numbers, two texts or two truth values."""

    def run(frame: Frame, left: Any, right: Any) -> bool:
        a, b = type(left), type(right)
        if _is_number(a) and _is_number(b):
            return compare(_comparable(left), _comparable(right))
        if a is b and (a is str or a is bool):
            return compare(left, right)
        raise Fault(f"compares {word(left)} with {word(right)}")

    return run


def added(frame: Frame, left: Any, right: Any) -> Any:
    a = type(left)
    if a is type(right) and (a is str or a is list):
        size = len(left) + len(right)
        frame.spend(size >> 6 if a is str else size)
        return left + right
    return _plus(frame, left, right)


def _arithmetic(verb: str, act: Callable[[Any, Any], Any]) -> Callable[[Frame, Any, Any], Any]:
    def run(frame: Frame, left: Any, right: Any) -> Any:
        if not (_is_number(type(left)) and _is_number(type(right))):
            raise Fault(f"{verb} {word(left)} and {word(right)}")
        try:
            found = act(_small(left), _small(right))
        except ZeroDivisionError as error:
            raise Fault("divides by zero") from error
        return _small(found)

    return run


def _divided(left: Any, right: Any) -> Any:
    """Whole numbers are divided towards zero, as CEL says."""
    if type(left) is float or type(right) is float:
        return left / right
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


def _rest(left: Any, right: Any) -> Any:
    if type(left) is float or type(right) is float:
        raise Fault("takes the rest of a division of numbers that are not whole")
    return left - right * _divided(left, right)


_plus = _arithmetic("adds", operator.add)
subtracted = _arithmetic("subtracts", operator.sub)
multiplied = _arithmetic("multiplies", operator.mul)
divided = _arithmetic("divides", _divided)
rest = _arithmetic("divides", _rest)


def _is_number(kind: type) -> bool:
    return kind is int or kind is float


def _comparable(number: Any) -> Any:
    if number != number:
        raise Fault("compares with a number that is not a number (NaN)")
    return number


def _small(number: Any) -> Any:
    if type(number) is int and not -_INT64 <= number < _INT64:
        raise Fault("calculates with a whole number beyond 64 bits")
    if type(number) is float and not math.isfinite(number):
        raise Fault("calculates with a number that is not finite")
    return number


MAX_NESTING = 100
"""Levels of lists and objects in the context of one round of checks."""
MAX_VALUES = 100_000
"""Texts, numbers, lists and objects in that context."""
MAX_TEXT = 8_000_000
"""Characters in that context."""


class Plain:
    """Copies values into plain JSON, and counts what it takes: at most so many values, and characters of text."""

    def __init__(self, values: int = MAX_VALUES, text: int = MAX_TEXT, *, finite: bool = False) -> None:
        self._most = (values, text)
        self._values = values
        self._text = text
        self._finite = finite

    def of(self, value: object, levels: int = MAX_NESTING) -> Any:
        """Raises `Fault` for what is too large, too deep, not JSON, or (where asked for) not finite."""
        self._values -= 1
        if self._values < 0:
            raise Fault(f"there are more than {self._most[0]:,} values in it")
        if levels == 0:
            raise Fault(f"it is nested deeper than {MAX_NESTING} levels")
        exact = type(value)
        if exact is str:
            return self._counted(value)
        if exact is bool or exact is int or value is None:
            return value
        if isinstance(value, float):
            if self._finite and not math.isfinite(value):
                raise Fault(f"it holds the number {value}, which JSON has not")
            return float(value)
        if isinstance(value, Mapping):
            return {self._counted(key): self.of(item, levels - 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item, levels - 1) for item in value]
        return self._unusual(value)

    def _unusual(self, value: object) -> Any:
        if isinstance(value, str):
            return self._counted(value)
        if isinstance(value, int):
            return int(value)
        raise Fault(f"a value of the Python type {type(value).__name__} is not JSON")

    def _counted(self, text: Any) -> str:
        if not isinstance(text, str):
            raise Fault("the key of an object is not a text")
        self._text -= len(text)
        if self._text < 0:
            raise Fault(f"there are more than {self._most[1]:,} characters in it")
        return text if type(text) is str else str.__str__(text)
