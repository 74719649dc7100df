"""The kinds of CEL's values, and how Python holds a value of each."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from mcc.rules.faults import Fault
from mcc.rules.times import Duration, Timestamp

MAX_INT = 2**63 - 1
MAX_UINT = 2**64 - 1


class Uint(int):
    """A whole number that was written as `7u`, or made by `uint(…)`; equal to the int of the same value."""

    __slots__ = ()


class Named(str):
    """The name of a kind, as `type(x)` gives it; equal to no text."""

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
    return _WORDS[type(value)][1]


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
