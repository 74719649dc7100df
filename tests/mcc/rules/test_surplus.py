"""Properties that a schema forbids are renamed to what they stand for, or dropped; everything else is untouched."""

from typing import Any

import pytest

from mcc.rules.report import REPORT
from mcc.rules.schema import checked_schema

GOOD = {"status": "completed", "summary": "Done."}


def closed(**more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False, **more}


@pytest.mark.parametrize(
    ("finding", "kept"),
    [
        ({"title": "x", "paths": ["a.py", "b.py"]}, {"title": "x", "path": "a.py"}),
        ({"title": "x", "file": "a.py", "line_number": 3}, {"title": "x", "path": "a.py", "line": 3}),
        ({"title": "x", "path": "a.py", "paths": ["b.py"]}, {"title": "x", "path": "a.py"}),
        ({"title": "x", "paths": [], "lines": "12-14", "mood": 1}, {"title": "x"}),
        ({"title": "x", "path": None, "paths": ["a"]}, {"title": "x", "path": "a"}),
    ],
)
def test_what_is_too_much_in_a_report_is_told_and_the_rest_fits(finding: dict[str, Any], kept: dict[str, Any]) -> None:
    schema = checked_schema(REPORT)
    result, told = schema.fitted({**GOOD, "next_steps": ["Go on."], "findings": [finding]})
    assert result == {**GOOD, "recommended_next_actions": ["Go on."], "findings": [kept]}
    assert schema.errors(result) == ()
    assert told[0] == "next_steps is not a property here and was taken for recommended_next_actions"
    assert all(one.startswith("findings[0].") for one in told[1:]) and len(told) > 1


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {}}},
        closed(anyOf=[{"required": ["b"]}, True]),
        closed(oneOf=[True]),
        closed(**{"not": {"required": ["b"]}}),
        {"type": "object", "anyOf": [closed()]},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        closed(patternProperties={"^b": True}),
    ],
)
def test_nothing_is_left_out_where_it_is_not_plainly_forbidden(schema: dict[str, Any]) -> None:
    value = {"a": 1, "b": 2}
    assert checked_schema(schema).fitted(value) == (value, ())


def test_a_report_in_the_words_of_other_systems_is_taken_as_what_it_says() -> None:
    schema = checked_schema(REPORT)
    result, told = schema.fitted(
        {
            "status": "completed",
            "role": "review",
            "displayName": "Review",
            "summary": "Three risks found.",
            "steps": [{"id": "scan", "title": "Scan timeline.rs", "status": "completed"}],
            "findings": [{"severity": "warning", "title": "A risk", "evidence": "x", "paths": ["src/a.rs"]}],
            "artifacts": [{"kind": "patch_hint", "title": "A patch", "content": "--- a.rs"}],
            "recommendedNextActions": ["Add a test"],
        }
    )
    assert schema.errors(result) == ()
    assert result == {
        "status": "completed",
        "summary": "Three risks found.",
        "steps": [{"id": "scan", "title": "Scan timeline.rs", "status": "completed"}],
        "findings": [{"severity": "medium", "title": "A risk", "evidence": "x", "path": "src/a.rs"}],
        "artifacts": [{"kind": "patch_hint", "name": "A patch", "content": "--- a.rs"}],
        "recommended_next_actions": ["Add a test"],
    }
    assert "findings[0].severity is no word of its list and was taken for medium" in told


@pytest.mark.parametrize(
    ("said", "taken"),
    [("HIGH", "high"), ("error", "high"), ("note", "info"), ("blocker", "critical"), ("minor", "low"), ("odd", "odd")],
)
def test_a_severity_in_other_words_is_taken_for_the_nearest(said: str, taken: str) -> None:
    result, _ = checked_schema(REPORT).fitted({**GOOD, "findings": [{"title": "x", "severity": said}]})
    assert result["findings"][0]["severity"] == taken


def test_steps_that_are_texts_are_their_titles() -> None:
    schema = checked_schema(REPORT)
    result, told = schema.fitted({**GOOD, "steps": ["Read a.c.", {"title": "Ran it"}, ""]})
    assert result["steps"] == [{"title": "Read a.c."}, {"title": "Ran it"}, ""]
    assert told == ("steps[0] is a text and was taken for its title",)
    assert schema.errors(result) == ("steps[2]: must be an object, and is a text",)


def test_a_word_that_the_schema_knows_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"severity": {"enum": ["warning", "medium"]}}}
    assert checked_schema(schema).fitted({"severity": "warning"}) == ({"severity": "warning"}, ())


def test_what_is_below_references_and_lists_is_looked_at() -> None:
    schema = {"type": "object", "properties": {"all": {"items": {"$ref": "#/$defs/one"}}}, "$defs": {"one": closed()}}
    assert checked_schema(schema).fitted({"all": [{"a": 1, "b": 2}, 3]}) == (
        {"all": [{"a": 1}, 3]},
        ("all[0].b is not a property here and was left out",),
    )


def test_what_is_too_large_or_no_json_stays_as_it_is() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}
    schema = checked_schema(closed())
    for value in (deep, {"b": object()}, {"b": "x" * 2_000_000}):
        result, told = schema.fitted(value)
        assert result is value and told == ()
