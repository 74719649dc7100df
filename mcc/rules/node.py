"""Nodes of a running expression: what each kind of node does with the values below it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.rules.errors import RuleError
from mcc.rules.faults import Fault, Frame, MissingKey
from mcc.rules.kinds import KEYS, NUMBERS, Kinds, key_of, shown, word
from mcc.rules.shape import ANYTHING, Shape

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
    """`decisive` as soon as one of these is so, also when another one has a fault; else the opposite."""
    fault = None
    for node in nodes:
        try:
            if truth(node, frame) is decisive:
                return decisive
        except Fault as error:
            frame.spend(FAULT)
            fault = fault or error
    if fault is not None:
        raise fault
    return not decisive


def selected(owner: Node, key: str, text: str) -> Run:
    def run(frame: Frame) -> Any:
        found = owner.run(frame)
        if type(found) is not dict:
            raise Fault.at(f"`{owner.text}` is {word(found)} and has no key {key!r}")
        if key not in found:
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
        if type(found) is dict:
            key = placed_key(at, text)
            if key not in found:
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
