"""CEL expressions ready to run: syntax trees turned into nodes, mistakes found before.

It runs here and not in cel-python's runners: those cannot be stopped, and take some 100 µs for each item of a list.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcc.rules import node as nodes
from mcc.rules import operators
from mcc.rules.errors import Exhausted, Fault, Frame, RuleError, meant
from mcc.rules.functions import FUNCTIONS, METHODS, Function, searcher
from mcc.rules.kinds import ANY, ANYTHING, CONTAINERS, KEYS, KINDS, NUMBERS, Kinds, Shape, Uint, either, named, of_items
from mcc.rules.node import MACROS, Macro, Node, Run
from mcc.rules.operators import negative, operation, result_kinds
from mcc.rules.reads import READS
from mcc.rules.syntax import arguments, chain, inner, literal, parsed, parts, source, wrong

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_NESTING = 60
"""Levels of brackets, calls and operators within one another."""
MAX_MACROS = 20
MAX_MACRO_NESTING = 3
"""all, exists, exists_one, map and filter: in one expression, and within one another."""

_ORDER = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_BOOL: Kinds = frozenset({bool})
_LIST: Kinds = frozenset({list})
_FOLDING = 5_000
"""Steps of what no variable changes."""
_EQUALITY = {"eq": operators.equal, "ne": operators.unequal}
_SYNONYMS = {"len": "size", "length": "size", "count": "size", "any": "exists", "some": "exists", "every": "all"}

Scope = Mapping[str, tuple[int, Shape]]
"""The slot of each name that may be used, and what is known of its value."""


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


def expression(text: str, variables: Mapping[str, Shape]) -> Expression:
    """`text` ready to run; it may name `variables`, of which this is known. Raises `RuleError`."""
    tree = parsed(text)
    named = {str(ident.children[0]) for ident in tree.find_data("ident")}
    called = {str(call.children[0]) for call in tree.find_data("ident_arg")} & FUNCTIONS.keys()
    names = tuple(sorted(variables.keys() & (named | {FUNCTIONS[name].about for name in called})))
    building = _Building(text, frozenset(variables), len(names))
    top = building.node(tree, {name: (slot, variables[name]) for slot, name in enumerate(names)})
    if top.mistake is not None:
        raise top.mistake
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
        """What no variable changes is evaluated once, here; its fault is a mistake, unless what is around forgives."""
        if not made.fixed:
            return made
        try:
            found = made.run(Frame([], _FOLDING))
        except Fault as fault:
            return made if made.mistake else replace(made, mistake=self._wrong(tree, str(fault)))
        except Exhausted as error:
            raise self._wrong(tree, "this takes too many steps") from error
        shape = made.shape if made.kinds == ANY else Shape(frozenset({type(found)}))
        return self._node(tree, lambda frame: found, shape, fixed=True)

    def _literal(self, tree: "Tree[Token]", scope: Scope) -> Node:
        return self._written(tree, tree.children[0])

    def _written(self, tree: "Tree[Token]", token: Any, sign: str = "") -> Node:
        try:
            found = literal(token, sign)
        except ValueError as error:
            raise self._wrong(tree, f"`{self._source(tree)}` {error}") from error
        return self._node(tree, lambda frame: found, Shape(frozenset({type(found)})), fixed=True)

    def _ident(self, tree: "Tree[Token]", scope: Scope) -> Node:
        name = str(tree.children[0])
        if name in scope:
            slot, shape = scope[name]
            return self._node(tree, lambda frame: frame.slots[slot], shape)
        if name in KINDS:
            return self._node(tree, lambda frame: KINDS[name], fixed=True)
        known = sorted({*self._variables, *scope} - {READS})
        near = meant(name, known)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(known)}"
        raise self._wrong(tree, f"{name!r} is not known here; {hint}")

    def _expr(self, tree: "Tree[Token]", scope: Scope) -> Node:
        condition, yes, no = (self.node(part, scope) for part in parts(tree))
        run = nodes.choice(condition, yes, no)
        shape = either((yes.shape, no.shape))
        return self._made(tree, run, shape, (condition, yes, no), self._must_be(condition, _BOOL))

    def _conditionalor(self, tree: "Tree[Token]", scope: Scope) -> Node:
        return self._joined(tree, scope, True)

    def _conditionaland(self, tree: "Tree[Token]", scope: Scope) -> Node:
        return self._joined(tree, scope, False)

    def _joined(self, tree: "Tree[Token]", scope: Scope, decisive: bool) -> Node:
        joined = tuple(self.node(part, scope) for part in chain(tree))
        mistakes = [self._must_be(part, _BOOL) for part in joined]
        if self._level == 1 and not decisive:
            self.parts = joined
        return self._made(tree, nodes.joined(joined, decisive), _BOOL, joined, *mistakes)

    def _relation(self, tree: "Tree[Token]", scope: Scope) -> Node:
        head, last = parts(tree)
        left, right = self.node(parts(head)[0], scope), self.node(last, scope)
        text, sign = self._source(tree), head.data.removeprefix("relation_")
        if sign == "in":
            mistake = self._must_be(right, CONTAINERS) or self._never(left, right)
            return self._made(tree, nodes.binary(operators.contained, left, right, text), _BOOL, (left, right), mistake)
        fits = operators.can_be_ordered if sign in _ORDER else operators.can_be_equal
        mistake = None
        if not fits(left.kinds, right.kinds):
            kinds = f"{named(left.kinds)} with {named(right.kinds)}"
            mistake = self._wrong(tree, f"`{text}` compares {kinds}, which never fits")
        elif sign in _EQUALITY:
            mistake = self._never(left, right) or self._never(right, left)
        act = operators.ordered(_ORDER[sign]) if sign in _ORDER else _EQUALITY[sign]
        return self._made(tree, nodes.binary(act, left, right, text), _BOOL, (left, right), mistake)

    def _addition(self, tree: "Tree[Token]", scope: Scope) -> Node:
        head, last = parts(tree)
        left, right = self.node(parts(head)[0], scope), self.node(last, scope)
        text, kinds = self._source(tree), result_kinds(head.data, left.kinds, right.kinds)
        mistake = None
        if not kinds:
            given = f"{named(left.kinds)} and {named(right.kinds)}"
            mistake = self._wrong(tree, f"`{text}` calculates with {given}, which never fits")
        return self._made(tree, nodes.binary(operation(head.data), left, right, text), kinds, (left, right), mistake)

    _multiplication = _addition

    def _unary(self, tree: "Tree[Token]", scope: Scope) -> Node:
        sign, operand = parts(tree)
        token = self._number(operand) if sign.data == "unary_neg" else None
        if token is not None:
            return self._written(tree, token, "-")
        node = self.node(operand, scope)
        if sign.data == "unary_not":
            return self._made(tree, nodes.negated(node), _BOOL, (node,), self._must_be(node, _BOOL))
        run = nodes.called(negative, (node,), self._source(tree))
        signed = NUMBERS - {Uint}
        return self._made(tree, run, node.kinds & signed, (node,), self._must_be(node, signed))

    def _number(self, tree: "Tree[Token]") -> Any:
        """The token, when `tree` is nothing but a number without brackets: the least int is written with its sign."""
        found: Any = tree
        while len(found.children) == 1 and found.data in ("unary", "member", "primary"):
            found = found.children[0]
        token = found.children[0] if found.data == "literal" else None
        return token if token is not None and token.type in ("INT_LIT", "FLOAT_LIT") else None

    def _member_dot(self, tree: "Tree[Token]", scope: Scope) -> Node:
        owner, key = self.node(parts(tree)[0], scope), str(tree.children[1]).strip("`")
        mistake = self._has_key(tree, owner, key)
        run = nodes.selected(owner, key, self._source(tree))
        return self._made(tree, run, owner.shape.key(key), (owner,), mistake)

    def _has_key(self, tree: "Tree[Token]", owner: Node, key: str) -> RuleError | None:
        """The mistake of asking for a key that is never there."""
        at: Any = tree.children[1]
        if dict not in owner.kinds:
            hint = f"; write size({owner.text})" if _SYNONYMS.get(key) == "size" else ""
            sentence = f"`{owner.text}` is {named(owner.kinds)}, and map is needed here to have a key {key!r}{hint}"
            return wrong(sentence, self._text, owner.offset)
        if not owner.shape.lacks(key):
            return None
        names = sorted(owner.shape.names or ())
        near = meant(key, names)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(names[:20]) or 'none'}"
        offset = getattr(at, "start_pos", None)
        sentence = f"`{owner.text}` has no key {key!r}; {hint}"
        return wrong(sentence, self._text, _offset(tree) if offset is None else offset)

    def _never(self, one: Node, other: Node) -> RuleError | None:
        """The mistake of comparing `one` with texts, the other, that it can never be."""
        shape = one.shape
        if shape.texts is None or not other.fixed or other.mistake is not None:
            return None
        found = other.run(Frame([], _FOLDING))
        for text in found if type(found) is list else (found,):
            if type(text) is str and shape.never(text):
                known = sorted(shape.texts)
                near = meant(text, known)
                hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(known[:20])}"
                return wrong(f"`{one.text}` is never {text[:60]!r}; {hint}", self._text, other.offset)
        return None

    def _member_index(self, tree: "Tree[Token]", scope: Scope) -> Node:
        owner, index = (self.node(part, scope) for part in parts(tree))
        mistake = self._must_be(owner, frozenset({list, dict}))
        shape = ANYTHING
        if dict not in owner.kinds:
            shape = owner.shape.item()
        elif index.fixed and index.mistake is None and isinstance(key := index.run(Frame([], _FOLDING)), str):
            shape, mistake = owner.shape.key(key), self._has_key(tree, owner, key)
        return self._made(tree, nodes.indexed(owner, index, self._source(tree)), shape, (owner, index), mistake)

    def _list_lit(self, tree: "Tree[Token]", scope: Scope) -> Node:
        items = [self.node(part, scope) for part in arguments(tree, 0)]
        return self._made(tree, nodes.listed(items), frozenset({list}), items)

    def _map_lit(self, tree: "Tree[Token]", scope: Scope) -> Node:
        items = [self.node(part, scope) for part in arguments(tree, 0)]
        run = nodes.mapped(list(zip(items[0::2], items[1::2], strict=True)))
        mistakes = [self._must_be(key, KEYS) for key in items[0::2]]
        return self._made(tree, run, frozenset({dict}), items, *mistakes)

    def _ident_arg(self, tree: "Tree[Token]", scope: Scope) -> Node:
        name, given = str(tree.children[0]), arguments(tree, 1)
        if name == "has":
            return self._has(tree, given, scope)
        if name not in FUNCTIONS or FUNCTIONS[name].about not in {"", *scope}:
            raise self._unknown(tree, name)
        return self._called(tree, FUNCTIONS[name], [self.node(one, scope) for one in given], scope)

    def _member_dot_arg(self, tree: "Tree[Token]", scope: Scope) -> Node:
        name, given = str(tree.children[1]), arguments(tree, 2)
        owner = self.node(parts(tree)[0], scope)
        if name in MACROS:
            return self._macro(tree, MACROS[name], owner, given, scope)
        if name not in METHODS:
            raise self._unknown(tree, name)
        return self._called(tree, METHODS[name], [owner, *(self.node(one, scope) for one in given)], scope)

    def _has(self, tree: "Tree[Token]", given: "list[Tree[Token]]", scope: Scope) -> Node:
        if len(given) != 1 or inner(given[0]).data != "member_dot":
            raise self._wrong(tree, "has() takes one key, such as has(result.path)")
        asked = inner(given[0])
        owner, key = self.node(parts(asked)[0], scope), str(asked.children[1]).strip("`")
        # Asking for a key that is not expected is what has() is for, so only its owner is held against what is known.
        node = self._node(asked, nodes.selected(owner, key, self._source(asked)), steps=1 + owner.steps)
        node = replace(node, fixed=owner.fixed, mistake=owner.mistake)
        return self._made(tree, nodes.present(node), _BOOL, (node,))

    def _called(self, tree: "Tree[Token]", function: Function, given: list[Node], scope: Scope) -> Node:
        text = self._source(tree)
        most = len(function.takes)
        if not most - function.optional <= len(given) <= most:
            raise self._wrong(tree, f"`{text}` gives {function.name} {len(given)} values, and it takes {most}")
        mistakes = [self._must_be(node, kinds) for node, kinds in zip(given, function.takes, strict=False)]
        act: Callable[..., Any] = function
        if function.name == "matches" and given[1].fixed and given[1].mistake is None:
            self._check_pattern(tree, given[1])
            act = function.of_known_pattern
        if not function.about:
            return self._made(tree, nodes.called(act, given, text), function.gives, given, *mistakes)
        act = function.looking_at(scope[function.about][0])
        made = self._made(tree, nodes.called(act, given, text), function.gives, given, *mistakes)
        return replace(made, fixed=False)

    def _check_pattern(self, tree: "Tree[Token]", pattern: Node) -> None:
        try:
            known = pattern.run(Frame([], 0))
            if isinstance(known, str):
                searcher(known)
        except Fault as fault:
            raise self._wrong(tree, f"`{self._source(tree)}` {fault}") from fault

    def _macro(self, tree: "Tree[Token]", macro: Macro, owner: Node, given: Any, scope: Scope) -> Node:
        if len(given) not in macro.arguments or inner(given[0]).data != "ident":
            raise self._wrong(tree, f"{macro.name} is written {macro.usage}")
        if not owner.kinds & CONTAINERS:
            raise self._wrong(tree, f"`{owner.text}` is {named(owner.kinds)}, and {macro.name} goes over a list")
        slot = self._slot_of_one_more(tree, macro)
        item = ANYTHING if dict in owner.kinds else owner.shape.item()
        inside = {**scope, str(inner(given[0]).children[0]): (slot, item)}
        self._inside += 1
        bodies = [self.node(one, inside) for one in given[1:]]
        self._inside -= 1
        mistake = self._must_be(bodies[0], _BOOL) if macro.tests(len(given)) else None
        run = macro.build(owner, slot, bodies)
        shape = Shape(macro.gives)
        if macro.gives == _LIST:
            shape = of_items(item if macro.name == "filter" else bodies[-1].shape)
        made = self._made(tree, run, shape, (owner, *bodies), mistake)
        return replace(made, steps=1 + owner.steps, fixed=False)

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
        there = (function.name for function in FUNCTIONS.values() if function.about in {"", *self._variables})
        known = {*there, *METHODS, *MACROS, "has"}
        near = _SYNONYMS.get(name) or meant(name, known)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(sorted(known))}"
        return self._wrong(tree, f"there is no function {name!r}; {hint}")

    def _must_be(self, node: Node, kinds: Kinds) -> RuleError | None:
        """The mistake of a part that can be of none of `kinds`."""
        if node.kinds & kinds:
            return None
        sentence = f"`{node.text}` is {named(node.kinds)}, and {named(kinds)} is needed here"
        return wrong(sentence, self._text, node.offset)

    def _made(
        self, tree: "Tree[Token]", run: Run, known: Shape | Kinds, below: Sequence[Node], *mistakes: RuleError | None
    ) -> Node:
        """A node over those `below`. Raises the first mistake, unless no variable changes it: its value decides."""
        steps = 1 + sum(part.steps for part in below)
        fixed = all(part.fixed for part in below)
        found = next((one for one in (*(part.mistake for part in below), *mistakes) if one), None)
        if found is not None and not fixed:
            raise found
        shape = known if isinstance(known, Shape) else Shape(known)
        return self._node(tree, run, shape, steps, fixed=fixed, mistake=found)

    def _node(
        self,
        tree: "Tree[Token]",
        run: Run,
        shape: Shape = ANYTHING,
        steps: int = 1,
        *,
        fixed: bool = False,
        mistake: RuleError | None = None,
    ) -> Node:
        return Node(run, self._source(tree), shape, steps, fixed, _offset(tree), mistake)

    def _source(self, tree: "Tree[Token]") -> str:
        return source(tree, self._text)

    def _wrong(self, tree: "Tree[Token]", sentence: str) -> RuleError:
        return wrong(sentence, self._text, _offset(tree))


def _offset(tree: "Tree[Token]") -> int:
    return 0 if tree.meta.empty else tree.meta.start_pos
