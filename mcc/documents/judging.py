"""Judges a node by all rules of its component: one verdict each."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledComponent, CompiledField, NodeRule, computed, context_of, field_of_rule
from mcc.documents.constraints import Subject
from mcc.documents.functions import SECONDS, Functions, run_function
from mcc.documents.kinds import check_kind
from mcc.documents.node import Node, Provenance, Role, RuleVerdict
from mcc.documents.state import DocumentState
from mcc.rules.reads import READS, Reads
from mcc.rules.rule import CompiledRule, JudgedRule, Round

Verdicts: TypeAlias = Mapping[str, RuleVerdict]
"""By rule id."""

NO_AGENT = "No agent set this value."
NOT_JUDGED = "The agent that set this value has not been judged by it yet."
NOT_VALIDATED = "Nodes of this component are not validated."
GUIDELINE = "Told to the agent, and judged by nobody."

_AGENTS = frozenset({"agent", "metadata_agent", "chat", "outline"})


def judge(
    blueprint: Blueprint,
    state: DocumentState,
    node_id: str,
    *,
    functions: Verdicts | None = None,
    evidence: Verdicts | None = None,
    version: int,
) -> tuple[RuleVerdict, ...]:
    """The verdicts on a node, in the order of its component's rules; `version` is the document's.

    `functions` are results of `judge_functions`: a function rule without one gets `ok` None. `evidence` are results of
    `judge_evidence`: an evidence rule without one keeps the node's verdict as long as the value is the same. Blocks for
    up to 0.3 s; no content of a node makes it raise.
    """
    judging = _Judging(blueprint.component(state.nodes[node_id].component), state, state.nodes[node_id], version)
    return judging.all(functions or {}, evidence or {})


def judge_functions(
    blueprint: Blueprint,
    state: DocumentState,
    node_id: str,
    functions: Functions,
    version: int,
    seconds: float = SECONDS,
) -> Verdicts:
    """Run the function rules of a node, one after another. Blocks for up to `seconds` per rule."""
    node = state.nodes[node_id]
    component = blueprint.component(node.component)
    verdicts: dict[str, RuleVerdict] = {}
    for rule in component.rules if component.validates else ():
        if rule.kind != "function":
            continue
        function = functions.get(rule.function)
        if function is None:
            verdicts[rule.id] = RuleVerdict(
                rule.id, "function", None, f"No function {rule.function!r} is known here.", version
            )
        else:
            wrong = run_function(function, state, node, seconds)
            message, below = ("", ()) if wrong is None else (wrong.message, wrong.below)
            verdicts[rule.id] = RuleVerdict(rule.id, "function", wrong is None, message, version, below)
    return verdicts


def judge_evidence(
    blueprint: Blueprint,
    state: DocumentState,
    node_id: str,
    *,
    receipts: Sequence[Mapping[str, object]],
    reads: Reads | None,
    record_id: str,
    role: Role,
    version: int,
) -> Verdicts:
    """Judge evidence rules by the tool calls of one agent run: for the values that it set, and for those of earlier
    agents that have no positive verdict yet. Rules of the component are judged for the node agent. `receipts` are plain
    JSON.
    """
    node = state.nodes[node_id]
    component = blueprint.component(node.component)
    context = {"metadata": node.metadata, "props": node.props, "receipts": list(receipts), READS: reads}
    checks = Round(context)
    verdicts: dict[str, RuleVerdict] = {}
    for rule in component.rules if component.validates else ():
        if rule.kind == "evidence" and _is_due(rule, node, record_id, role):
            judged = _by_cel(checks, rule, _value(node, component.fields.get(rule.field or "")))
            verdicts[rule.id] = RuleVerdict(rule.id, "evidence", judged.holds, judged.message, version)
    return verdicts


def errors_of(verdicts: Sequence[RuleVerdict], path: str, role: Role | None = None) -> list[dict[str, Any]]:
    """The broken rules, as `validate` and `done` list them: for the metadata agent (`role`) those of metadata fields,
    for the node agent the others; not those that agents of nodes below are to mend."""
    return [
        {"node": path, "field": field_of_rule(one.rule), "rule": one.rule, "message": one.message}
        for one in verdicts
        if one.ok is False
        and not one.below
        and (role is None or (role == "metadata") == one.rule.startswith("metadata."))
    ]


def undecided(component: CompiledComponent, verdicts: Sequence[RuleVerdict]) -> tuple[str, ...]:
    """The names of rule functions without a verdict; until they have one, the node has not passed."""
    without = {one.rule for one in verdicts if one.kind == "function" and one.ok is None}
    return tuple(rule.function for rule in component.rules if component.validates and rule.id in without)


class _Judging:
    """One evaluation of all rules of one node."""

    def __init__(self, component: CompiledComponent, state: DocumentState, node: Node, version: int) -> None:
        self._component = component
        self._state = state
        self._node = node
        self._version = version
        self._cel: Round | None = None
        self._type_problems: dict[str, str | None] = {}

    def all(self, functions: Verdicts, evidence: Verdicts) -> tuple[RuleVerdict, ...]:
        rules = self._component.rules
        if not self._component.validates:
            return tuple(self._verdict(rule, None, NOT_VALIDATED) for rule in rules)
        return tuple(self._judge(rule, functions, evidence) for rule in rules)

    def _judge(self, rule: NodeRule, functions: Verdicts, evidence: Verdicts) -> RuleVerdict:
        match rule.kind:
            case "guideline":
                return self._verdict(rule, None, GUIDELINE)
            case "function":
                why = f"The function {rule.function!r} has not looked at this yet."
                return functions.get(rule.id) or self._verdict(rule, None, why)
            case "evidence":
                return evidence.get(rule.id) or self._kept_evidence(rule)
            case "cel":
                if self._cel is None:
                    self._cel = Round({"metadata": self._node.metadata, "props": self._node.props})
                judged = _by_cel(self._cel, rule, _value(self._node, self._component.fields.get(rule.field or "")))
                return self._verdict(rule, judged.holds, judged.message)
        wrong = self._derived(rule)
        return self._verdict(rule, wrong is None, wrong or "")

    def _verdict(self, rule: NodeRule, ok: bool | None, message: str) -> RuleVerdict:
        return RuleVerdict(rule.id, rule.kind, ok, message, self._version)

    def _derived(self, rule: NodeRule) -> str | None:
        if rule.field is None:
            return rule.constraint(Subject(self._state, self._node, None)) if rule.constraint else None
        field = self._component.fields[rule.field]
        value = _value(self._node, field)
        if rule.id.endswith(".required") and rule.constraint is None:
            return None if value is not None else "A value is needed here."
        if rule.constraint is None:
            return computed(field, context_of(self._state, self._node)).problem
        # Whether a value is needed is a rule of its own: nothing else complains of a value that is not there.
        if value is None:
            return None
        return self._type_problem(field) or rule.constraint(Subject(self._state, self._node, value))

    def _type_problem(self, field: CompiledField) -> str | None:
        """Why the value has not the field's type, if so: constraints require that it has."""
        if field.name not in self._type_problems:
            self._type_problems[field.name] = check_kind(field.spec, _value(self._node, field))
        return self._type_problems[field.name]

    def _kept_evidence(self, rule: NodeRule) -> RuleVerdict:
        """The earlier verdict on evidence, kept as long as the agent's value is unchanged."""
        set_by = _set_by(self._node, rule)
        if rule.field is not None and set_by is None:
            return self._verdict(rule, None, NO_AGENT)
        kept = _evidence_verdict(self._node, rule)
        return kept or self._verdict(rule, None, NO_AGENT if rule.field is None else NOT_JUDGED)


def _is_due(rule: NodeRule, node: Node, record_id: str, role: Role) -> bool:
    if rule.field is None:
        return role == "node"
    set_by = _set_by(node, rule)
    if set_by is None or rule.field.startswith("metadata.") != (role == "metadata"):
        return False
    known = _evidence_verdict(node, rule)
    # An earlier agent's value that had evidence is not judged by the calls of an agent that never looked at it.
    return set_by.record_id == record_id or known is None or not known.ok


def _set_by(node: Node, rule: NodeRule) -> Provenance | None:
    """The provenance of the value if an agent set it."""
    known = node.provenance.get(rule.field or "")
    return known if known is not None and known.by in _AGENTS else None


def _evidence_verdict(node: Node, rule: NodeRule) -> RuleVerdict | None:
    """The latest verdict on evidence for the current value."""
    since = node.provenance.get(rule.field or "")
    for one in node.verdicts:
        if one.rule == rule.id and one.kind == "evidence" and one.ok is not None:
            return one if since is None or one.version >= since.version else None
    return None


def _value(node: Node, field: CompiledField | None) -> Any:
    if field is None:
        return None
    return (node.metadata if field.section == "metadata" else node.props).get(field.key)


def _by_cel(checks: Round, rule: NodeRule, value: Any) -> JudgedRule:
    assert rule.cel is not None
    if rule.field is None:
        return checks.judged(rule.cel)
    if not rule.each:
        return checks.judged(rule.cel, value=value)
    return _each(checks, rule.cel, value)


def _each(checks: Round, rule: CompiledRule, value: Any) -> JudgedRule:
    for place, item in enumerate(value if isinstance(value, list | tuple) else ()):
        found = checks.judged(rule, value=item)
        if not found.holds:
            return JudgedRule(False, f"Item {place + 1}: {found.message}")
    return JudgedRule(True)
