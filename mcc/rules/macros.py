"""Macros of expressions: all, exists, exists_one, filter and map, over lists and the keys of objects."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.rules.faults import Fault, Frame
from mcc.rules.kinds import Kinds, of_key, word
from mcc.rules.node import Node, Run, settled, truth

Build = Callable[[Node, int, Sequence[Node]], Run]
"""From the list, the slot of the variable and the expressions to what runs."""


@dataclass(frozen=True, slots=True)
class Macro:
    """`arguments` are the numbers of arguments, the variable among them; `gives` are the kinds of the value."""

    name: str
    arguments: tuple[int, ...]
    gives: Kinds
    build: Build

    @property
    def usage(self) -> str:
        return f"list.{self.name}(x, {'expression of x' if self.name == 'map' else 'condition of x'})"

    def tests(self, arguments: int) -> bool:
        """Whether the first expression is a condition."""
        return self.name != "map" or arguments == 3


def _items(owner: Node, slot: int, bodies: Sequence[Node]) -> Callable[[Frame], Iterator[Any]]:
    """Goes over the items of a list or the keys of an object, binding each; what was not set has none."""
    cost = 1 + sum(body.steps for body in bodies)

    def run(frame: Frame) -> Iterator[Any]:
        found = owner.run(frame)
        if found is None:
            return
        if type(found) is not list and type(found) is not dict:
            raise Fault.at(f"`{owner.text}` is {word(found)}, not a list")
        slots = frame.slots
        for item in found if type(found) is list else map(of_key, found):
            frame.spend(cost)
            slots[slot] = item
            yield item

    return run


def _decided(decisive: bool) -> Build:
    def build(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
        items, body = _items(owner, slot, bodies), bodies[0]
        return lambda frame: settled((body for _ in items(frame)), decisive, frame)

    return build


def _exists_one(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
    items, body = _items(owner, slot, bodies), bodies[0]
    return lambda frame: sum(truth(body, frame) for _ in items(frame)) == 1


def _filter(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
    items, body = _items(owner, slot, bodies), bodies[0]
    return lambda frame: [item for item in items(frame) if truth(body, frame)]


def _map(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
    items = _items(owner, slot, bodies)
    if len(bodies) == 1:
        return lambda frame: [bodies[0].run(frame) for _ in items(frame)]
    return lambda frame: [bodies[1].run(frame) for _ in items(frame) if truth(bodies[0], frame)]


_BOOL: Kinds = frozenset({bool})
_LIST: Kinds = frozenset({list})

MACROS = {
    macro.name: macro
    for macro in (
        Macro("all", (2,), _BOOL, _decided(False)),
        Macro("exists", (2,), _BOOL, _decided(True)),
        Macro("exists_one", (2,), _BOOL, _exists_one),
        Macro("filter", (2,), _LIST, _filter),
        Macro("map", (2, 3), _LIST, _map),
    )
}
"""Written `list.name(x, …)`."""
