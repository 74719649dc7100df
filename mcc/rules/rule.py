"""CEL rules: checked when they are declared, compiled once, evaluated within a step budget, explained when false."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.contracts.journal import Outcome
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.rules.errors import MAX_STEPS, ExpressionError, Fault, Frame, StepsExhausted
from mcc.rules.expression import Expression, expression
from mcc.rules.kinds import (
    ANYTHING,
    JSON_VALUE,
    JsonCopy,
    Kinds,
    Null,
    Shape,
    cel_names,
    describe,
    list_shape,
    object_shape,
    text_shape,
)
from mcc.rules.node import SyntaxNode
from mcc.rules.reads import READS
from mcc.rules.report import REPORT, few, resolved
from mcc.rules.schema import checked_schema
from mcc.rules.syntax import error_at

VARIABLES = frozenset({"result", "task", "receipts", "children", "usage", READS})
"""Variables of a rule over an agent's result, including the one that only its functions see."""

ARGUMENTS: Shape = Shape(frozenset({dict, Null}), key=lambda name: JSON_VALUE, sparse=True)
"""The arguments of any tool call: an absent key is null, because each tool has arguments of its own."""

_RECEIPT = Shape(frozenset({dict}), key=lambda name: ARGUMENTS if name == "arguments" else ANYTHING)
_KNOWN = {"receipts": list_shape(_RECEIPT)}
"""The shapes that `compiled` relies on, so that absent arguments are null. No more, because it has to accept every rule
that an order was accepted with, also those that `check_declared` would refuse today."""

CACHED_RULES = 512
"""How many compiled rules the cache holds; the least recently used one goes first."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule ready to be checked. Safe to share between threads; holds no state of any check."""

    expression: Expression
    message: str

    @property
    def cel(self) -> str:
        return self.expression.text


def compiled(rule: Rule, variables: Iterable[str] = VARIABLES) -> CompiledRule:
    """Compile `rule`; `variables` are the names that it may use.

    Raises `ExpressionError` for CEL that does not parse, unknown names and functions, types that never fit together,
    and expressions too large to be bounded. Results are cached. The first call of a process loads the grammar (about
    0.3 s).
    """
    return CompiledRule(_expression(rule.cel, frozenset(variables)), rule.message)


@functools.lru_cache(maxsize=CACHED_RULES)
def _expression(cel: str, variables: frozenset[str]) -> Expression:
    return rule_expression(cel, {name: _KNOWN.get(name, ANYTHING) for name in variables})


def rule_expression(cel: str, variables: Mapping[str, Shape]) -> Expression:
    """The expression of a rule; `variables` are the names that it may use, with their shapes. Raises
    `ExpressionError`."""
    made = expression(cel, variables)
    if bool not in made.top.kinds:
        kinds = cel_names(made.top.kinds)
        raise ExpressionError(f"a rule must be true or false, and this is {kinds}; compare it with something")
    return made


_MAX_QUOTED = 400
"""Characters of an expression that a sentence quotes."""

_MAX_NOTES = 10
"""Notes that a sentence lists."""
_NOTE_CHARACTERS = 300
"""Characters of a note."""
_EXPLAINING_STEPS = 100_000
"""Step budget for finding what makes a rule false, apart from that of the check."""


@dataclass(frozen=True, slots=True)
class CheckedRules:
    """`errors` has a sentence for each rule that does not hold; `faults` are those for rules without a value."""

    errors: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def check(rules: Sequence[CompiledRule], context: Mapping[str, object]) -> CheckedRules:
    """Evaluate the rules and return a sentence for each that does not hold. Never raises.

    `context` maps each variable of the rules to a JSON value (dict, list, str, int, float, bool, None), and `READS` to
    `Reads`. Only `true` passes: an error or any other value gives a sentence too. The rules share one step budget
    instead of a time limit, so the same input always gives the same verdict. Blocks for up to about 0.3 s: call it in a
    worker thread.
    """
    if not rules:
        return CheckedRules()
    try:
        values = _values(rules, context)
    except (Fault, RecursionError) as fault:
        why = str(fault) if isinstance(fault, Fault) else "it is nested too deeply"
        return CheckedRules((f"The rules could not be checked against what was handed in and done: {why}.",))
    sentences, faults = list[str](), list[str]()
    steps = MAX_STEPS
    for rule in rules:
        sentence, steps, no_value = _evaluated(rule, values, steps)
        if sentence is not None:
            sentences.append(sentence)
            faults.extend([sentence] if no_value else ())
    return CheckedRules(tuple(sentences), tuple(faults))


@dataclass(frozen=True, slots=True)
class JudgedRule:
    """Whether a rule holds. If not, `message` is the rule's own message and which items of a list break the rule; for a
    rule without a message or without a value, it is the sentence of `check`."""

    holds: bool
    message: str = ""


class Round:
    """Judges rules one by one over the same values, within one shared step budget. Never raises.

    `context` is as for `check`.
    """

    def __init__(self, context: Mapping[str, object], steps: int = MAX_STEPS) -> None:
        self._steps = steps
        self._copy = JsonCopy()
        self._values: Mapping[str, Any] | None = None
        self._problem = ""
        try:
            self._values = {name: value if name == READS else self._copy.of(value) for name, value in context.items()}
        except (Fault, RecursionError) as fault:
            self._problem = str(fault) if isinstance(fault, Fault) else "it is nested too deeply"

    def judged(self, rule: CompiledRule, **more: object) -> JudgedRule:
        """`more` are variables of this rule alone."""
        try:
            if self._values is None:
                return JudgedRule(False, f"The rule could not be checked: {self._problem}.")
            values = {**self._values, **{name: self._copy.of(value) for name, value in more.items()}}
        except (Fault, RecursionError):
            return JudgedRule(False, "The rule could not be checked: the value is too large.")
        sentence, self._steps, no_value = _evaluated(rule, values, self._steps)
        if sentence is None:
            return JudgedRule(True)
        if no_value or not rule.message.strip() or self._steps <= 0:
            return JudgedRule(False, sentence)
        first_notes = next((notes for _, notes in _false_parts(rule, values) if notes), [])
        bare_notes = [note.removesuffix(_NOT_SO) for note in first_notes]
        listed = "; ".join(few(bare_notes, _MAX_NOTES, _NOTE_CHARACTERS)).rstrip(".")
        return JudgedRule(False, f"{rule.message.strip()} Not so: {listed}." if listed else rule.message.strip())


_NOT_SO = ": this is not so"


def _values(rules: Sequence[CompiledRule], context: Mapping[str, object]) -> Mapping[str, Any]:
    """The variables that the rules name, copied as plain JSON; a missing one is null. Raises `Fault`."""
    names = sorted({name for rule in rules for name in rule.expression.names})
    copy = JsonCopy()
    return {name: context.get(name) if name == READS else copy.of(context.get(name)) for name in names}


def _evaluated(rule: CompiledRule, values: Mapping[str, Any], steps: int) -> tuple[str | None, int, bool]:
    """The sentence on `rule` (None when it holds), the steps left, and whether the rule has no truth value."""
    frame = rule.expression.frame(values, steps)
    try:
        value = rule.expression.value(frame)
    except Fault as fault:
        return _sentence(rule, f"could not be checked: {fault}"), frame.steps, True
    except StepsExhausted:
        return _sentence(rule, "takes more steps than one check may; hand in shorter lists"), 0, False
    except RecursionError:
        return _sentence(rule, "could not be checked: the values are nested too deeply"), frame.steps, False
    if value is True:
        return None, frame.steps, False
    if value is False:
        return _false_sentence(rule, values), frame.steps, False
    return _sentence(rule, f"gives {describe(value)} and must give true"), frame.steps, True


def _false_sentence(rule: CompiledRule, values: Mapping[str, Any]) -> str:
    """The sentence on a false rule: names the first false operand of a top-level `&&`, and why it is false."""
    several = len(rule.expression.parts) > 1
    for part, notes in _false_parts(rule, values):
        listed = "; ".join(few(notes, _MAX_NOTES, _NOTE_CHARACTERS)).rstrip(".")
        if listed and READS in rule.expression.names and rule.message.strip():
            return f"{rule.message.strip()} Not so: {listed}{'' if listed.endswith('?') else '.'}"
        where = f": `{part.text}` is false" if several else ""
        return _sentence(rule, f"is not true{where}{'; ' if where and listed else ': ' if listed else ''}{listed}")
    return _sentence(rule, "is not true")


def _false_parts(rule: CompiledRule, values: Mapping[str, Any]) -> Iterator[tuple[SyntaxNode, list[str]]]:
    """The false operands of a top-level `&&` (or the whole expression), each with notes on why it is false."""
    frame = rule.expression.frame(values, _EXPLAINING_STEPS)
    for part in rule.expression.parts:
        frame.notes = []
        try:
            frame.spend(part.steps)
            if part.run(frame) is not False:
                continue
        except (Fault, StepsExhausted, RecursionError):
            continue
        yield part, frame.notes or []


def _sentence(rule: CompiledRule, verdict: str) -> str:
    cel = " ".join(rule.cel.split())
    shown = cel if len(cel) <= _MAX_QUOTED else cel[: _MAX_QUOTED - 1] + "…"
    finding = f"The rule `{shown}` {verdict}{'' if verdict.endswith('?') else '.'}"
    return f"{rule.message.strip()} {finding}".strip()


_INT: Kinds = frozenset({int})
_ENDED = frozenset(RecordStatus) - {RecordStatus.RUNNING, RecordStatus.WAITING}


def check_declared(rule: Rule, result: object, tools: Iterable[str]) -> None:
    """Refuse a rule that names what never exists or compares types that never fit. Raises `ExpressionError`,
    `SchemaError`.

    `result` is the `result` of an agent file or an order: a schema, the name of a shipped one, or None when it is
    unknown here. `tools` are the known tools; a rule may name another one, unless that name looks like a typing error.

    Call it only when a rule is declared. Later checks use `compiled`: an order keeps the rules it was accepted with,
    even if they would be refused today.
    """
    _check_declared(rule.cel, None if result is None else json.dumps(result, default=dict), frozenset(tools))


@functools.lru_cache(maxsize=CACHED_RULES)
def _check_declared(cel: str, result: str | None, tools: frozenset[str]) -> None:
    shape = JSON_VALUE
    if result is not None:
        schema = resolved(json.loads(result))
        # An agent that has rules but no schema hands in a report.
        shape = checked_schema(REPORT if schema is None else schema).shape
    made = rule_expression(cel, variable_shapes(shape, tools))
    if made.top.fixed and made.top.run(Frame([], 0)) is False:
        raise error_at("this is false, whatever is handed in", cel, 0)


def variable_shapes(result: Shape, tools: Iterable[str]) -> Mapping[str, Shape]:
    """The shape of each variable of a rule, given that of `result` and the known tools."""
    line_range = {"path": text_shape(), "start_line": Shape(_INT), "end_line": Shape(_INT)}
    receipt = {
        "call_id": text_shape(),
        "tool": text_shape(*tools, likely=True),
        "arguments": ARGUMENTS,
        "ok": Shape(frozenset({bool})),
        "outcome": text_shape(*(member.value for member in Outcome)),
        "path": text_shape(nullable=True),
        "paths": list_shape(text_shape()),
        "lines": list_shape(object_shape(line_range)),
    }
    child = {
        **{name: text_shape() for name in ("record_id", "agent", "title", "text")},
        "status": text_shape(*(member.value for member in _ENDED)),
        "result": JSON_VALUE,
        "error": text_shape(nullable=True),
        "rounds": Shape(_INT),
    }
    usage = {name: Shape(_INT) for name in Usage.model_fields}
    return {
        "result": result,
        "task": text_shape(),
        "receipts": list_shape(object_shape(receipt)),
        "children": list_shape(object_shape(child)),
        "usage": object_shape({**usage, "cost_usd": Shape(frozenset({int, float, Null}))}),
        READS: ANYTHING,
    }
