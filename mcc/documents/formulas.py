"""Values that nobody sets: formulas over the fields of a node, bindings to those of its parent."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, TypeAlias

from mcc.documents.templates import Template, TooLong
from mcc.rules.errors import MAX_STEPS, Exhausted, Fault
from mcc.rules.expression import Expression, expression
from mcc.rules.kinds import Kinds, Plain, Shape
from mcc.rules.syntax import inner, literal, parsed, parts

if TYPE_CHECKING:
    from lark import Token, Tree

_SECTIONS = ("metadata", "props")


@dataclass(frozen=True, slots=True)
class Computed:
    """A value, and why there is none although nothing was missing (a sentence)."""

    value: Any
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """What a node's values are made of: its own fields, those of its parent (None at the root), its position."""

    metadata: Mapping[str, Any]
    props: Mapping[str, Any]
    parent: "Around | None" = None
    position: int = 1

    def named(self, name: str) -> Any:
        """The value of `props.title`, `parent.metadata.topic` or `position`; None where there is none."""
        if name == "position":
            return self.position
        if name.startswith("parent."):
            return None if self.parent is None else self.parent.named(name.removeprefix("parent."))
        section, _, key = name.partition(".")
        return (self.metadata if section == "metadata" else self.props).get(key)


@dataclass(frozen=True, slots=True)
class Formula:
    """CEL over `metadata` and `props`. `reads` are the fields that it names."""

    expression: Expression
    reads: tuple[str, ...]

    @classmethod
    def of(cls, text: str, names: Mapping[str, Shape]) -> "Formula":
        """Raises `RuleError`."""
        made = expression(text, names)
        fields = {f"{section}.{key}" for section in _SECTIONS for key in names[section].names or ()}
        return cls(made, tuple(sorted(_named(inner(parsed(text)), fields))))

    @property
    def kinds(self) -> Kinds:
        return self.expression.top.kinds

    def value(self, around: Around) -> Computed:
        """Null where it meets a null."""
        try:
            plain = {name: Plain().of(getattr(around, name)) for name in self.expression.names}
            return Computed(self.expression.value(self.expression.frame(plain, MAX_STEPS)))
        except (Fault, Exhausted, RecursionError) as error:
            if isinstance(error, Fault) and any(around.named(name) is None for name in self.reads):
                return Computed(None)
            why = str(error) if isinstance(error, Fault) else "it takes too many steps"
            return Computed(None, f"The formula has no value: {why}.")


@dataclass(frozen=True, slots=True)
class Binding:
    template: Template

    @property
    def reads(self) -> tuple[str, ...]:
        return self.template.names

    def value(self, around: Around) -> Computed:
        try:
            return Computed(self.template.value(around.named))
        except TooLong as error:
            return Computed(None, str(error))


Computation: TypeAlias = Formula | Binding


@dataclass(frozen=True, slots=True)
class Order:
    """Names in an order in which each comes after those it reads; `loops` are those of which there is none."""

    order: tuple[str, ...]
    loops: tuple[tuple[str, ...], ...]


def in_order(computations: Mapping[str, Computation]) -> Order:
    loops: list[tuple[str, ...]] = [(name,) for name, made in computations.items() if name in made.reads]
    left = {name: made for name, made in computations.items() if name not in made.reads}
    while True:
        below = {name: [one for one in made.reads if one in left] for name, made in left.items()}
        try:
            return Order(tuple(TopologicalSorter(below).static_order()), tuple(loops))
        except CycleError as error:
            # The sorter names what is read before who reads it, and the first one again at the end.
            loop: Sequence[str] = error.args[1][:0:-1]
            loops.append(tuple(loop))
            for name in loop:
                left.pop(name)


def _named(tree: "Tree[Token]", fields: set[str]) -> Iterator[str]:
    """The fields that an expression names; all of a section where it names the section as a whole."""
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
        yield from _named(part, fields)


def _key(tree: "Tree[Token]") -> str | None:
    if tree.data == "member_dot":
        return str(tree.children[1]).strip("`")
    index = inner(parts(tree)[1])
    if index.data != "literal":
        return None
    found = literal(index.children[0])
    return found if isinstance(found, str) else None
