"""Nodes of a compiled expression, and its macros: all, exists, exists_one, filter and map."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.rules.errors import Fault, Frame, MissingKey, RuleError
from mcc.rules.kinds import ANYTHING, KEYS, NUMBERS, Kinds, Partial, Shape, key_of, of_key, shown, word

Run = Callable[[Frame], Any]
Act = Callable[..., Any]

FAULT = 8
"""Steps of a fault that is passed over."""


@dataclass(frozen=True, slots=True)
class Node:
    """One part of an expression: how it runs and its text.

    `shape` is what is known of its value, `steps` what running it once costs, without what macros spend for each
    item; `fixed` says that no variable is below it, `offset` where it begins in the expression. `mistake` is what makes
    it fail for certain, kept as long as it is fixed: `&&` and `||` may pass over it.
    """

    run: Run
    text: str
    shape: Shape = ANYTHING
    steps: int = 1
    fixed: bool = False
    offset: int = 0
    mistake: RuleError | None = None

    @property
    def kinds(self) -> Kinds:
        return self.shape.kinds


def binary(act: Act, left: Node, right: Node, text: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return act(frame, left.run(frame), right.run(frame))
        except Fault as fault:
            raise placed(fault, text) from None

    return run


def called(act: Act, arguments: Sequence[Node], text: str) -> Run:
    def run(frame: Frame) -> Any:
        try:
            return act(frame, *[node.run(frame) for node in arguments])
        except Fault as fault:
            raise placed(fault, text) from None

    return run


def placed(fault: Fault, text: str) -> Fault:
    """`fault` with the innermost text that has it; only those that begin with a verb still lack it."""
    return fault if fault.placed else Fault.at(f"`{text}` {fault}")


def choice(condition: Node, yes: Node, no: Node) -> Run:
    return lambda frame: yes.run(frame) if truth(condition, frame) else no.run(frame)


def negated(node: Node) -> Run:
    return lambda frame: not truth(node, frame)


def truth(node: Node, frame: Frame) -> bool:
    """The value of `node`, which must be a truth value."""
    found = node.run(frame)
    if found is True or found is False:
        return bool(found)
    raise Fault.at(f"`{node.text}` is {word(found)}, not true or false")


def joined(nodes: Sequence[Node], decisive: bool) -> Run:
    """`||` (decisive: true) or `&&` (false)."""
    return lambda frame: settled(nodes, decisive, frame)


def settled(nodes: Iterable[Node], decisive: bool, frame: Frame) -> bool:
    """`decisive` as soon as one of these is so, also when another one has a fault; else the opposite.

    What was noted on the way to true explains nothing.
    """
    fault, noted = None, len(frame.notes or ())
    for node in nodes:
        try:
            if truth(node, frame) is decisive:
                _forget(frame, noted if decisive else None)
                return decisive
        except Fault as error:
            frame.spend(FAULT)
            fault = fault or error
    if fault is not None:
        raise fault
    _forget(frame, None if decisive else noted)
    return not decisive


def _forget(frame: Frame, noted: int | None) -> None:
    if frame.notes and noted is not None:
        del frame.notes[noted:]


def selected(owner: Node, key: str, text: str) -> Run:
    def run(frame: Frame) -> Any:
        found = owner.run(frame)
        if type(found) is not dict:
            raise Fault.at(f"`{owner.text}` is {word(found)} and has no key {key!r}")
        if key not in found:
            if owner.shape.sparse:
                return None
            raise MissingKey(text, found, key)
        return found[key]

    return run


def indexed(owner: Node, index: Node, text: str) -> Run:
    def run(frame: Frame) -> Any:
        found, at = owner.run(frame), index.run(frame)
        if type(found) is list and type(at) in NUMBERS:
            if not (0 <= at < len(found) and at == int(at)):
                raise Fault.at(f"`{text}`: there is no [{shown(at)}], the list has {len(found)} items from [0] on")
            return found[int(at)]
        if type(found) is Partial and type(at) is int and 0 <= at < len(found):
            return found[at]
        if type(found) is dict:
            key = placed_key(at, text)
            if key not in found:
                if owner.shape.sparse:
                    return None
                raise MissingKey(text, found, at)
            return found[key]
        raise Fault.at(f"`{text}` looks up {word(at)} in {word(found)}")

    return run


def placed_key(value: Any, text: str) -> Any:
    try:
        return key_of(value)
    except Fault as fault:
        raise placed(fault, text) from None


def present(node: Node) -> Run:
    """`has(…)`: whether a key is there and set. A missing owner is no fault: its keys are not set either."""

    def run(frame: Frame) -> bool:
        try:
            return node.run(frame) is not None
        except Fault:
            frame.spend(FAULT)
            return False

    return run


def listed(items: Sequence[Node]) -> Run:
    return lambda frame: [node.run(frame) for node in items]


def mapped(pairs: Sequence[tuple[Node, Node]]) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, node in pairs:
            found = key.run(frame)
            if type(found) not in KEYS:
                raise Fault.at(f"`{key.text}` is {word(found)}, and keys are texts, whole numbers or truth values")
            name = key_of(found)
            if name in made:
                raise Fault.at(f"`{key.text}` is a key that stands there twice")
            made[name] = node.run(frame)
        return made

    return run


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


_GONE_OVER: Kinds = frozenset({list, dict, Partial})


def _items(owner: Node, slot: int, bodies: Sequence[Node]) -> Callable[[Frame], Iterator[Any]]:
    """Goes over the items of a list or the keys of an object, binding each; what was not set has none."""
    cost = 1 + sum(body.steps for body in bodies)

    def run(frame: Frame) -> Iterator[Any]:
        found = owner.run(frame)
        if found is None:
            return
        if type(found) not in _GONE_OVER:
            raise Fault.at(f"`{owner.text}` is {word(found)}, not a list")
        slots = frame.slots
        for item in map(of_key, found) if type(found) is dict else found:
            frame.spend(cost)
            slots[slot] = item
            yield item
        if type(found) is Partial:
            raise Fault.at(f"`{owner.text}` is {word(found)}")

    return run


def _decided(decisive: bool) -> Build:
    def build(owner: Node, slot: int, bodies: Sequence[Node]) -> Run:
        items, body = _items(owner, slot, bodies), bodies[0]

        def run(frame: Frame) -> bool:
            if frame.notes is not None and not decisive:
                return _explained(items(frame), body, owner.text, frame)
            return settled((body for _ in items(frame)), decisive, frame)

        return run

    return build


def _explained(items: Iterator[Any], body: Node, of: str, frame: Frame) -> bool:
    """Whether `body` is true for all items; each for which it is not is noted."""
    notes, good = frame.notes or [], True
    for place, item in enumerate(items):
        frame.notes, shown = [], f"{of}[{place}]" if isinstance(item, dict | list) else f"{of}[{place}] ({item})"[:80]
        try:
            holds = truth(body, frame)
        except Fault as fault:
            holds, frame.notes = False, [str(fault)]
        if not holds:
            good = False
            notes.extend(f"{shown}: {note}" for note in frame.notes or ["this is not so"])
    frame.notes = notes
    return good


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
