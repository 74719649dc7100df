"""Which agents have a gate: those with a result or rules, and every subagent unless its file says `result: text`."""

from typing import Any

import pytest

from drone.agent.gates.report_gate import ReportGate, gate_for, text_of
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.order import Rule
from mcc.rules.errors import ExpressionError, SchemaError

RULE = Rule(cel="size(result.summary) > 0", message="Say something.")
COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


def defined(**fields: object) -> AgentDefinition:
    return AgentDefinition.model_validate({"name": "agent", **fields})


def keys(gate: ReportGate | None) -> set[str]:
    """The arguments of the finish tool."""
    assert gate is not None
    properties: Any = gate.specs()[0].parameters["properties"]
    return set(properties)


@pytest.mark.parametrize(
    ("definition", "is_subagent", "gated"),
    [
        (defined(), False, False),
        (defined(), True, True),
        (defined(result="text"), False, False),
        (defined(result="text"), True, False),
        (defined(result="report"), False, True),
        (defined(result={"$ref": "report"}), True, True),
        (defined(result=COUNT), False, True),
        (defined(rules=[RULE]), False, True),
        (defined(result="text", rules=[RULE]), True, True),
    ],
)
def test_an_agent_with_a_result_or_rules_and_every_subagent_has_a_gate_unless_its_file_says_text(
    definition: AgentDefinition, is_subagent: bool, gated: bool
) -> None:
    assert (gate_for(definition, is_subagent=is_subagent) is not None) is gated


def test_rules_without_a_schema_are_held_against_the_shipped_report() -> None:
    assert {"status", "summary", "findings"} <= keys(gate_for(defined(rules=[RULE]), is_subagent=False))
    assert keys(gate_for(defined(result="text", rules=[RULE]), is_subagent=True)) == keys(ReportGate())


def test_an_orders_schema_takes_the_place_of_the_files_and_its_rules_come_on_top() -> None:
    own = Rule(cel="result.count > 0")
    asked = Rule(cel="result.count < 9")
    gate = gate_for(defined(result="report", rules=[own]), is_subagent=False, result_schema=COUNT, rules=[asked])
    assert keys(gate) == {"count", "check_only"}
    assert gate is not None and gate.guidance.index(own.cel) < gate.guidance.index(asked.cel)


def test_an_order_with_a_schema_or_rules_gives_its_master_a_gate() -> None:
    assert keys(gate_for(defined(), is_subagent=False, result_schema=COUNT)) == {"count", "check_only"}
    assert "summary" in keys(gate_for(defined(), is_subagent=False, rules=[RULE]))
    assert keys(gate_for(defined(result="text"), is_subagent=False, result_schema=COUNT)) == {"count", "check_only"}


def test_agents_that_owe_the_same_share_one_gate() -> None:
    first, second = (gate_for(defined(rules=[RULE], prompt=prompt), is_subagent=True) for prompt in "ab")
    assert first is second


def test_what_cannot_be_used_is_refused_where_the_gate_is_made() -> None:
    with pytest.raises(ExpressionError):
        gate_for(defined(rules=[Rule(cel="result.summary ==")]), is_subagent=True)
    with pytest.raises(ExpressionError):
        ReportGate(rules=[Rule(cel="results.summary != null")])
    with pytest.raises(SchemaError):
        gate_for(defined(result="reprt"), is_subagent=True)
    with pytest.raises(SchemaError):
        gate_for(defined(result={"type": "objekt"}), is_subagent=True)
    with pytest.raises(SchemaError):
        gate_for(defined(result={"enum": {1, 2}}), is_subagent=True)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"answer": "42", "summary": "The answer."}, "42"),
        ({"answer": " ", "summary": "The answer."}, "The answer."),
        ({"answer": 42}, '{"answer":42}'),
        ("plain", "plain"),
        ([1, 2], "[1,2]"),
        (None, "null"),
    ],
)
def test_a_person_reads_the_answer_the_summary_or_the_json(result: object, text: str) -> None:
    assert text_of(result) == text
