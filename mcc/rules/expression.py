"""Compiles CEL: turns syntax trees into nodes and finds type errors before anything is evaluated.

MCC evaluates CEL itself because cel-python's runners cannot be stopped and take some 100 µs for each item of a list.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mcc.contracts.similar import closest_name
from mcc.rules import node as nodes
from mcc.rules import operators
from mcc.rules.errors import ExpressionError, Fault, Frame, StepsExhausted
from mcc.rules.functions import FUNCTIONS, METHODS, Function, searcher
from mcc.rules.kinds import (
    ANY,
    ANYTHING,
    CONTAINERS,
    KEYS,
    KINDS,
    NUMBERS,
    Kinds,
    Shape,
    Uint,
    cel_names,
    list_shape,
    union_shape,
)
from mcc.rules.node import MACROS, Macro, Run, SyntaxNode
from mcc.rules.operators import negative, operation, result_kinds
from mcc.rules.reads import READS
from mcc.rules.syntax import arguments, error_at, inner, literal, operands, parsed, parts, source

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_NESTING = 60
"""Levels of brackets, calls and operators within one another."""
MAX_MACROS, MAX_MACRO_NESTING = 20, 3
"""Uses of all, exists, exists_one, map and filter in one expression, and within one another."""

_ORDER = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
_BOOL: Kinds = frozenset({bool})
_FOLDING_STEPS = 5_000
"""Step budget for evaluating a constant part at compile time."""
_EQUALITY = {"eq": operators.equal, "ne": operators.unequal}
_SYNONYMS = {"len": "size", "length": "size", "count": "size", "any": "exists", "some": "exists", "every": "all"}

Scope = Mapping[str, tuple[int, Shape]]
"""By variable name, the slot of its value and the shape of it."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. Safe to share between threads; holds no state of any evaluation.

    `names` are the variables that it uses. `top` is the root node; `parts` are the operands of a `&&` there, or the
    root itself. `macro_slots` counts the slots for variables of macros.
    """

    text: str
    names: tuple[str, ...]
    top: SyntaxNode
    parts: tuple[SyntaxNode, ...]
    macro_slots: int

    def frame(self, context: Mapping[str, Any], steps: int) -> Frame:
        """A frame for `value` with the values of `context` (plain JSON for each of `names`) and a budget of `steps`."""
        return Frame([*(context[name] for name in self.names), *[None] * self.macro_slots], steps)

    def value(self, frame: Frame) -> Any:
        """Evaluate. Raises `Fault` when there is no value, and `StepsExhausted` when the frame's steps are used up."""
        frame.spend(self.top.steps)
        return self.top.run(frame)


def expression(text: str, variables: Mapping[str, Shape]) -> Expression:
    """Compile `text`; it may use the names of `variables`, whose shapes are given. Raises `ExpressionError`."""
    tree = parsed(text)
    used = {str(ident.children[0]) for ident in tree.find_data("ident")}
    called = {str(call.children[0]) for call in tree.find_data("ident_arg")} & FUNCTIONS.keys()
    names = tuple(sorted(variables.keys() & (used | {FUNCTIONS[name].about for name in called})))
    compiler = _Compiler(text, frozenset(variables), len(names))
    top = compiler.node(tree, {name: (slot, variables[name]) for slot, name in enumerate(names)})
    if top.mistake is not None:
        raise top.mistake
    return Expression(text, names, top, compiler.parts or (top,), compiler.macro_slots)


class _Compiler:
    """Turns the syntax tree of one expression into nodes. There is one method per grammar rule, found by its name."""

    def __init__(self, text: str, variables: frozenset[str], first_macro_slot: int) -> None:
        self._text = text
        self._variables = variables
        self._first_macro_slot = first_macro_slot
        self._level = self._macro_depth = self.macro_slots = 0
        self.parts: tuple[SyntaxNode, ...] = ()

    def node(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        tree = inner(tree)
        self._level += 1
        if self._level > MAX_NESTING:
            raise self._error(tree, f"this is nested deeper than {MAX_NESTING} levels; split it into several rules")
        build = getattr(self, f"_{tree.data}", self._unsupported)
        made = self._folded(tree, build(tree, scope))
        self._level -= 1
        return made

    def _folded(self, tree: "Tree[Token]", made: SyntaxNode) -> SyntaxNode:
        """Evaluate a constant node now. A fault becomes its mistake, which an `&&` or `||` around it may pass over."""
        if not made.fixed:
            return made
        try:
            value = made.run(Frame([], _FOLDING_STEPS))
        except Fault as fault:
            return made if made.mistake else replace(made, mistake=self._error(tree, str(fault)))
        except StepsExhausted as error:
            raise self._error(tree, "this takes too many steps") from error
        # `dyn(…)` can have any type; its shape stays, so that the value is not type-checked.
        shape = made.shape if made.kinds == ANY else Shape(frozenset({type(value)}))
        return self._node(tree, lambda frame: value, shape, fixed=True)

    def _literal(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        return self._constant(tree, tree.children[0])

    def _constant(self, tree: "Tree[Token]", token: Any, sign: str = "") -> SyntaxNode:
        try:
            value = literal(token, sign)
        except ValueError as error:
            raise self._error(tree, f"`{source(tree, self._text)}` {error}") from error
        return self._node(tree, lambda frame: value, Shape(frozenset({type(value)})), fixed=True)

    def _ident(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        name = str(tree.children[0])
        if name in scope:
            slot, shape = scope[name]
            return self._node(tree, lambda frame: frame.slots[slot], shape)
        if name in KINDS:
            return self._node(tree, lambda frame: KINDS[name], fixed=True)
        known = sorted({*self._variables, *scope} - {READS})
        near = closest_name(name, known)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(known)}"
        raise self._error(tree, f"{name!r} is not known here; {hint}")

    def _expr(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        condition, yes, no = (self.node(part, scope) for part in parts(tree))
        run = nodes.choice(condition, yes, no)
        shape = union_shape((yes.shape, no.shape))
        return self._parent(tree, run, shape, (condition, yes, no), self._type_mistake(condition, _BOOL))

    def _conditionalor(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        return self._joined(tree, scope, True)

    def _conditionaland(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        return self._joined(tree, scope, False)

    def _joined(self, tree: "Tree[Token]", scope: Scope, decisive: bool) -> SyntaxNode:
        joined = tuple(self.node(part, scope) for part in operands(tree))
        mistakes = [self._type_mistake(part, _BOOL) for part in joined]
        if self._level == 1 and not decisive:
            self.parts = joined
        return self._parent(tree, nodes.joined(joined, decisive), _BOOL, joined, *mistakes)

    def _relation(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        head, last = parts(tree)
        left, right = self.node(parts(head)[0], scope), self.node(last, scope)
        text, sign = source(tree, self._text), head.data.removeprefix("relation_")
        if sign == "in":
            mistake = self._type_mistake(right, CONTAINERS) or self._text_mistake(left, right)
            run = nodes.binary(operators.contained, left, right, text)
            return self._parent(tree, run, _BOOL, (left, right), mistake)
        fits = operators.can_be_ordered if sign in _ORDER else operators.can_be_equal
        mistake = None
        if not fits(left.kinds, right.kinds):
            kinds = f"{cel_names(left.kinds)} with {cel_names(right.kinds)}"
            mistake = self._error(tree, f"`{text}` compares {kinds}, which never fits")
        elif sign in _EQUALITY:
            mistake = self._text_mistake(left, right) or self._text_mistake(right, left)
        act = operators.ordered(_ORDER[sign]) if sign in _ORDER else _EQUALITY[sign]
        return self._parent(tree, nodes.binary(act, left, right, text), _BOOL, (left, right), mistake)

    def _addition(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        head, last = parts(tree)
        left, right = self.node(parts(head)[0], scope), self.node(last, scope)
        text, kinds = source(tree, self._text), result_kinds(head.data, left.kinds, right.kinds)
        mistake = None
        if not kinds:
            both_kinds = f"{cel_names(left.kinds)} and {cel_names(right.kinds)}"
            mistake = self._error(tree, f"`{text}` calculates with {both_kinds}, which never fits")
        return self._parent(tree, nodes.binary(operation(head.data), left, right, text), kinds, (left, right), mistake)

    _multiplication = _addition

    def _unary(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        sign, operand = parts(tree)
        token = self._number_token(operand) if sign.data == "unary_neg" else None
        if token is not None:
            # Sign and digits together, because the digits of -2**63 alone do not fit into 64 bits.
            return self._constant(tree, token, "-")
        node = self.node(operand, scope)
        if sign.data == "unary_not":
            return self._parent(tree, nodes.negated(node), _BOOL, (node,), self._type_mistake(node, _BOOL))
        run = nodes.called(negative, (node,), source(tree, self._text))
        signed = NUMBERS - {Uint}
        return self._parent(tree, run, node.kinds & signed, (node,), self._type_mistake(node, signed))

    def _number_token(self, tree: "Tree[Token]") -> Any:
        """The token of a number without brackets; None when `tree` is anything else."""
        found: Any = tree
        while len(found.children) == 1 and found.data in ("unary", "member", "primary"):
            found = found.children[0]
        token = found.children[0] if found.data == "literal" else None
        return token if token is not None and token.type in ("INT_LIT", "FLOAT_LIT") else None

    def _member_dot(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        owner, key = self.node(parts(tree)[0], scope), str(tree.children[1]).strip("`")
        mistake = self._key_mistake(tree, owner, key)
        run = nodes.selected(owner, key, source(tree, self._text))
        return self._parent(tree, run, owner.shape.key(key), (owner,), mistake)

    def _key_mistake(self, tree: "Tree[Token]", owner: SyntaxNode, key: str) -> ExpressionError | None:
        """The error if `owner` can never have `key`."""
        if dict not in owner.kinds:
            hint = f"; write size({owner.text})" if _SYNONYMS.get(key) == "size" else ""
            sentence = f"`{owner.text}` is {cel_names(owner.kinds)}, and map is needed here to have a key {key!r}{hint}"
            return error_at(sentence, self._text, owner.offset)
        if not owner.shape.lacks(key):
            return None
        names = sorted(owner.shape.names or ())
        near = closest_name(key, names)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(names[:20]) or 'none'}"
        offset = getattr(tree.children[1], "start_pos", _offset(tree))
        return error_at(f"`{owner.text}` has no key {key!r}; {hint}", self._text, offset)

    def _text_mistake(self, one: SyntaxNode, other: SyntaxNode) -> ExpressionError | None:
        """The error if `other` is a constant text, or a list with one, that `one` can never equal."""
        if one.shape.texts is None or not other.fixed or other.mistake is not None:
            return None
        value = other.run(Frame([], _FOLDING_STEPS))
        for text in value if type(value) is list else (value,):
            if type(text) is str and one.shape.excludes(text):
                known = sorted(one.shape.texts)
                near = closest_name(text, known)
                hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(known[:20])}"
                return error_at(f"`{one.text}` is never {text[:60]!r}; {hint}", self._text, other.offset)
        return None

    def _member_index(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        owner, index = (self.node(part, scope) for part in parts(tree))
        mistake = self._type_mistake(owner, frozenset({list, dict}))
        shape = ANYTHING
        if dict not in owner.kinds:
            shape = owner.shape.item()
        elif index.fixed and index.mistake is None and isinstance(key := index.run(Frame([], _FOLDING_STEPS)), str):
            shape, mistake = owner.shape.key(key), self._key_mistake(tree, owner, key)
        return self._parent(tree, nodes.indexed(owner, index, source(tree, self._text)), shape, (owner, index), mistake)

    def _list_lit(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        items = [self.node(part, scope) for part in arguments(tree, 0)]
        return self._parent(tree, nodes.listed(items), frozenset({list}), items)

    def _map_lit(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        items = [self.node(part, scope) for part in arguments(tree, 0)]
        run = nodes.mapped(list(zip(items[0::2], items[1::2], strict=True)))
        mistakes = [self._type_mistake(key, KEYS) for key in items[0::2]]
        return self._parent(tree, run, frozenset({dict}), items, *mistakes)

    def _ident_arg(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        name, given = str(tree.children[0]), arguments(tree, 1)
        if name == "has":
            return self._has(tree, given, scope)
        if name not in FUNCTIONS or FUNCTIONS[name].about not in {"", *scope}:
            raise self._unknown_function(tree, name)
        return self._called(tree, FUNCTIONS[name], [self.node(one, scope) for one in given], scope)

    def _member_dot_arg(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        name, given = str(tree.children[1]), arguments(tree, 2)
        owner = self.node(parts(tree)[0], scope)
        if name in MACROS:
            return self._macro(tree, MACROS[name], owner, given, scope)
        if name not in METHODS:
            raise self._unknown_function(tree, name)
        return self._called(tree, METHODS[name], [owner, *(self.node(one, scope) for one in given)], scope)

    def _has(self, tree: "Tree[Token]", given: "list[Tree[Token]]", scope: Scope) -> SyntaxNode:
        if len(given) != 1 or inner(given[0]).data != "member_dot":
            raise self._error(tree, "has() takes one key, such as has(result.path)")
        member = inner(given[0])
        owner, key = self.node(parts(member)[0], scope), str(member.children[1]).strip("`")
        # The key itself is not checked against the owner's shape: has() is there to ask for keys that may be missing.
        node = self._node(member, nodes.selected(owner, key, source(member, self._text)), steps=1 + owner.steps)
        node = replace(node, fixed=owner.fixed, mistake=owner.mistake)
        return self._parent(tree, nodes.present(node), _BOOL, (node,))

    def _called(self, tree: "Tree[Token]", function: Function, given: list[SyntaxNode], scope: Scope) -> SyntaxNode:
        text = source(tree, self._text)
        most = len(function.takes)
        if not most - function.optional <= len(given) <= most:
            raise self._error(tree, f"`{text}` gives {function.name} {len(given)} values, and it takes {most}")
        mistakes = [self._type_mistake(node, kinds) for node, kinds in zip(given, function.takes, strict=False)]
        act: Callable[..., Any] = function
        if function.name == "matches" and given[1].fixed and given[1].mistake is None:
            self._compile_pattern(tree, given[1])
            act = function.with_known_pattern
        if not function.about:
            return self._parent(tree, nodes.called(act, given, text), function.gives, given, *mistakes)
        act = function.over_slot(scope[function.about][0])
        made = self._parent(tree, nodes.called(act, given, text), function.gives, given, *mistakes)
        # Never constant, even with constant arguments: it depends on the variable `function.about`.
        return replace(made, fixed=False)

    def _compile_pattern(self, tree: "Tree[Token]", pattern: SyntaxNode) -> None:
        try:
            if isinstance(value := pattern.run(Frame([], 0)), str):
                searcher(value)
        except Fault as fault:
            raise self._error(tree, f"`{source(tree, self._text)}` {fault}") from fault

    def _macro(self, tree: "Tree[Token]", macro: Macro, owner: SyntaxNode, given: Any, scope: Scope) -> SyntaxNode:
        if len(given) not in macro.arguments or inner(given[0]).data != "ident":
            raise self._error(tree, f"{macro.name} is written {macro.usage}")
        if not owner.kinds & CONTAINERS:
            raise self._error(tree, f"`{owner.text}` is {cel_names(owner.kinds)}, and {macro.name} goes over a list")
        slot = self._new_macro_slot(tree, macro)
        item = ANYTHING if dict in owner.kinds else owner.shape.item()
        inside = {**scope, str(inner(given[0]).children[0]): (slot, item)}
        self._macro_depth += 1
        bodies = [self.node(argument, inside) for argument in given[1:]]
        self._macro_depth -= 1
        mistake = self._type_mistake(bodies[0], _BOOL) if macro.tests(len(given)) else None
        run = macro.build(owner, slot, bodies)
        shape = Shape(macro.gives)
        if list in macro.gives:
            shape = list_shape(item if macro.name == "filter" else bodies[-1].shape)
        made = self._parent(tree, run, shape, (owner, *bodies), mistake)
        # Without the cost of the bodies, which the macro itself charges for each item.
        return replace(made, steps=1 + owner.steps, fixed=False)

    def _new_macro_slot(self, tree: "Tree[Token]", macro: Macro) -> int:
        if self._macro_depth >= MAX_MACRO_NESTING:
            raise self._error(tree, f"{macro.name} stands within {MAX_MACRO_NESTING} others; that many may nest")
        if self.macro_slots >= MAX_MACROS:
            raise self._error(tree, f"there are more than {MAX_MACROS} of all, exists, map and filter; split the rule")
        self.macro_slots += 1
        return self._first_macro_slot + self.macro_slots - 1

    def _unsupported(self, tree: "Tree[Token]", scope: Scope) -> SyntaxNode:
        raise self._error(tree, f"`{source(tree, self._text)}` is CEL that is not available here")

    def _unknown_function(self, tree: "Tree[Token]", name: str) -> ExpressionError:
        available = (function.name for function in FUNCTIONS.values() if function.about in {"", *self._variables})
        known = {*available, *METHODS, *MACROS, "has"}
        near = _SYNONYMS.get(name) or closest_name(name, known)
        hint = f"did you mean {near!r}?" if near else f"there is: {', '.join(sorted(known))}"
        return self._error(tree, f"there is no function {name!r}; {hint}")

    def _type_mistake(self, node: SyntaxNode, kinds: Kinds) -> ExpressionError | None:
        """The error if `node` can have none of the types `kinds`."""
        if node.kinds & kinds:
            return None
        sentence = f"`{node.text}` is {cel_names(node.kinds)}, and {cel_names(kinds)} is needed here"
        return error_at(sentence, self._text, node.offset)

    def _parent(
        self,
        tree: "Tree[Token]",
        run: Run,
        known: Shape | Kinds,
        children: Sequence[SyntaxNode],
        *mistakes: ExpressionError | None,
    ) -> SyntaxNode:
        """A node with these children. Raises the first mistake, except in a constant node, which carries it along."""
        steps = 1 + sum(child.steps for child in children)
        fixed = all(child.fixed for child in children)
        mistake = next((each for each in (*(child.mistake for child in children), *mistakes) if each), None)
        if mistake is not None and not fixed:
            raise mistake
        shape = known if isinstance(known, Shape) else Shape(known)
        return self._node(tree, run, shape, steps, fixed=fixed, mistake=mistake)

    def _node(
        self,
        tree: "Tree[Token]",
        run: Run,
        shape: Shape = ANYTHING,
        steps: int = 1,
        *,
        fixed: bool = False,
        mistake: ExpressionError | None = None,
    ) -> SyntaxNode:
        return SyntaxNode(run, source(tree, self._text), shape, steps, fixed, _offset(tree), mistake)

    def _error(self, tree: "Tree[Token]", sentence: str) -> ExpressionError:
        return error_at(sentence, self._text, _offset(tree))


def _offset(tree: "Tree[Token]") -> int:
    return 0 if tree.meta.empty else tree.meta.start_pos
