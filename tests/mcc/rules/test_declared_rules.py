"""Declaring rules: names, keys and types are checked against the schema, the tools and the evidence."""

from typing import Any

import pytest

from drone.agent.gates.gate import Evidence
from drone.agent.gates.report_gate import variables
from drone.agent.ports.receipts import CallReceipt
from drone.agent.ports.report import Report
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from mcc.contracts.usage import Usage
from mcc.definitions.rights import TOOL_GROUPS
from mcc.rules.errors import ExpressionError
from mcc.rules.kinds import ANYTHING
from mcc.rules.rule import check_declared, variable_shapes

TOOLS = frozenset(tool for tools in TOOL_GROUPS.values() for tool in tools)

OWN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["merge", "change"]},
        "score": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "next": {"$ref": "#"},
        "parts": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/part"}, {"type": "null"}]}},
        "free": {"type": "object"},
        "either": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/part"}]},
        "mixed": {"allOf": [{"properties": {"hidden": {}}}], "properties": {"seen": {"type": "string"}}},
        "at": {"type": "string", "format": "date-time"},
    },
    "required": ["verdict"],
    "$defs": {"part": {"type": "object", "properties": {"name": {"const": "a"}, "size": {"type": "number"}}}},
}


def refusal(cel: str, result: object = "report") -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        check_declared(Rule(cel=cel), result, TOOLS)
    return caught.value


@pytest.mark.parametrize(
    ("cel", "column", "said"),
    [
        ("size(result.finding) > 0", 13, "`result` has no key 'finding'; did you mean 'findings'?"),
        ("result.findings.all(f, f.sevrity == 'low')", 26, "`f` has no key 'sevrity'; did you mean 'severity'?"),
        ("result.findings.all(f, f.severity > 3)", 24, "compares string or null_type with int, which never fits"),
        ("result.findings.all(f, f.severity == 'hihg')", 38, "`f.severity` is never 'hihg'; did you mean 'high'?"),
        ("result.findings.exists(f, f.severity in ['high', 'criticl'])", 41, "did you mean 'critical'?"),
        ("result.findings.filter(f, f.line > 0).all(f, f.lin > 0)", 48, "did you mean 'line'?"),
        ("result.findings[0].titel == 'a'", 20, "did you mean 'title'?"),
        ("result['summry'] == 'a'", 1, "`result` has no key 'summry'; did you mean 'summary'?"),
        ("result.findings.map(f, f.path).all(p, p > 1)", 39, "compares string or null_type with int"),
        ("result.findings.length > 0", 1, "map is needed here to have a key 'length'; write size(result.findings)"),
        ("result.summary.length() > 3", 1, "there is no function 'length'; did you mean 'size'?"),
        ("result.summary + 1 == 'a'", 1, "calculates with string and int, which never fits"),
        ("'a' in result.summary", 8, "`result.summary` is string, and list or map or null_type is needed here"),
        ("result.status == 'complete'", 18, "`result.status` is never 'complete'; did you mean 'completed'?"),
        ("'complete' == result.status", 1, "did you mean 'completed'?"),
        ("receipts.exists(r, r.tool == 'read_files')", 30, "`r.tool` is never 'read_files'; did you mean 'read_file'?"),
        ("receipts.exists(r, r.tol == 'read_file')", 22, "did you mean 'tool'?"),
        ("receipts.exists(r, r.outcome == 'okay')", 33, "`r.outcome` is never 'okay'"),
        ("receipts.all(r, r.ok == 'true')", 17, "compares bool with string"),
        ("receipts[0].arguments > 1", 1, "compares map or null_type with int"),
        ("children.all(c, c.status == 'done')", 29, "`c.status` is never 'done'; there is: blocked"),
        ("children.all(c, c.state == 'completed')", 19, "did you mean 'status'?"),
        ("usage.output_token < 5", 7, "did you mean 'output_tokens'?"),
        ("usage.cost_usd < '5'", 1, "compares int or double or null_type with string"),
        ("'1' == 1", 1, "this is false, whatever is handed in"),
        ("task.contains('a') && task > 3", 23, "compares string with int"),
        ("timestamp(result.summary) > result.status", 1, "compares timestamp with string"),
    ],
)
def test_what_the_schema_does_not_know_is_refused_with_its_position(cel: str, column: int, said: str) -> None:
    error = refusal(cel)
    assert said in error.sentence
    assert error.column == column


@pytest.mark.parametrize(
    ("cel", "said"),
    [
        ("result.verdict == 'merged'", "did you mean 'merge'?"),
        ("result.next.next.verdikt == 'merge'", "`result.next.next` has no key 'verdikt'; did you mean 'verdict'?"),
        ("result.parts.all(p, p == null || p.nam == 'a')", "did you mean 'name'?"),
        ("result.parts.all(p, p == null || p.name == 'b')", "`p.name` is never 'b'; there is: a"),
        ("result.parts.all(p, p == null || p.size == 'b')", "compares int or double or null_type with string"),
        ("result.score.contains('a')", "is int or double or null_type, and string is needed here"),
        ("result.either.nme == 'a'", "did you mean 'name'?"),
        ("result.mixed.seen > 3", "compares string or null_type with int"),
        ("result.at > timestamp(0)", "compares string or null_type with timestamp, which never fits"),
    ],
)
def test_a_schema_of_ones_own_is_followed(cel: str, said: str) -> None:
    assert said in refusal(cel, OWN).sentence


@pytest.mark.parametrize(
    ("cel", "result"),
    [
        ("result.findings.all(f, f.path == null || f.line == null || f.line > 0)", "report"),
        ("has(result.finding) || result.summary != ''", "report"),
        ("receipts.exists(r, r.tool == 'deploy__now' || r.tool == 'x')", "report"),
        ("receipts.exists(r, r.arguments.path == 'a' && r.arguments['n'] > 3 && r.path == r.arguments.path)", "report"),
        ("children.all(c, c.result == null || c.result.anything.at.all > 3)", "report"),
        ("usage == null || usage.cost_usd == null || usage.cost_usd < 1", "report"),
        ("result.findings.map(f, f.severity).exists(s, s == 'high' || s == null)", "report"),
        ("(result.status == 'failed' ? result.summary : task).contains('x')", "report"),
        ("result.free.any.thing > 1 && result.free['x'] == 'y'", OWN),
        ("result.mixed.hidden == 1 || result.mixed.seen == 'a'", OWN),
        ("result.either == 'a' || result.either.name == 'a'", OWN),
        ("result.next == null || result.next.next.score > 1.5", OWN),
        ("timestamp(result.at) > timestamp(0)", OWN),
        ("result.what.ever[3] == 'a'", None),
        ("result.what.ever > 3", True),
        ("result.all(x, x > 3)", {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}),
        ("result.a == 1 && result.b.c", {"type": "object", "patternProperties": {"^b": True}, "properties": {"a": {}}}),
        ("result.other == 3", {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}}),
        ("result == 'a' || result == 3", {"enum": ["a", 3.0]}),
    ],
)
def test_what_may_be_there_is_not_refused(cel: str, result: object) -> None:
    check_declared(Rule(cel=cel), result, TOOLS)


def test_a_schema_that_leads_to_itself_by_many_ways_is_read_in_no_time() -> None:
    def alternatives(level: int) -> dict[str, Any]:
        return {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/e{level + 1}"}]}

    definitions: dict[str, Any] = {f"{name}{level}": alternatives(level) for name in "de" for level in range(13)}
    last = {"type": "object", "properties": {"again": {"$ref": "#/$defs/d0"}}}
    schema = {"$ref": "#/$defs/d0", "$defs": {**definitions, "d13": last, "e13": {"type": "string"}}}
    check_declared(Rule(cel="result" + ".again" * 50 + " == null"), schema, TOOLS)
    assert "did you mean 'again'?" in refusal("result" + ".again" * 50 + ".agan == null", schema).sentence


def test_what_is_known_of_evidence_is_what_evidence_holds() -> None:
    receipt = CallReceipt(call_id="1", tool="read_file", arguments={}, ok=True, outcome="ok")
    child = Report(record_id="1", agent="explore", title="", status=RecordStatus.COMPLETED, text="", usage=Usage())
    evidence = Evidence("t", [receipt], [child], Usage())
    there = variables({}, evidence, ("receipts", "children", "usage"))
    known = variable_shapes(ANYTHING, TOOLS)
    assert known["receipts"].item().names == there["receipts"][0].keys()
    assert known["children"].item().names == there["children"][0].keys()
    assert known["usage"].names == there["usage"].keys()
    for name in ("receipts", "children"):
        for key, value in there[name][0].items():
            assert type(value) in known[name].item().key(key).kinds, key
