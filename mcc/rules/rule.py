"""CEL rules: compiled once, then held against a result within a bound of work."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcc.contracts.order import Rule
from mcc.rules.errors import RuleError
from mcc.rules.expression import Expression, expression
from mcc.rules.faults import MAX_STEPS, Exhausted, Fault, Frame
from mcc.rules.kinds import named, word
from mcc.rules.plain import Plain
from mcc.rules.shape import ANYTHING, Shape

VARIABLES = frozenset({"result", "task", "receipts", "children", "usage"})
"""What a rule over an agent's result may name."""

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
    return read_rule(cel, dict.fromkeys(variables, ANYTHING))


def read_rule(cel: str, variables: Mapping[str, Shape]) -> Expression:
    """The expression of a rule, with all that is known of the names that it may use. Raises `RuleError`."""
    made = expression(cel, variables)
    if bool not in made.top.kinds:
        raise RuleError(f"a rule must be true or false, and this is {named(made.top.kinds)}; compare it with something")
    return made


_QUOTED = 400
"""Characters of an expression that a sentence repeats."""


@dataclass(frozen=True, slots=True)
class Checked:
    """`errors` has a sentence for each rule that does not hold; `faults` are those of them whose rule has no value."""

    errors: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def check(rules: Sequence[CompiledRule], context: Mapping[str, object]) -> Checked:
    """What is to be said of the rules that do not hold; nothing when all do. Never raises.

    `context` maps each variable of the rules to a JSON value (dict, list, str, int, float, bool, None). Only `true`
    passes: an error, or any other value, is a sentence too. The rules share one budget of steps, so that the same
    input always brings the same answer. Blocks for up to about 0.3 s: call it in a worker thread.
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


def _plain(rules: Sequence[CompiledRule], context: Mapping[str, object]) -> Mapping[str, Any]:
    """What the rules name, as plain JSON; one that is not there is null."""
    names = sorted({name for rule in rules for name in rule.expression.names})
    copy = Plain()
    return {name: copy.of(context.get(name)) for name in names}


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
        return _sentence(rule, f"is not true{_failing(rule, frame)}"), frame.steps, False
    return _sentence(rule, f"gives {word(found)} and must give true"), frame.steps, True


def _failing(rule: CompiledRule, frame: Frame) -> str:
    """Which part of a && is false, where there are several; the others need no attention."""
    if len(rule.expression.parts) < 2:
        return ""
    for part in rule.expression.parts:
        try:
            frame.spend(part.steps)
            if part.run(frame) is False:
                return f": `{part.text}` is false"
        except (Fault, Exhausted, RecursionError):
            continue
    return ""


def _sentence(rule: CompiledRule, verdict: str) -> str:
    cel = " ".join(rule.cel.split())
    shown = cel if len(cel) <= _QUOTED else cel[: _QUOTED - 1] + "…"
    finding = f"The rule `{shown}` {verdict}{'' if verdict.endswith('?') else '.'}"
    return f"{rule.message.strip()} {finding}".strip()
