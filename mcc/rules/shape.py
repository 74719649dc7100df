"""What is known of a value before there is one: its kinds, its keys, its items, and which texts it can be."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mcc.rules.errors import meant
from mcc.rules.kinds import ANY, JSON, Kinds, Null


@dataclass(frozen=True, slots=True)
class Shape:
    """`names` are the only keys that it can have, `texts` the only texts that it can be; None = nobody knows.

    With `likely`, other texts are possible, but not those that look like a slip of one of `texts`.
    """

    kinds: Kinds = ANY
    texts: frozenset[str] | None = None
    likely: bool = False
    names: frozenset[str] | None = None
    key: Callable[[str], "Shape"] = lambda name: ANYTHING
    item: Callable[[], "Shape"] = lambda: ANYTHING

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
