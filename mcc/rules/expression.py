"""CEL expressions ready to run: syntax trees turned into nodes, mistakes found before.

It runs here and not in cel-python's runners: those cannot be stopped, and take some 100 µs for each item of a list.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcc.rules import node as nodes
from mcc.rules import values
from mcc.rules.errors import RuleError, meant
from mcc.rules.functions import FUNCTIONS, MACROS, METHODS, Function, Macro, matches_known, searcher
from mcc.rules.node import Node, Run
from mcc.rules.syntax import arguments, chain, inner, literal, parsed, parts, source, wrong
from mcc.rules.values import KINDS, Exhausted, Fault, Frame

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_NESTING = 60
"""Levels of brackets, calls and operators within one another."""
MAX_MACROS = 20
MAX_MACRO_NESTING = 3
"""all, exists, exists_one, map and filter: in one expression, and within one another."""

_ORDER = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_SUMS: Mapping[str, Callable[[Frame, Any, Any], Any]] = {
    "addition_add": values.added,
    "addition_sub": values.subtracted,
    "multiplication_mul": values.multiplied,
    "multiplication_div": values.divided,
    "multiplication_mod": values.rest,
}
_NUMBERS = frozenset({"int", "double"})
_ORDERED = frozenset({"string", "bool"})
_SYNONYMS = {"len": "size", "length": "size", "count": "size", "any": "exists", "some": "exists", "every": "all"}

Scope = Mapping[str, int]
"""The slot of each name that may be used."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that can be evaluated. Shared by threads; keeps nothing of any evaluation.

    `names` are the variables that it uses, `top` is its whole, `parts` what `&&` joins there (the whole, if nothing).
    """

    text: str
    names: tuple[str, ...]
    top: Node
    parts: tuple[Node, ...]
    bound: int

    def frame(self, context: Mapping[str, Any], steps: int) -> Frame:
        """The values of `context` (plain JSON for each of `names`) laid out for `value`, with `steps` to spend."""
        return Frame([*(context[name] for name in self.names), *[None] * self.bound], steps)

    def value(self, frame: Frame) -> Any:
        """Raises `Fault` when there is none, and `Exhausted` when the frame's steps are used up."""
        frame.spend(self.top.steps)
        return self.top.run(frame)


def expression(text: str, variables: Iterable[str]) -> Expression:
    """`text` ready to run; it may name `variables`. Raises `RuleError`."""
    tree = parsed(text)
    known = frozenset(variables)
    names = tuple(sorted(known & {str(ident.children[0]) for ident in tree.find_data("ident")}))
    building = _Building(text, known, len(names))
    top = building.node(tree, {name: slot for slot, name in enumerate(names)})
    return Expression(text, names, top, building.parts or (top,), building.bound)


class _Building:
    """Turns the tree of one expression into nodes; there is one method for each rule of the grammar."""

    def __init__(self, text: str, variables: frozenset[str], first: int) -> None:
        self._text = text
        self._variables = variables
        self._first = first
        self._level = 0
        self._inside = 0
        self.bound = 0
        self.parts: tuple[Node, ...] = ()

    def node(self, tree: "Tree[Token]", scope: Scope) -> Node:
        tree = inner(tree)
        self._level += 1
        if self._level > MAX_NESTING:
            raise self._wrong(tree, f"this is nested deeper than {MAX_NESTING} levels; split it into several rules")
        build = getattr(self, f"_{tree.data}", self._foreign)
        made = self._folded(tree, build(tree, scope))
        self._level -= 1
        return made

    def _folded(self, tree: "Tree[Token]", made: Node) -> Node:
        """What no variable changes is evaluated once, here; its fault is a mistake for certain."""
        if not made.fixed:
            return made
        try:
            found = made.run(Frame([], 1_000))
        except Fault as fault:
            raise self._wrong(tree, str(fault)) from fault
        except Exhausted as error:
            raise self._wrong(tree, "this takes too many steps") from error
        return self._node(tree, lambda frame: found, str(values.kind(found)), fixed=True)

    def _literal(self, tree: "Tree[Token]", scope: Scope) -> Node:
        try:
            found = literal(tree)
        except ValueError as error:
            raise self._wrong(tree, f"`{self._source(tree)}` {error}") from error
        return self._node(tree, lambda frame: found, fixed=True)

    def _ident(self, tree: "Tree[Token]", scope: Scope) -> Node:
        name = str(tree.children[0])
        if name in scope:
            slot = scope[name]
            return self._node(tree, lambda frame: frame.slots[slot])
        if name in KINDS:
            return self._node(tree, lambda frame: KINDS[name], fixed=True)
        known = sorted({*self._variables, *scope})
        near = meant(name, known)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(known)}"
        raise self._wrong(tree, f"{name!r} is not known here; {hint}")

    def _expr(self, tree: "Tree[Token]", scope: Scope) -> Node:
        condition, yes, no = (self.node(part, scope) for part in parts(tree))
        self._must_be(condition, "bool")
        kind = yes.kind if yes.kind == no.kind else None
        return self._made(tree, nodes.choice(condition, yes, no), kind, condition, yes, no)

    def _conditionalor(self, tree: "Tree[Token]", scope: Scope) -> Node:
        return self._joined(tree, scope, True)

    def _conditionaland(self, tree: "Tree[Token]", scope: Scope) -> Node:
        return self._joined(tree, scope, False)

    def _joined(self, tree: "Tree[Token]", scope: Scope, decisive: bool) -> Node:
        joined = tuple(self.node(part, scope) for part in chain(tree))
        for part in joined:
            self._must_be(part, "bool")
        if self._level == 1 and not decisive:
            self.parts = joined
        return self._made(tree, nodes.joined(joined, decisive), "bool", *joined)

    def _relation(self, tree: "Tree[Token]", scope: Scope) -> Node:
        head, last = parts(tree)
        left, right = self.node(parts(head)[0], scope), self.node(last, scope)
        text, sign = self._source(tree), head.data.removeprefix("relation_")
        if sign == "in":
            return self._made(tree, nodes.binary(values.contained, left, right, text), "bool", left, right)
        if not _can_meet(left.kind, right.kind, sign in _ORDER):
            raise self._wrong(tree, f"`{text}` compares {left.kind} with {right.kind}, which never fits")
        act = values.ordered(_ORDER[sign]) if sign in _ORDER else values.equal if sign == "eq" else values.unequal
        return self._made(tree, nodes.binary(act, left, right, text), "bool", left, right)

    def _addition(self, tree: "Tree[Token]", scope: Scope) -> Node:
        head, last = parts(tree)
        left, right = self.node(parts(head)[0], scope), self.node(last, scope)
        run = nodes.binary(_SUMS[head.data], left, right, self._source(tree))
        return self._made(tree, run, left.kind if left.kind == right.kind else None, left, right)

    _multiplication = _addition

    def _unary(self, tree: "Tree[Token]", scope: Scope) -> Node:
        sign, operand = parts(tree)
        node = self.node(operand, scope)
        if sign.data == "unary_not":
            self._must_be(node, "bool")
            return self._made(tree, nodes.negated(node), "bool", node)
        zero = Node(lambda frame: 0, "0", "int", fixed=True)
        return self._made(tree, nodes.binary(values.subtracted, zero, node, self._source(tree)), node.kind, node)

    def _member_dot(self, tree: "Tree[Token]", scope: Scope) -> Node:
        owner = self.node(parts(tree)[0], scope)
        self._must_be(owner, "map")
        return self._made(tree, nodes.selected(owner, str(tree.children[1]), self._source(tree)), None, owner)

    def _member_index(self, tree: "Tree[Token]", scope: Scope) -> Node:
        owner, index = (self.node(part, scope) for part in parts(tree))
        return self._made(tree, nodes.indexed(owner, index, self._source(tree)), None, owner, index)

    def _list_lit(self, tree: "Tree[Token]", scope: Scope) -> Node:
        items = [self.node(part, scope) for part in arguments(tree, 0)]
        return self._made(tree, nodes.listed(items), "list", *items)

    def _map_lit(self, tree: "Tree[Token]", scope: Scope) -> Node:
        items = [self.node(part, scope) for part in arguments(tree, 0)]
        return self._made(tree, nodes.mapped(list(zip(items[0::2], items[1::2], strict=True))), "map", *items)

    def _ident_arg(self, tree: "Tree[Token]", scope: Scope) -> Node:
        name, given = str(tree.children[0]), arguments(tree, 1)
        if name == "has":
            return self._has(tree, given, scope)
        if name not in FUNCTIONS:
            raise self._unknown(tree, name)
        return self._called(tree, FUNCTIONS[name], [self.node(one, scope) for one in given])

    def _member_dot_arg(self, tree: "Tree[Token]", scope: Scope) -> Node:
        name, given = str(tree.children[1]), arguments(tree, 2)
        owner = self.node(parts(tree)[0], scope)
        if name in MACROS:
            return self._macro(tree, MACROS[name], owner, given, scope)
        if name not in METHODS:
            raise self._unknown(tree, name)
        return self._called(tree, METHODS[name], [owner, *(self.node(one, scope) for one in given)])

    def _has(self, tree: "Tree[Token]", given: "list[Tree[Token]]", scope: Scope) -> Node:
        if len(given) != 1 or inner(given[0]).data != "member_dot":
            raise self._wrong(tree, "has() takes one key, such as has(result.path)")
        node = self.node(given[0], scope)
        return self._made(tree, nodes.present(node), "bool", node)

    def _called(self, tree: "Tree[Token]", function: Function, given: list[Node]) -> Node:
        text = self._source(tree)
        if len(given) != len(function.takes):
            raise self._wrong(
                tree, f"`{text}` gives {function.name} {len(given)} values, and it takes {len(function.takes)}"
            )
        for node, kind in zip(given, function.takes, strict=True):
            if kind is not None:
                self._must_be(node, kind)
        act = function.act
        if function.name == "matches" and given[1].fixed:
            self._check_pattern(tree, given[1])
            act = matches_known
        return self._made(tree, nodes.called(act, given, text), function.gives, *given)

    def _check_pattern(self, tree: "Tree[Token]", pattern: Node) -> None:
        try:
            searcher(pattern.run(Frame([], 0)))
        except Fault as fault:
            raise self._wrong(tree, f"`{self._source(tree)}` {fault}") from fault

    def _macro(self, tree: "Tree[Token]", macro: Macro, owner: Node, given: Any, scope: Scope) -> Node:
        if len(given) not in macro.arguments or inner(given[0]).data != "ident":
            raise self._wrong(tree, f"{macro.name} is written {macro.usage}")
        if owner.kind not in (None, "list", "map"):
            raise self._wrong(tree, f"`{owner.text}` is {owner.kind}, and {macro.name} goes over a list")
        slot = self._slot_of_one_more(tree, macro)
        inside = {**scope, str(inner(given[0]).children[0]): slot}
        self._inside += 1
        bodies = [self.node(one, inside) for one in given[1:]]
        self._inside -= 1
        if macro.tests(len(given)):
            self._must_be(bodies[0], "bool")
        return self._node(tree, macro.build(owner, slot, bodies), macro.gives, 1 + owner.steps)

    def _slot_of_one_more(self, tree: "Tree[Token]", macro: Macro) -> int:
        if self._inside >= MAX_MACRO_NESTING:
            raise self._wrong(tree, f"{macro.name} stands within {MAX_MACRO_NESTING} others; that many may nest")
        if self.bound >= MAX_MACROS:
            raise self._wrong(tree, f"there are more than {MAX_MACROS} of all, exists, map and filter; split the rule")
        self.bound += 1
        return self._first + self.bound - 1

    def _foreign(self, tree: "Tree[Token]", scope: Scope) -> Node:
        raise self._wrong(tree, f"`{self._source(tree)}` is CEL that is not available here")

    def _unknown(self, tree: "Tree[Token]", name: str) -> RuleError:
        known = {*FUNCTIONS, *METHODS, *MACROS, "has"}
        near = _SYNONYMS.get(name) or meant(name, known)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(sorted(known))}"
        return self._wrong(tree, f"there is no function {name!r}; {hint}")

    def _must_be(self, node: Node, kind: str) -> None:
        if node.kind is not None and node.kind != kind:
            raise wrong(f"`{node.text}` is {node.kind}, and {kind} is needed here", self._text, node.offset)

    def _made(self, tree: "Tree[Token]", run: Run, kind: str | None, *below: Node) -> Node:
        steps = 1 + sum(part.steps for part in below)
        return self._node(tree, run, kind, steps, fixed=all(part.fixed for part in below))

    def _node(
        self, tree: "Tree[Token]", run: Run, kind: str | None = None, steps: int = 1, *, fixed: bool = False
    ) -> Node:
        return Node(run, self._source(tree), kind, steps, fixed, _offset(tree))

    def _source(self, tree: "Tree[Token]") -> str:
        return source(tree, self._text)

    def _wrong(self, tree: "Tree[Token]", sentence: str) -> RuleError:
        return wrong(sentence, self._text, _offset(tree))


def _offset(tree: "Tree[Token]") -> int:
    return 0 if tree.meta.empty else tree.meta.start_pos


def _can_meet(left: str | None, right: str | None, in_order: bool) -> bool:
    """Whether a comparison of these kinds can ever do what it seems to; unknown ones can."""
    if left is None or right is None or {left, right} <= _NUMBERS:
        return True
    if in_order:
        return left == right and left in _ORDERED
    return left == right or "null_type" in (left, right)
