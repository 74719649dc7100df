"""Nodes of a compiled CEL expression, and the macros all, exists, exists_one, filter and map."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.rules.errors import ExpressionError, Fault, Frame, MissingKey
from mcc.rules.kinds import (
    ANYTHING,
    KEYS,
    NUMBERS,
    Kinds,
    Partial,
    Shape,
    describe,
    key_value,
    map_key,
    number_text,
)

Run = Callable[[Frame], Any]
Act = Callable[..., Any]

FAULT_STEPS = 8
"""Cost of a fault that `&&`, `||` or `has` passes over."""


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """One part of an expression: the function that evaluates it, and its source text.

    `shape` is what is known of its value. `steps` is the cost of one evaluation, without what macros spend for each
    item. `fixed`: it contains no variable. `offset` is where it begins in the expression. `mistake` is an error that
    every evaluation would hit. Only fixed nodes carry one, because an `&&` or `||` around them may pass over it; for
    others it is raised at once.
    """

    run: Run
    text: str
    shape: Shape = ANYTHING
    steps: int = 1
    fixed: bool = False
    offset: int = 0
    mistake: ExpressionError | None = None

    @property
    def kinds(self) -> Kinds:
        return self.shape.kinds


def binary(act: Act, left: SyntaxNode, right: SyntaxNode, text: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return act(frame, left.run(frame), right.run(frame))
        except Fault as fault:
            raise placed(fault, text) from None

    return run


def called(act: Act, arguments: Sequence[SyntaxNode], text: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return act(frame, *[node.run(frame) for node in arguments])
        except Fault as fault:
            raise placed(fault, text) from None

    return run


def placed(fault: Fault, text: str) -> Fault:
    """`fault` with `text`, the part of the expression at fault, as its subject, unless an inner part has been named."""
    return fault if fault.placed else Fault.at(f"`{text}` {fault}")


def choice(condition: SyntaxNode, yes: SyntaxNode, no: SyntaxNode) -> Run:
    return lambda frame: yes.run(frame) if truth(condition, frame) else no.run(frame)


def negated(node: SyntaxNode) -> Run:
    return lambda frame: not truth(node, frame)


def truth(node: SyntaxNode, frame: Frame) -> bool:
    """The value of `node`, which must be a bool. Raises `Fault`."""
    value = node.run(frame)
    if value is True or value is False:
        return bool(value)
    raise Fault.at(f"`{node.text}` is {describe(value)}, not true or false")


def joined(nodes: Sequence[SyntaxNode], decisive: bool) -> Run:
    """`||` (`decisive` True) or `&&` (False)."""
    return lambda frame: decided(nodes, decisive, frame)


def decided(nodes: Iterable[SyntaxNode], decisive: bool, frame: Frame) -> bool:
    """`decisive` as soon as one node has that value, even if another one has a fault; else the opposite.

    A true result discards the notes made on the way, because they explain why something is false. Raises the first
    fault if no node is decisive.
    """
    fault, noted = None, len(frame.notes or ())
    for node in nodes:
        try:
            if truth(node, frame) is decisive:
                _drop_notes(frame, noted if decisive else None)
                return decisive
        except Fault as error:
            frame.spend(FAULT_STEPS)
            fault = fault or error
    if fault is not None:
        raise fault
    _drop_notes(frame, None if decisive else noted)
    return not decisive


def _drop_notes(frame: Frame, start: int | None) -> None:
    """Drop the notes from index `start` on; None: keep all."""
    if frame.notes and start is not None:
        del frame.notes[start:]


def selected(owner: SyntaxNode, key: str, text: str) -> Run:
    def run(frame: Frame) -> Any:
        container = owner.run(frame)
        if type(container) is not dict:
            raise Fault.at(f"`{owner.text}` is {describe(container)} and has no key {key!r}")
        if key not in container:
            if owner.shape.sparse:
                return None
            raise MissingKey(text, container, key)
        return container[key]

    return run


def indexed(owner: SyntaxNode, index: SyntaxNode, text: str) -> Run:
    def run(frame: Frame) -> Any:
        container, at = owner.run(frame), index.run(frame)
        if type(container) is list and type(at) in NUMBERS:
            if not (0 <= at < len(container) and at == int(at)):
                at_text = number_text(at)
                raise Fault.at(f"`{text}`: there is no [{at_text}], the list has {len(container)} items from [0] on")
            return container[int(at)]
        if type(container) is Partial and type(at) is int and 0 <= at < len(container):
            return container[at]
        if type(container) is dict:
            try:
                key = map_key(at)
            except Fault as fault:
                raise placed(fault, text) from None
            if key not in container:
                if owner.shape.sparse:
                    return None
                raise MissingKey(text, container, at)
            return container[key]
        raise Fault.at(f"`{text}` looks up {describe(at)} in {describe(container)}")

    return run


def present(node: SyntaxNode) -> Run:
    """`has(…)`: whether a key exists and is not null. False, not a fault, when the object itself is missing."""

    def run(frame: Frame) -> bool:
        try:
            return node.run(frame) is not None
        except Fault:
            frame.spend(FAULT_STEPS)
            return False

    return run


def listed(items: Sequence[SyntaxNode]) -> Run:
    return lambda frame: [node.run(frame) for node in items]


def mapped(pairs: Sequence[tuple[SyntaxNode, SyntaxNode]]) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, node in pairs:
            made_key = key.run(frame)
            if type(made_key) not in KEYS:
                raise Fault.at(
                    f"`{key.text}` is {describe(made_key)}, and keys are texts, whole numbers or truth values"
                )
            name = map_key(made_key)
            if name in made:
                raise Fault.at(f"`{key.text}` is a key that stands there twice")
            made[name] = node.run(frame)
        return made

    return run


Build = Callable[[SyntaxNode, int, Sequence[SyntaxNode]], Run]
"""Builds a macro's evaluation from its list, the slot of its variable and its body expressions."""


@dataclass(frozen=True, slots=True)
class Macro:
    """`arguments`: the allowed numbers of arguments, the variable included; `gives`: the types of the result."""

    name: str
    arguments: tuple[int, ...]
    gives: Kinds
    build: Build

    @property
    def usage(self) -> str:
        return f"list.{self.name}(x, {'expression of x' if self.name == 'map' else 'condition of x'})"

    def tests(self, arguments: int) -> bool:
        """Whether the first body is a condition, given the number of arguments."""
        return self.name != "map" or arguments == 3


_ITERABLE: Kinds = frozenset({list, dict, Partial})


def _items(owner: SyntaxNode, slot: int, bodies: Sequence[SyntaxNode]) -> Callable[[Frame], Iterator[Any]]:
    """Iterates over the items of a list or the keys of an object, and puts each into `slot`. Null has no items."""
    cost = 1 + sum(body.steps for body in bodies)

    def run(frame: Frame) -> Iterator[Any]:
        container = owner.run(frame)
        if container is None:
            return
        if type(container) not in _ITERABLE:
            raise Fault.at(f"`{owner.text}` is {describe(container)}, not a list")
        slots = frame.slots
        for item in map(key_value, container) if type(container) is dict else container:
            frame.spend(cost)
            slots[slot] = item
            yield item
        # Only here, because an item that is known may already have decided the macro.
        if type(container) is Partial:
            raise Fault.at(f"`{owner.text}` is {describe(container)}")

    return run


def _quantifier(decisive: bool) -> Build:
    """`exists` (`decisive` True) or `all` (False)."""

    def build(owner: SyntaxNode, slot: int, bodies: Sequence[SyntaxNode]) -> Run:
        items, body = _items(owner, slot, bodies), bodies[0]

        def run(frame: Frame) -> bool:
            if frame.notes is not None and not decisive:
                return _all_with_notes(items(frame), body, owner.text, frame)
            return decided((body for _ in items(frame)), decisive, frame)

        return run

    return build


def _all_with_notes(items: Iterator[Any], body: SyntaxNode, list_text: str, frame: Frame) -> bool:
    """Whether `body` is true for all items. Does not stop at the first false one: notes every item that fails."""
    notes, all_hold = frame.notes or [], True
    for place, item in enumerate(items):
        frame.notes, where = [], f"{list_text}[{place}]"
        where = where if isinstance(item, dict | list) else f"{where} ({item})"[:80]
        try:
            holds = truth(body, frame)
        except Fault as fault:
            holds, frame.notes = False, [str(fault)]
        if not holds:
            all_hold = False
            notes.extend(f"{where}: {note}" for note in frame.notes or ["this is not so"])
    frame.notes = notes
    return all_hold


def _exists_one(owner: SyntaxNode, slot: int, bodies: Sequence[SyntaxNode]) -> Run:
    items, body = _items(owner, slot, bodies), bodies[0]
    return lambda frame: sum(truth(body, frame) for _ in items(frame)) == 1


def _filter(owner: SyntaxNode, slot: int, bodies: Sequence[SyntaxNode]) -> Run:
    items, body = _items(owner, slot, bodies), bodies[0]
    return lambda frame: [item for item in items(frame) if truth(body, frame)]


def _map(owner: SyntaxNode, slot: int, bodies: Sequence[SyntaxNode]) -> Run:
    items = _items(owner, slot, bodies)
    if len(bodies) == 1:
        return lambda frame: [bodies[0].run(frame) for _ in items(frame)]
    return lambda frame: [bodies[1].run(frame) for _ in items(frame) if truth(bodies[0], frame)]


_BOOL: Kinds = frozenset({bool})
_LIST: Kinds = frozenset({list})

MACROS = {
    macro.name: macro
    for macro in (
        Macro("all", (2,), _BOOL, _quantifier(False)),
        Macro("exists", (2,), _BOOL, _quantifier(True)),
        Macro("exists_one", (2,), _BOOL, _exists_one),
        Macro("filter", (2,), _LIST, _filter),
        Macro("map", (2, 3), _LIST, _map),
    )
}
"""Written `list.name(x, …)`."""
