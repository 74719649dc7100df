"""Computed values: CEL formulas over a node's fields, and bindings to fields of the node or its parent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias

from mcc.documents.templates import Template, TooLong
from mcc.rules.errors import MAX_STEPS, Fault, StepsExhausted
from mcc.rules.expression import Expression, expression
from mcc.rules.kinds import JsonCopy, Kinds, Shape
from mcc.rules.syntax import inner, literal, parsed, parts

if TYPE_CHECKING:
    from lark import Token, Tree

_SECTIONS = ("metadata", "props")


@dataclass(frozen=True, slots=True)
class ComputedValue:
    """A computed value; `problem` is a sentence where it is None although no input was missing."""

    value: Any
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What formulas and bindings read: the node's fields, its parent's (None at the root), and its position from 1."""

    metadata: Mapping[str, Any]
    props: Mapping[str, Any]
    parent: "NodeContext | None" = None
    position: int = 1

    def lookup(self, name: str) -> Any:
        """The value of `props.title`, `parent.metadata.topic` or `position`; None where unset."""
        if name == "position":
            return self.position
        if name.startswith("parent."):
            return None if self.parent is None else self.parent.lookup(name.removeprefix("parent."))
        section, _, key = name.partition(".")
        return (self.metadata if section == "metadata" else self.props).get(key)


@dataclass(frozen=True, slots=True)
class Formula:
    """A CEL expression over `metadata` and `props`; `reads` are the full names of the fields it uses."""

    expression: Expression
    reads: tuple[str, ...]

    @classmethod
    def of(cls, text: str, names: Mapping[str, Shape]) -> "Formula":
        """Raises `ExpressionError`."""
        made = expression(text, names)
        fields = {f"{section}.{key}" for section in _SECTIONS for key in names[section].names or ()}
        return cls(made, tuple(sorted(_fields_read(inner(parsed(text)), fields))))

    @property
    def kinds(self) -> Kinds:
        return self.expression.top.kinds

    def value(self, context: NodeContext) -> ComputedValue:
        """The result; None without a problem where it fails because a field it reads is unset."""
        try:
            plain = {name: JsonCopy().of(getattr(context, name)) for name in self.expression.names}
            return ComputedValue(self.expression.value(self.expression.frame(plain, MAX_STEPS)))
        except (Fault, StepsExhausted, RecursionError) as error:
            if isinstance(error, Fault) and any(context.lookup(name) is None for name in self.reads):
                return ComputedValue(None)
            why = str(error) if isinstance(error, Fault) else "it takes too many steps"
            return ComputedValue(None, f"The formula has no value: {why}.")


@dataclass(frozen=True, slots=True)
class Binding:
    """A template whose result is the field's value."""

    template: Template

    @property
    def reads(self) -> tuple[str, ...]:
        return self.template.names

    def value(self, context: NodeContext) -> ComputedValue:
        try:
            return ComputedValue(self.template.value(context.lookup))
        except TooLong as error:
            return ComputedValue(None, str(error))


Computation: TypeAlias = Formula | Binding


@dataclass(frozen=True, slots=True)
class Order:
    """Names sorted so that each comes after those it reads; `loops` are the cycles, whose names are left out."""

    order: tuple[str, ...]
    loops: tuple[tuple[str, ...], ...]


def in_order(computations: Mapping[str, Computation]) -> Order:
    loops: list[tuple[str, ...]] = [(name,) for name, made in computations.items() if name in made.reads]
    left = {name: made for name, made in computations.items() if name not in made.reads}
    while True:
        below = {name: [read for read in made.reads if read in left] for name, made in left.items()}
        try:
            return Order(tuple(TopologicalSorter(below).static_order()), tuple(loops))
        except CycleError as error:
            # The sorter lists a cycle from what is read to its reader, with the first name repeated at the end.
            loop: Sequence[str] = error.args[1][:0:-1]
            loops.append(tuple(loop))
            for name in loop:
                left.pop(name)


def _fields_read(tree: "Tree[Token]", fields: set[str]) -> Iterator[str]:
    """The fields that an expression reads; all fields of a section where it uses the section as a whole."""
    tree = inner(tree)
    owner = inner(parts(tree)[0]) if tree.data in ("member_dot", "member_index") else None
    if owner is not None and owner.data == "ident" and (section := str(owner.children[0])) in _SECTIONS:
        key = _key(tree)
        if key is not None:
            yield from {f"{section}.{key}"} & fields
            return
    if tree.data == "ident":
        yield from (name for name in fields if name.startswith(f"{tree.children[0]}."))
    for part in parts(tree):
        yield from _fields_read(part, fields)


def _key(tree: "Tree[Token]") -> str | None:
    if tree.data == "member_dot":
        return str(tree.children[1]).strip("`")
    index = inner(parts(tree)[1])
    if index.data != "literal":
        return None
    found = literal(index.children[0])
    return found if isinstance(found, str) else None
