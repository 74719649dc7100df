"""The kinds of CEL's values, what is known of a value before there is one, and JSON of strangers made into values."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mcc.rules.errors import Fault, meant
from mcc.rules.times import Duration, Timestamp

MAX_INT = 2**63 - 1
MAX_UINT = 2**64 - 1


class Uint(int):
    """A whole number that was written as `7u`, or made by `uint(…)`; equal to the int of the same value."""

    __slots__ = ()


class Named(str):
    """The name of a kind, as `type(x)` gives it; equal to no text."""

    __slots__ = ()


class Partial(list[Any]):
    """A list of which only the beginning is known: whatever depends on the rest has no value."""

    __slots__ = ()


Null = type(None)

_WORDS: Mapping[type, tuple[str, str]] = {
    bool: ("bool", "a truth value"),
    int: ("int", "a number"),
    Uint: ("uint", "a number without sign"),
    float: ("double", "a number"),
    str: ("string", "a text"),
    bytes: ("bytes", "bytes"),
    list: ("list", "a list"),
    dict: ("map", "an object"),
    Null: ("null_type", "null"),
    Timestamp: ("google.protobuf.Timestamp", "a time"),
    Duration: ("google.protobuf.Duration", "a duration"),
    Named: ("type", "a type"),
}

Kinds = frozenset[type]
"""What a value may be."""

ANY: Kinds = frozenset(_WORDS)
JSON: Kinds = frozenset({bool, int, float, str, list, dict, Null})
"""What results and evidence are made of."""
NUMBERS: Kinds = frozenset({int, Uint, float})
CONTAINERS: Kinds = frozenset({list, dict, Null})
"""What macros go over: null is an empty list, for what was not set is empty."""
KEYS: Kinds = frozenset({str, int, Uint, bool})
"""What a key of a map literal may be."""

KINDS = {name: Named(name) for name, _ in _WORDS.values()}
"""What `type(x)` gives, by name."""


def word(value: object) -> str:
    """What a person calls a value of this kind."""
    return "a list of which only the beginning is known" if type(value) is Partial else _WORDS[type(value)][1]


def kind(value: object) -> Named:
    return KINDS[_WORDS[type(value)][0]]


def named(kinds: Iterable[type]) -> str:
    """The names of `kinds` in a sentence: `int or double`."""
    if set(kinds) == JSON:
        return "a value of JSON"
    return " or ".join(name.rpartition(".")[2].lower() for one, (name, _) in _WORDS.items() if one in set(kinds))


def words(kinds: Iterable[type]) -> str:
    """What people call these kinds in a sentence, each once: `a number or a text`."""
    return " or ".join(dict.fromkeys(_WORDS[one][1] for one in _WORDS if one in set(kinds)))


def shown(number: float) -> str:
    """A number in a sentence, which JSON may have made of thousands of digits."""
    return str(number) if isinstance(number, float) or number.bit_length() <= 64 else "a number beyond 64 bits"


class _TruthKey(Enum):
    """A truth value as the key of a map: Python takes True and 1 for the same key, and CEL does not."""

    TRUE = True
    FALSE = False


def key_of(value: Any) -> Any:
    """`value` as the key of a map, by which dict finds what CEL would find. Raises `Fault` for what is no key.

    1, 1u and 1.0 are the same key; 1.5 is none that a map has.
    """
    exact = type(value)
    if exact is str or exact is int or exact is Uint:
        return value
    if exact is bool:
        return _TruthKey.TRUE if value else _TruthKey.FALSE
    if exact is float:
        return int(value) if value.is_integer() else value
    raise Fault(f"uses {word(value)} as a key; keys are texts, whole numbers or truth values")


def of_key(key: Any) -> Any:
    """The value that `key_of` was given."""
    return key.value if type(key) is _TruthKey else key


@dataclass(frozen=True, slots=True)
class Shape:
    """`names` are the only keys that it can have, `texts` the only texts that it can be; None = nobody knows.

    With `likely`, other texts are possible, but not those that look like a slip of one of `texts`. `sparse`: a key that
    is not there is null.
    """

    kinds: Kinds = ANY
    texts: frozenset[str] | None = None
    likely: bool = False
    names: frozenset[str] | None = None
    key: Callable[[str], "Shape"] = lambda name: ANYTHING
    item: Callable[[], "Shape"] = lambda: ANYTHING
    sparse: bool = False

    def lacks(self, name: str) -> bool:
        return self.names is not None and name not in self.names

    def never(self, text: str) -> bool:
        """Whether it can never be this text."""
        if self.texts is None or text in self.texts:
            return False
        return not self.likely or meant(text, self.texts) is not None


ANYTHING: Shape = Shape()
JSON_VALUE: Shape = Shape(JSON, key=lambda name: JSON_VALUE, item=lambda: JSON_VALUE)


def either(shapes: Iterable[Shape]) -> Shape:
    """A value of any one of these; of its keys and items nothing is known."""
    kinds: Kinds = frozenset()
    for shape in shapes:
        kinds |= shape.kinds
    return Shape(kinds)


def of_keys(keys: dict[str, Shape]) -> Shape:
    """An object that has just these keys."""
    return Shape(frozenset({dict}), names=frozenset(keys), key=lambda name: keys.get(name, ANYTHING))


def of_items(item: Shape) -> Shape:
    return Shape(frozenset({list}), item=lambda: item)


def text(*possible: str, likely: bool = False, nullable: bool = False) -> Shape:
    """A text, when something is `possible` one of these."""
    kinds: Kinds = frozenset({str, Null}) if nullable else frozenset({str})
    return Shape(kinds, frozenset(possible) or None, likely)


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
