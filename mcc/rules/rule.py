"""CEL rules: compiled once, then held against a result within a bound of work."""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.contracts.journal import Outcome
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.rules.errors import MAX_STEPS, Exhausted, Fault, Frame, RuleError
from mcc.rules.expression import Expression, expression
from mcc.rules.kinds import ANYTHING, JSON_VALUE, Kinds, Null, Plain, Shape, named, of_items, of_keys, text, word
from mcc.rules.node import Node
from mcc.rules.reads import READS
from mcc.rules.report import REPORT, few, resolved
from mcc.rules.schema import checked_schema
from mcc.rules.syntax import wrong

VARIABLES = frozenset({"result", "task", "receipts", "children", "usage", READS})
"""What a rule over an agent's result may name, and what its functions look at."""

ARGUMENTS: Shape = Shape(frozenset({dict, Null}), key=lambda name: JSON_VALUE, sparse=True)
"""The arguments of a call: tools differ in those that they have."""

_RECEIPT = Shape(frozenset({dict}), key=lambda name: ARGUMENTS if name == "arguments" else ANYTHING)
_KNOWN = {"receipts": of_items(_RECEIPT)}
"""What is known of variables also where a rule was declared before it could be held against it."""

KEPT = 512
"""Rules that stay compiled, the last used ones."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule that can be checked. Shared by threads; keeps nothing of any check."""

    expression: Expression
    message: str

    @property
    def cel(self) -> str:
        return self.expression.text


def compiled(rule: Rule, variables: Iterable[str] = VARIABLES) -> CompiledRule:
    """`rule` ready to be checked; `variables` are the names that it may use.

    Raises `RuleError` for CEL that cannot be read, unknown names and functions, kinds that cannot fit together, and
    what is too large to be bounded. Kept for reuse: asking again costs nothing. The first call of a process loads the
    grammar (about 0.3 s).
    """
    return CompiledRule(_expression(rule.cel, frozenset(variables)), rule.message)


@functools.lru_cache(maxsize=KEPT)
def _expression(cel: str, variables: frozenset[str]) -> Expression:
    return read_rule(cel, {name: _KNOWN.get(name, ANYTHING) for name in variables})


def read_rule(cel: str, variables: Mapping[str, Shape]) -> Expression:
    """The expression of a rule, with all that is known of the names that it may use. Raises `RuleError`."""
    made = expression(cel, variables)
    if bool not in made.top.kinds:
        raise RuleError(f"a rule must be true or false, and this is {named(made.top.kinds)}; compare it with something")
    return made


_QUOTED = 400
"""Characters of an expression that a sentence repeats."""

_NOTES = 10
_NOTE = 300
_EXPLAINING = 100_000
"""Steps of finding out what makes a rule false, apart from those of the check."""


@dataclass(frozen=True, slots=True)
class Checked:
    """`errors` has a sentence for each rule that does not hold; `faults` are those of them whose rule has no value."""

    errors: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def check(rules: Sequence[CompiledRule], context: Mapping[str, object]) -> Checked:
    """What is to be said of the rules that do not hold; nothing when all do. Never raises.

    `context` maps each variable of the rules to a JSON value (dict, list, str, int, float, bool, None), and `READS` to
    `Reads`. Only `true` passes: an error, or any other value, is a sentence too. The rules share one budget of steps,
    so that the same input always brings the same answer. Blocks for up to about 0.3 s: call it in a worker thread.
    """
    if not rules:
        return Checked()
    try:
        plain = _plain(rules, context)
    except (Fault, RecursionError) as fault:
        why = str(fault) if isinstance(fault, Fault) else "it is nested too deeply"
        return Checked((f"The rules could not be checked against what was handed in and done: {why}.",))
    sentences, faults = list[str](), list[str]()
    steps = MAX_STEPS
    for rule in rules:
        sentence, steps, broken = _checked(rule, plain, steps)
        if sentence is not None:
            sentences.append(sentence)
            faults.extend([sentence] if broken else ())
    return Checked(tuple(sentences), tuple(faults))


@dataclass(frozen=True, slots=True)
class Judged:
    """Whether a rule holds, and if not, why: its own message, then which items of a list break it; without a message,
    or where the rule has no value, the sentence that `check` would say."""

    holds: bool
    message: str = ""


class Round:
    """One round of checks over the same values, whose rules are judged one by one and share its steps.

    `context` is as for `check`; `receipts` and `READS` may be in it. Never raises.
    """

    def __init__(self, context: Mapping[str, object], steps: int = MAX_STEPS) -> None:
        self._steps = steps
        self._copy = Plain()
        self._plain: Mapping[str, Any] | None = None
        self._broken = ""
        try:
            self._plain = {name: one if name == READS else self._copy.of(one) for name, one in context.items()}
        except (Fault, RecursionError) as fault:
            self._broken = str(fault) if isinstance(fault, Fault) else "it is nested too deeply"

    def judged(self, rule: CompiledRule, **more: object) -> Judged:
        """`more` are values of this rule alone."""
        try:
            if self._plain is None:
                return Judged(False, f"The rule could not be checked: {self._broken}.")
            plain = {**self._plain, **{name: self._copy.of(one) for name, one in more.items()}}
        except (Fault, RecursionError):
            return Judged(False, "The rule could not be checked: the value is too large.")
        sentence, self._steps, broken = _checked(rule, plain, self._steps)
        if sentence is None:
            return Judged(True)
        if broken or not rule.message.strip() or self._steps <= 0:
            return Judged(False, sentence)
        plain_notes = [note.removesuffix(_NOT_SO) for note in _notes(rule, plain)]
        shown = "; ".join(few(plain_notes, _NOTES, _NOTE)).rstrip(".")
        return Judged(False, f"{rule.message.strip()} Not so: {shown}." if shown else rule.message.strip())


_NOT_SO = ": this is not so"


def _notes(rule: CompiledRule, plain: Mapping[str, Any]) -> list[str]:
    """What the first part of a && that is false says of itself."""
    return next((notes for _, notes in _false_parts(rule, plain) if notes), [])


def _plain(rules: Sequence[CompiledRule], context: Mapping[str, object]) -> Mapping[str, Any]:
    """What the rules name, as plain JSON; one that is not there is null."""
    names = sorted({name for rule in rules for name in rule.expression.names})
    copy = Plain()
    return {name: context.get(name) if name == READS else copy.of(context.get(name)) for name in names}


def _checked(rule: CompiledRule, plain: Mapping[str, Any], steps: int) -> tuple[str | None, int, bool]:
    """What is to be said of `rule` (None when it holds), the steps that are left, and whether it has no value."""
    frame = rule.expression.frame(plain, steps)
    try:
        found = rule.expression.value(frame)
    except Fault as fault:
        return _sentence(rule, f"could not be checked: {fault}"), frame.steps, True
    except Exhausted:
        return _sentence(rule, "takes more steps than one check may; hand in shorter lists"), 0, False
    except RecursionError:
        return _sentence(rule, "could not be checked: the values are nested too deeply"), frame.steps, False
    if found is True:
        return None, frame.steps, False
    if found is False:
        return _false(rule, plain), frame.steps, False
    return _sentence(rule, f"gives {word(found)} and must give true"), frame.steps, True


def _false(rule: CompiledRule, plain: Mapping[str, Any]) -> str:
    """Which part of a && is false, where there are several, and what makes it so; the others need no attention."""
    several = len(rule.expression.parts) > 1
    for part, notes in _false_parts(rule, plain):
        shown = "; ".join(few(notes, _NOTES, _NOTE)).rstrip(".")
        if shown and READS in rule.expression.names and rule.message.strip():
            return f"{rule.message.strip()} Not so: {shown}{'' if shown.endswith('?') else '.'}"
        where = f": `{part.text}` is false" if several else ""
        return _sentence(rule, f"is not true{where}{'; ' if where and shown else ': ' if shown else ''}{shown}")
    return _sentence(rule, "is not true")


def _false_parts(rule: CompiledRule, plain: Mapping[str, Any]) -> Iterator[tuple[Node, list[str]]]:
    """The parts of a && that are false, each with what it notes of why."""
    frame = rule.expression.frame(plain, _EXPLAINING)
    for part in rule.expression.parts:
        frame.notes = []
        try:
            frame.spend(part.steps)
            if part.run(frame) is not False:
                continue
        except (Fault, Exhausted, RecursionError):
            continue
        yield part, frame.notes or []


def _sentence(rule: CompiledRule, verdict: str) -> str:
    cel = " ".join(rule.cel.split())
    shown = cel if len(cel) <= _QUOTED else cel[: _QUOTED - 1] + "…"
    finding = f"The rule `{shown}` {verdict}{'' if verdict.endswith('?') else '.'}"
    return f"{rule.message.strip()} {finding}".strip()


_WHOLE: Kinds = frozenset({int})
_ENDED = frozenset(RecordStatus) - {RecordStatus.RUNNING, RecordStatus.WAITING}


def check_declared(rule: Rule, result: object, tools: Iterable[str]) -> None:
    """Refuse a rule that names what cannot be there, or compares what never fits. Raises `RuleError`, `SchemaError`.

    `result` is what an agent file or an order says of its result: a schema, the name of a shipped one, or None when
    nobody knows here what it will be. `tools` are the tools that are known; one of another name may still exist, unless
    its name looks like a slip.

    For the moment of declaring alone: an order that was accepted is held to its rules as they were accepted.
    """
    _check(rule.cel, None if result is None else json.dumps(result, default=dict), frozenset(tools))


@functools.lru_cache(maxsize=KEPT)
def _check(cel: str, result: str | None, tools: frozenset[str]) -> None:
    made = read_rule(cel, shapes(_of_result(result), tools))
    if made.top.fixed and made.top.run(Frame([], 0)) is False:
        raise wrong("this is false, whatever is handed in", cel, 0)


def _of_result(result: str | None) -> Shape:
    if result is None:
        return JSON_VALUE
    schema = resolved(json.loads(result))
    return checked_schema(REPORT if schema is None else schema).shape


def shapes(result: Shape, tools: Iterable[str]) -> Mapping[str, Shape]:
    """What is known of each name that a rule may use."""
    receipt = {
        "call_id": text(),
        "tool": text(*tools, likely=True),
        "arguments": ARGUMENTS,
        "ok": Shape(frozenset({bool})),
        "outcome": text(*(one.value for one in Outcome)),
        "path": text(nullable=True),
        "paths": of_items(text()),
        "lines": of_items(of_keys({"path": text(), "start_line": Shape(_WHOLE), "end_line": Shape(_WHOLE)})),
    }
    child = {
        **{name: text() for name in ("record_id", "agent", "title", "text")},
        "status": text(*(one.value for one in _ENDED)),
        "result": JSON_VALUE,
        "error": text(nullable=True),
        "rounds": Shape(_WHOLE),
    }
    usage = {name: Shape(_WHOLE) for name in Usage.model_fields}
    return {
        "result": result,
        "task": text(),
        "receipts": of_items(of_keys(receipt)),
        "children": of_items(of_keys(child)),
        "usage": of_keys({**usage, "cost_usd": Shape(frozenset({int, float, Null}))}),
        READS: ANYTHING,
    }
