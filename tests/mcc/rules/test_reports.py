"""The shipped report: its schema, how its name resolves, and how reports are shortened."""

from typing import Any

import pytest

from mcc.rules.errors import SchemaError
from mcc.rules.report import REPORT, cut, resolved, shortened
from mcc.rules.schema import checked_schema

FULL: dict[str, Any] = {
    "status": "completed",
    "summary": "All is said.",
    "steps": [{"id": "read", "title": "Read a.c.", "status": "completed"}],
    "findings": [
        {
            "title": "Reads too far",
            "severity": "high",
            "path": "a.c",
            "line": 40,
            "evidence": "*p++",
            "recommendation": "Stop.",
        }
    ],
    "artifacts": [{"name": "fix", "kind": "diff", "path": "a.c", "content": "--- a.c"}],
    "recommended_next_actions": ["Fix it."],
}


@pytest.mark.parametrize("value", [FULL, {"status": "blocked", "summary": "No rights."}])
def test_a_report_fits(value: dict[str, Any]) -> None:
    assert checked_schema(REPORT).errors(value) == ()


def test_a_report_with_everything_unset_still_fits() -> None:
    schema = checked_schema(REPORT)
    whole = schema.with_unset({"status": "failed", "summary": "x", "findings": [{"title": "y"}]})
    assert schema.errors(whole) == ()
    assert whole["artifacts"] is None and whole["findings"][0]["path"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": "done"}, 'status: must be one of "completed", "blocked", "failed", and is "done"'),
        ({"summary": ""}, "summary: must have at least 1 characters, and has 0"),
        ({"findings": [{"path": "a"}]}, "findings[0].title: is required"),
        ({"findings": [{"title": "a", "line": 0}]}, "findings[0].line: must be at least 1, and is 0"),
        ({"artifacts": [{"name": "a"}]}, "artifacts[0].content: is required"),
        ({"steps": "one"}, "steps: must be a list or null, and is a text"),
    ],
)
def test_what_a_report_lacks_is_told(change: dict[str, Any], said: str) -> None:
    assert checked_schema(REPORT).errors({**FULL, **change}) == (said,)


def test_too_much_is_no_error_and_is_cut_with_a_mark() -> None:
    long = {
        **FULL,
        "findings": [{"title": "a", "evidence": "é" * 3_000}] + [{"title": "b"}] * 24,
        "artifacts": [{"name": "a", "content": "x" * 4_001}] * 11,
        "own": 1,
    }
    assert checked_schema(REPORT).errors({**long, "findings": long["findings"][:25]})[0].startswith("own: ")
    short, was_cut = shortened(long)
    assert was_cut
    assert len(short["findings"]) == 20 and len(short["artifacts"]) == 10
    evidence, content = short["findings"][0]["evidence"], short["artifacts"][0]["content"]
    assert len(evidence) <= 2_000 and evidence.startswith("é" * 1_900) and evidence.endswith("characters cut]")
    assert len(content) <= 4_000
    assert len(long["findings"]) == 25 and (short["own"], short["summary"]) == (1, long["summary"])


def test_what_is_short_enough_is_not_cut() -> None:
    exact = {**FULL, "findings": [{"title": "a", "evidence": "x" * 2_000}] * 20}
    assert shortened(exact) == (exact, False)
    assert shortened({"status": "failed"}) == ({"status": "failed"}, False)


def test_shortening_leaves_alone_what_is_no_report() -> None:
    odd = {"findings": "many", "artifacts": [1, {"content": 5}, None]}
    assert shortened(odd) == (odd, False)


@pytest.mark.parametrize("length", [101, 1_000, 9_999, 10_050, 100_000])
def test_the_mark_says_how_much_is_missing(length: int) -> None:
    text = cut("y" * length, 100)
    kept, _, mark = text.partition("…")
    assert len(text) <= 100
    assert mark == f" [{length - len(kept):,} characters cut]"


@pytest.mark.parametrize("name", ["report", {"$ref": "report"}])
def test_the_name_of_the_report_is_its_schema(name: Any) -> None:
    assert resolved(name) == REPORT


@pytest.mark.parametrize("name", [None, "text"])
def test_text_has_no_schema(name: Any) -> None:
    assert resolved(name) is None


def test_the_report_may_be_part_of_a_schema_of_ones_own() -> None:
    own = {"type": "object", "properties": {"all": {"type": "array", "items": {"$ref": "report"}}}}
    schema = checked_schema(resolved(own))
    assert schema.errors({"all": [FULL, {"status": "failed"}]}) == ("all[1].summary: is required",)
    assert resolved({"type": "string"}) == {"type": "string"}


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("reprot", "did you mean 'report'?"),
        ("blob", "there is: report, text"),
        (["report"], "write a JSON Schema"),
        ({"$defs": {"report": {}}, "items": {"$ref": "report"}}, "taken by the shipped schema"),
    ],
)
def test_what_stands_for_no_schema_is_refused(result: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said.replace("?", r"\?")):
        resolved(result)
