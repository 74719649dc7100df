"""CEL's value types ("kinds"), shapes (what is known of a value before evaluation), and bounded copies of JSON."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mcc.contracts.similar import closest_name
from mcc.rules.errors import Fault
from mcc.rules.times import Duration, Timestamp

MAX_INT = 2**63 - 1
MAX_UINT = 2**64 - 1


class Uint(int):
    """CEL's uint: an integer written as `7u` or made by `uint(…)`; equal to the int of the same value."""

    __slots__ = ()


class TypeName(str):
    """The result of `type(x)`; never equal to a string."""

    __slots__ = ()


class Partial(list[Any]):
    """A list of which only the beginning is known; an expression that depends on the rest has no value."""

    __slots__ = ()


Null = type(None)

_NAMES: Mapping[type, tuple[str, str]] = {
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
    TypeName: ("type", "a type"),
}
"""Per type: its name in CEL, and the words for its values in messages."""

Kinds = frozenset[type]
"""The types that a value may have."""

ANY: Kinds = frozenset(_NAMES)
JSON: Kinds = frozenset({bool, int, float, str, list, dict, Null})
"""The types of values in results and evidence."""
NUMBERS: Kinds = frozenset({int, Uint, float})
CONTAINERS: Kinds = frozenset({list, dict, Null})
"""The types that macros iterate over. Null counts as an empty list, because an unset value is empty."""
KEYS: Kinds = frozenset({str, int, Uint, bool})
"""The types of keys in a map literal."""

KINDS = {name: TypeName(name) for name, _ in _NAMES.values()}
"""The results of `type(x)`, by name."""


def describe(value: object) -> str:
    """The type of `value` in the words of messages: `a number`."""
    return "a list of which only the beginning is known" if type(value) is Partial else _NAMES[type(value)][1]


def type_name(value: object) -> TypeName:
    return KINDS[_NAMES[type(value)][0]]


def cel_names(kinds: Iterable[type]) -> str:
    """The CEL names of `kinds`, joined for a sentence: `int or double`."""
    if set(kinds) == JSON:
        return "a value of JSON"
    return " or ".join(name.rpartition(".")[2].lower() for one, (name, _) in _NAMES.items() if one in set(kinds))


def describe_kinds(kinds: Iterable[type]) -> str:
    """`kinds` in the words of messages, each once: `a number or a text`."""
    return " or ".join(dict.fromkeys(_NAMES[one][1] for one in _NAMES if one in set(kinds)))


def number_text(number: float) -> str:
    """A number for a message; an integer beyond 64 bits, which JSON allows, is not written out."""
    return str(number) if isinstance(number, float) or number.bit_length() <= 64 else "a number beyond 64 bits"


class _BoolKey(Enum):
    """A bool as the key of a map. Python treats True and 1 as the same key; CEL does not."""

    TRUE = True
    FALSE = False


def map_key(value: Any) -> Any:
    """The dict key for `value`, such that a dict lookup agrees with CEL. Raises `Fault` for values that cannot be keys.

    1, 1u and 1.0 are the same key; 1.5 is allowed in a lookup and never found.
    """
    exact = type(value)
    if exact is str or exact is int or exact is Uint:
        return value
    if exact is bool:
        return _BoolKey.TRUE if value else _BoolKey.FALSE
    if exact is float:
        return int(value) if value.is_integer() else value
    raise Fault(f"uses {describe(value)} as a key; keys are texts, whole numbers or truth values")


def key_value(key: Any) -> Any:
    """The value of a dict key made by `map_key`."""
    return key.value if type(key) is _BoolKey else key


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a value before evaluation: its types, keys, items and possible texts.

    `names` are its only possible keys, `texts` its only possible texts; None = unknown. `likely`: other texts are
    possible too, except those that look like a typing error of one of `texts`. `sparse`: an absent key counts as null.
    `key` and `item` give the shape of a member or an item.
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

    def excludes(self, text: str) -> bool:
        """Whether the value can never be this text."""
        if self.texts is None or text in self.texts:
            return False
        return not self.likely or closest_name(text, self.texts) is not None


ANYTHING: Shape = Shape()
JSON_VALUE: Shape = Shape(JSON, key=lambda name: JSON_VALUE, item=lambda: JSON_VALUE)


def union_shape(shapes: Iterable[Shape]) -> Shape:
    """A value of any one of these shapes; nothing is known of its keys and items."""
    kinds: Kinds = frozenset()
    for shape in shapes:
        kinds |= shape.kinds
    return Shape(kinds)


def object_shape(keys: dict[str, Shape]) -> Shape:
    """An object with exactly these keys."""
    return Shape(frozenset({dict}), names=frozenset(keys), key=lambda name: keys.get(name, ANYTHING))


def list_shape(item: Shape) -> Shape:
    return Shape(frozenset({list}), item=lambda: item)


def text_shape(*possible: str, likely: bool = False, nullable: bool = False) -> Shape:
    """A text; with `possible`, only one of these."""
    kinds: Kinds = frozenset({str, Null}) if nullable else frozenset({str})
    return Shape(kinds, frozenset(possible) or None, likely)


MAX_NESTING = 100
"""Levels of lists and objects in the context of one round of checks."""
MAX_VALUES = 100_000
"""Texts, numbers, lists and objects in that context."""
MAX_TEXT = 8_000_000
"""Characters in that context."""


class JsonCopy:
    """Copies values into plain JSON within a budget of values and characters, shared by all its copies.

    `finite`: refuse infinity and NaN.
    """

    def __init__(self, values: int = MAX_VALUES, text: int = MAX_TEXT, *, finite: bool = False) -> None:
        self._most = (values, text)
        self._values = values
        self._text = text
        self._finite = finite

    def of(self, value: object, levels: int = MAX_NESTING) -> Any:
        """A plain copy of `value`. Raises `Fault` when it is too large, nested too deeply or not JSON."""
        self._values -= 1
        if self._values < 0:
            raise Fault(f"there are more than {self._most[0]:,} values in it")
        if levels == 0:
            raise Fault(f"it is nested deeper than {MAX_NESTING} levels")
        exact = type(value)
        if exact is str:
            return self._counted(value)
        # By exact type: a subclass may compare or print in ways of its own, so `_unusual` makes a plain value of it.
        if exact is bool or exact is int or value is None:
            return value
        if isinstance(value, float):
            if self._finite and not math.isfinite(value):
                raise Fault(f"it holds the number {value}, which JSON does not have")
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
