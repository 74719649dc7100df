"""The gate of `submit_result`: a result must fit a JSON Schema, then CEL rules, then rules written in Python."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from drone.agent.gates.gate import ATTEMPTS, CHECK_ONLY, Evidence, GateVerdict
from drone.agent.gates.result_class import errors_of_class, is_result_class, read_as_class, schema_of_class
from drone.agent.ports.receipts import CallReceipt
from drone.agent.ports.report import Report, describe_or_raise
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.order import Rule
from mcc.contracts.shape import to_json
from mcc.contracts.similar import hints_keywords
from mcc.rules.errors import SchemaError
from mcc.rules.reads import READS, Passage, Reads
from mcc.rules.report import REPORT, REPORT_NAME, TEXT_NAME, resolved
from mcc.rules.rule import check, compiled
from mcc.rules.schema import checked_schema
from mcc.transcript.messages import ToolSpec

SUBMIT = "submit_result"

LONGEST = 2_000
"""Most characters that rules see of a string in a call's arguments, or of a child's text."""

_LEVELS = 20

FunctionRule: TypeAlias = Callable[[Any, Evidence], object]
"""Called with (result, evidence); sync (in a thread) or async. The result has unset properties as null, or is an object
of the gate's class. True and None pass; a text refuses and says why; any other value, and an exception, refuses too."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """The outcome of schema and rules. `fits`: whether the result fits the schema; `offered`: then, what functions are
    called with."""

    handed_in: Any
    offered: Any
    errors: tuple[str, ...]
    faults: tuple[str, ...]
    fits: bool
    warnings: tuple[str, ...] = ()


@hints_keywords
class ReportGate:
    """The gate of `submit_result`. May be shared by any number of runs."""

    def __init__(
        self,
        schema: object = REPORT_NAME,
        rules: Sequence[Rule] = (),
        *,
        functions: Mapping[str, FunctionRule] | None = None,
    ) -> None:
        """`schema`: a JSON Schema, the name of a shipped one, or a pydantic class, of which the report's `result` is an
        object then. `functions`: rules in Python by name.

        Raises `SchemaError`, `ExpressionError`. The first rule in a process loads the CEL parser (about 0.3 s).
        """
        self.result_class = schema if is_result_class(schema) else None
        known = schema_of_class(schema) if is_result_class(schema) else resolved(schema)
        self._schema = checked_schema(REPORT if known is None else known)
        self._rules = tuple(compiled(rule) for rule in rules)
        self._variables = sorted({name for rule in self._rules for name in rule.expression.names})
        # By the text of the rules: one that only happens to hold the word has texts loaded in vain, and is judged no
        # differently.
        self._reads = READS in self._variables or any("lines" in rule.cel for rule in rules)
        self._functions = dict(functions or {})
        self._specs, self.check_only = _specs(self._schema.tool_parameters)
        self.finish = SUBMIT
        self.guidance = _guidance(rules, self.check_only)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def check(self, offered: Mapping[str, object], evidence: Evidence) -> GateVerdict:
        whole = await evidence.whole_texts() if self._reads else {}
        judged = await evidence.threads.gate(self._judged, offered, evidence, whole)
        errors = judged.errors
        for name, function in self._functions.items() if judged.fits else ():
            errors = (*errors, *await _asked(name, function, judged.offered, evidence))
        return GateVerdict(errors, judged.handed_in, text_of(judged.handed_in), judged.faults, judged.warnings)

    def answer(self, verdict: GateVerdict, said: str) -> str:
        return said

    def _judged(self, offered: Mapping[str, object], evidence: Evidence, whole_texts: Mapping[str, str]) -> _Judged:
        handed_in, warnings = self._schema.fitted(self._schema.handed_in(offered))
        kind = self.result_class
        errors = self._schema.errors(handed_in) or (() if kind is None else errors_of_class(kind, handed_in))
        if errors:
            return _Judged(handed_in, None, errors, (), fits=False, warnings=warnings)
        whole = self._schema.with_unset(handed_in)
        shown = tuple(evidence.passages(whole_texts)) if self._reads else ()
        checked = check(self._rules, variables(whole, evidence, self._variables, shown))
        shape = whole if kind is None else read_as_class(kind, handed_in)
        return _Judged(handed_in, shape, checked.errors, checked.faults, fits=True, warnings=warnings)


def gate_for(
    definition: AgentDefinition,
    *,
    is_subagent: bool,
    result_schema: object = None,
    rules: Sequence[Rule] = (),
) -> ReportGate | None:
    """The gate of an agent; None when a reply without tool calls is its result.

    `result_schema` and `rules`: the order's, for its root agent. The schema replaces that of the agent's definition,
    the rules are added to those of the definition. Raises `SchemaError`, `ExpressionError`.
    """
    declared = None if definition.result == TEXT_NAME else definition.result
    schema = declared if result_schema is None else result_schema
    every = (*definition.rules, *rules)
    if schema is None and not every and (definition.result == TEXT_NAME or not is_subagent):
        return None
    if is_result_class(schema):
        return ReportGate(schema, every)
    return _gate(_as_text(REPORT_NAME if schema is None else schema), every)


@lru_cache(maxsize=256)
def _gate(schema: str, rules: tuple[Rule, ...]) -> ReportGate:
    """One gate for all agents with the same schema and rules: the schema is checked and encoded only once."""
    return ReportGate(json.loads(schema), rules)


def _as_text(schema: object) -> str:
    if isinstance(schema, type):
        raise SchemaError(f"{schema.__name__} is no form of a result: give a JSON Schema, or a pydantic class")
    try:
        return json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"the schema of a result must be JSON: {error}") from error


def text_of(result: object) -> str:
    """A result as text for people: its `answer` or `summary`, the result itself if a string, else compact JSON."""
    if isinstance(result, str):
        return result
    said = (result.get(key) for key in ("answer", "summary")) if isinstance(result, Mapping) else ()
    found = next((text for text in said if isinstance(text, str) and text.strip()), None)
    return to_json(result).decode() if found is None else found


async def _asked(name: str, function: FunctionRule, result: Any, evidence: Evidence) -> tuple[str, ...]:
    try:
        if inspect.iscoroutinefunction(function):
            said = await function(result, evidence)
        else:
            said = await evidence.threads.gate(function, result, evidence)
    except BaseException as error:
        return (f"The rule {name} could not be checked: {describe_or_raise(error)}",)
    if said is None or said is True:
        return ()
    return (said if isinstance(said, str) and said.strip() else f"The rule {name} is not met.",)


def _specs(parameters: Mapping[str, Any]) -> tuple[tuple[ToolSpec, ...], str | None]:
    """The tool, and the name of its argument for only checking: None where the result has a property of that name."""
    own = parameters.get("properties", {})
    asks = None if CHECK_ONLY in own else CHECK_ONLY
    if asks is not None:
        parameters = {**parameters, "properties": {**own, asks: {"type": "boolean", "description": "End nothing."}}}
    submit = "Hand in your result. Accepted, it ends your work; else you are told why."
    return (ToolSpec(SUBMIT, submit, parameters, group="finish", idempotent=True, untrusted=False),), asks


def _guidance(rules: Sequence[Rule], check_only: str | None) -> str:
    asks = f"; with `{check_only}: true` it uses none and ends nothing" if check_only else ""
    said = (
        f"How to finish: call `{SUBMIT}`. Nothing else ends your work: a reply without a tool call is sent back. You "
        f"have {ATTEMPTS} attempts{asks}."
    )
    if not rules:
        return said
    demands = "".join(f"\n- {rule.message or f'`{rule.cel}`'}" for rule in rules)
    return f"{said}\nYour result must hold to these rules:{demands}"


def variables(
    result: Any, evidence: Evidence, names: Iterable[str], shown: Sequence[tuple[str, Passage]] = ()
) -> dict[str, Any]:
    """The variables of rules listed in `names`, by name; `result` has unset properties as null.

    `receipts`: `{call_id, tool, arguments, ok, outcome, path, paths, lines}` of each call, in the order in which they
    ended; `lines`: `{path, start_line, end_line}` of each file passage it showed, taken from `shown`. `children`:
    `{record_id, agent, title, status, text, result, error, rounds}` of each agent that the calls ran. `usage`: the
    agent's own, without its children's; `tool_calls` is the number of receipts.
    """
    reads = Reads((passage for _, passage in shown), evidence.roots)
    lines: dict[str, list[dict[str, object]]] = {}
    for call_id, one in shown:
        if one.first:
            span = {"path": reads.normalized(one.path), "start_line": one.first, "end_line": one.last}
            lines.setdefault(call_id, []).append(span)
    # Made only where a rule names them: receipts and reports can be long.
    made: Mapping[str, Any] = {
        "result": lambda: result,
        "task": lambda: evidence.task,
        "receipts": lambda: [_receipt(one, reads, lines.get(one.call_id, [])) for one in evidence.receipts],
        "children": lambda: [_child(one) for one in evidence.children],
        "usage": lambda: {**evidence.usage.model_dump(), "tool_calls": len(evidence.receipts)},
        READS: lambda: reads,
    }
    return {name: made[name]() for name in names}


def _receipt(receipt: CallReceipt, reads: Reads, lines: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    paths = [reads.normalized(path) for path in receipt.paths]
    return {
        "call_id": receipt.call_id,
        "tool": receipt.tool,
        "arguments": _brief(receipt.arguments),
        "ok": receipt.ok,
        "outcome": receipt.outcome,
        "path": paths[0] if paths else None,
        "paths": paths,
        "lines": list(lines),
    }


def _child(report: Report) -> dict[str, Any]:
    return {
        "record_id": report.record_id,
        "agent": report.agent,
        "title": report.title,
        "status": report.status.value,
        "text": report.text[:LONGEST],
        "result": report.result,
        "error": report.error,
        "rounds": report.rounds,
    }


def _brief(value: object, levels: int = _LEVELS) -> Any:
    """`value` with long strings cut, and null in place of everything nested deeper than `levels`."""
    match value:
        case str():
            return value[:LONGEST]
        case Mapping():
            return {key: _brief(item, levels - 1) for key, item in value.items()} if levels else None
        case list() | tuple():
            return [_brief(item, levels - 1) for item in value] if levels else None
        case _:
            return value
