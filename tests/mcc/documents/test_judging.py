"""Verdicts on a node: derived rules, CEL, functions, evidence, guidelines."""

import threading
from dataclasses import replace
from typing import Any

import pytest

from mcc.documents import Blueprint
from mcc.documents.functions import ReadOnlyNode, function
from mcc.documents.judging import NO_AGENT, NOT_JUDGED, errors_of, judge_evidence, judge_functions, undecided
from mcc.documents.node import Node, Provenance, RuleVerdict
from mcc.rules.reads import Passage, Reads
from tests.mcc.documents.blueprints import AT, blueprint, broken, course, node, state, verdicts

FIELDS = blueprint(
    """
    metadata:
      topic: {type: text, required: true, min_length: 3, max_length: 5, pattern: "^[a-z]+$"}
    properties:
      size: {type: number, integer: true, min: 2, max: 9}
      level: {type: choice, options: [low, high]}
      day: {type: date, after: 2026-01-01, before: 2026-12-31}
      tags: {type: list, items: {type: text, max_length: 4}, min_items: 2, max_items: 3, unique: true}
      after: {type: reference, to: b}
      graded: {type: boolean}
    children: {b: {min: 1, max: 2}}
    """,
    "b: {}",
)


def test_every_constraint_is_a_rule_and_holds_for_null_but_required_does_not() -> None:
    assert broken(FIELDS) == {
        "metadata.topic.required": "A value is needed here.",
        "children.b.min": "At least 1 child of the component b is needed; there is none.",
    }
    found = verdicts(FIELDS, node(FIELDS, "a"))
    assert {one.kind for one in found.values()} == {"derived"}
    assert [rule.partition(".")[2] for rule in found if rule.startswith("props.tags.")] == [
        "tags.min_items",
        "tags.max_items",
        "tags.unique",
        "tags.items.max_length",
    ]


@pytest.mark.parametrize(
    ("values", "rule", "message"),
    [
        ({"metadata__topic": "ab"}, "metadata.topic.min_length", "At least 3 characters are needed; this has 2."),
        ({"metadata__topic": "abcdef"}, "metadata.topic.max_length", "At most 5 characters may be here; this has 6."),
        ({"metadata__topic": "ABC"}, "metadata.topic.pattern", "'ABC' does not match the pattern ^[a-z]+$."),
        ({"size": 2.5}, "props.size.integer", "A whole number is needed, and 2.5 is not one."),
        ({"size": 1}, "props.size.min", "At least 2 is needed; this is 1."),
        ({"size": 10**200}, "props.size.max", f"At most 9 is allowed; this is {10**200}."),
        ({"level": "mid"}, "props.level.options", "'mid' is none of the options: low, high."),
        ({"day": "2026-01-01"}, "props.day.after", "A day after 2026-01-01 is needed; this is 2026-01-01."),
        ({"day": "2026-12-31"}, "props.day.before", "A day before 2026-12-31 is needed; this is 2026-12-31."),
        ({"tags": ["a"]}, "props.tags.min_items", "At least 2 items are needed; this has 1."),
        ({"tags": ["a", "b", "c", "d"]}, "props.tags.max_items", "At most 3 items may be here; this has 4."),
        ({"tags": ["a", "b", "a"]}, "props.tags.unique", "Items 1 and 3 are the same, and each may stand there once."),
        (
            {"tags": ["a", "bbbbb"]},
            "props.tags.items.max_length",
            "Item 2: At most 4 characters may be here; this has 5.",
        ),
        ({"after": "/b-9"}, "props.after.to", "There is no node '/b-9'; a b of this document is needed."),
        ({"after": "/"}, "props.after.to", "'/' is of the component a, and one of b is needed."),
    ],
)
def test_a_constraint_that_is_broken_says_what_would_do(values: dict[str, Any], rule: str, message: str) -> None:
    found = broken(FIELDS, **{"metadata__topic": "abc", **values})
    del found["children.b.min"]
    assert found == {rule: message}


def test_children_are_counted_by_their_component() -> None:
    children = [node(FIELDS, "b", str(number), "root") for number in range(3)]
    top = node(FIELDS, "a", metadata__topic="abc", after="/b-1")
    for count, wrong in ((0, {"children.b.min", "props.after.to"}), (2, set()), (3, {"children.b.max"})):
        found = verdicts(FIELDS, top, *children[:count])
        assert {rule for rule, one in found.items() if not one.ok} == wrong


def test_a_value_of_another_kind_breaks_each_constraint_and_stops_nothing() -> None:
    found = broken(FIELDS, metadata__topic="abc", size="ten", tags=7, day=[1], after=3)
    assert found["props.size.min"] == "This must be a number, and a text was given."
    assert found["props.tags.unique"] == "This must be a list, and a number was given."
    assert {"props.day.after", "props.after.to"} < found.keys()


CEL = blueprint(
    """
    metadata:
      grade: {type: number, rules: [{cel: 'value == null || value > metadata.grade - 1'}]}
    properties:
      one: {type: text, rules: [{cel: 'props.two == null || value == props.two', message: One is two.}]}
      two: {type: text}
      odd: {type: number, rules: [{cel: value % 2 == 1}]}
      words:
        type: list
        items: {type: text, rules: [{cel: value != "bad", message: Be good.}]}
        rules: [{cel: 'value.all(w, size(w) < 4)', message: Short words alone.}, {guideline: Be kind.}]
    rules:
      - {cel: 'has(props.two) == (props.two != null)'}
      - {cel: 'metadata.grade != 3 || props.one == "x"', message: Three is x.}
    """
)


def test_cel_sees_metadata_every_property_and_the_value() -> None:
    assert broken(CEL, odd=1, one="b", two="a") == {"props.one.rules[0]": "One is two."}
    assert broken(CEL, odd=1, metadata__grade=3) == {"rules[1]": "Three is x."}
    assert not broken(CEL, odd=1, one="a", two="a", metadata__grade=4)


def test_an_error_is_a_failure_also_where_the_value_is_null() -> None:
    assert broken(CEL) == {
        "props.odd.rules[0]": "The rule `value % 2 == 1` could not be checked:"
        " `value % 2` takes the rest of null and a number."
    }


def test_of_a_list_the_items_that_break_a_rule_are_named() -> None:
    found = broken(CEL, odd=1, words=["good", "ok", "bad"])
    assert found == {
        "props.words.rules[0]": "Short words alone. Not so: value[0] (good).",
        "props.words.items.rules[0]": "Item 3: Be good.",
    }


def test_a_guideline_is_judged_by_nobody() -> None:
    found = verdicts(CEL, node(CEL, "a"))["props.words.rules[1]"]
    assert (found.kind, found.ok, found.version) == ("guideline", None, 7)


def test_rules_that_cost_too_much_fail_in_a_bounded_time() -> None:
    costly = blueprint(
        """
        properties:
          many:
            type: list
            items: {type: number}
            rules: [{cel: 'value.all(a, value.all(b, value.all(c, a + b + c > 0)))', message: All together.}]
          other: {type: number, rules: [{cel: value == 1}]}
        """
    )
    found = broken(costly, many=[1] * 2_000, other=1)
    assert "takes more steps than one check may" in found["props.many.rules[0]"]


def test_a_component_that_is_not_validated_has_verdicts_of_nothing() -> None:
    made = blueprint(
        "agent: {validate: false}\nproperties:\n  p: {type: text, required: true}\nrules: [{cel: 'false'}]"
    )
    found = verdicts(made, node(made, "a"))
    assert [one.ok for one in found.values()] == [None, None]


def test_a_value_that_is_made_of_too_much_or_of_nothing_sensible_breaks_its_own_rule() -> None:
    made = blueprint(
        """
        properties:
          x: {type: number}
          y: {type: number}
          ratio: {type: number, formula: props.x / props.y}
        """
    )
    assert broken(made, x=1, y=0) == {
        "props.ratio.formula": "The formula has no value: `props.x / props.y` divides by zero."
    }
    assert not broken(made, x=1)


@function("differ")
def _differ(found: ReadOnlyNode) -> bool | str:
    titles = [child.props["title"] for child in found.children]
    return len(set(titles)) == len(titles) or f"{found.path} has children of one title"


@function("stubborn")
def _stubborn(found: ReadOnlyNode) -> None:
    found.props["title"] = "mine"  # type: ignore[index]


WITH_FUNCTIONS = blueprint(
    "children: {b: {}}\nrules: [{function: differ}, {function: stubborn}, {function: missing}]",
    "b: {properties: {title: {type: text}}}",
)
KNOWN = {"differ": _differ, "stubborn": _stubborn}


def test_a_function_sees_the_tree_and_what_it_says_is_the_verdict() -> None:
    top, one, two = (
        node(WITH_FUNCTIONS, "a"),
        node(WITH_FUNCTIONS, "b", "1", "root", title="x"),
        node(WITH_FUNCTIONS, "b", "2", "root", title="x"),
    )
    said = judge_functions(WITH_FUNCTIONS, state(WITH_FUNCTIONS, top, one, two), "root", KNOWN, 7)
    found = verdicts(WITH_FUNCTIONS, top, one, two, functions=said)
    assert found["rules[0]"] == RuleVerdict("rules[0]", "function", False, "/ has children of one title", 7)
    assert found["rules[1]"].ok is False and "does not support item assignment" in found["rules[1]"].message
    alone = judge_functions(WITH_FUNCTIONS, state(WITH_FUNCTIONS, top, one), "root", KNOWN, 7)
    assert alone["rules[0]"].ok is True


def test_a_function_that_is_missing_is_never_a_pass() -> None:
    top = node(WITH_FUNCTIONS, "a")
    said = judge_functions(WITH_FUNCTIONS, state(WITH_FUNCTIONS, top), "root", KNOWN, 7)
    found = verdicts(WITH_FUNCTIONS, top, functions=said)
    assert (found["rules[2]"].ok, found["rules[2]"].message) == (None, "No function 'missing' is known here.")
    assert undecided(WITH_FUNCTIONS.root, tuple(found.values())) == ("missing",)
    assert verdicts(WITH_FUNCTIONS, top)["rules[0]"].ok is None


def test_a_function_that_does_not_come_back_is_left_behind() -> None:
    forever = threading.Event()
    try:
        stuck = {**KNOWN, "differ": lambda found: forever.wait()}
        said = judge_functions(WITH_FUNCTIONS, state(WITH_FUNCTIONS, node(WITH_FUNCTIONS, "a")), "root", stuck, 7, 0.01)
        assert said["rules[0]"].message == "The function has not answered within 0.01 seconds."
    finally:
        forever.set()


EVIDENT = blueprint(
    """
    metadata:
      from: {type: text, rules: [{evidence: 'receipts.exists(r, r.path == value)'}]}
    properties:
      source:
        type: text
        rules:
          - {evidence: 'receipts.exists(r, r.ok && r.tool == "read_file" && r.path == value)', message: Read it.}
      quote:
        type: text
        rules: [{evidence: 'value == null || quoted(props.source, value)', message: Quote what you read.}]
    rules: [{evidence: size(receipts) > 0, message: Read something.}]
    """
)
READ: dict[str, object] = {
    "call_id": "c1",
    "tool": "read_file",
    "arguments": {"path": "a.py"},
    "ok": True,
    "outcome": "ok",
    "path": "a.py",
    "paths": ["a.py"],
    "lines": [{"path": "a.py", "start_line": 1, "end_line": 2}],
}
READS = Reads([Passage("a.py", 1, ("def answer():", "    return 42"))])


def _set(made: Blueprint, by: str, record: str | None, **values: Any) -> Node:
    """A root with these values and provenance, at version 5."""
    known = {f"props.{name}": Provenance(by, 5, AT, record_id=record) for name in values}  # type: ignore[arg-type]
    return replace(node(made, "a", **values), provenance=known)


def _proved(found: Node, record: str = "r1", version: int = 6, read: bool = True) -> dict[str, RuleVerdict]:
    said = judge_evidence(
        EVIDENT,
        state(EVIDENT, found),
        "root",
        receipts=[READ] if read else [],
        reads=READS,
        record_id=record,
        role="node",
        version=version,
    )
    return verdicts(EVIDENT, found, evidence=said)


def test_evidence_is_what_the_agent_that_set_the_value_really_read() -> None:
    right = _proved(_set(EVIDENT, "agent", "r1", source="a.py", quote="return 42"))
    assert [right[f"props.{name}.rules[0]"].ok for name in ("source", "quote")] == [True, True]
    wrong = _proved(_set(EVIDENT, "agent", "r1", source="b.py", quote="return 41"))
    assert wrong["props.source.rules[0]"] == RuleVerdict("props.source.rules[0]", "evidence", False, "Read it.", 6)
    assert wrong["props.quote.rules[0]"].message.startswith("Quote what you read. Not so: you read nothing of b.py")
    assert wrong["rules[0]"].ok is True


def test_what_no_agent_set_has_no_evidence() -> None:
    found = _proved(_set(EVIDENT, "person", None, source="b.py"))
    assert (found["props.source.rules[0]"].ok, found["props.source.rules[0]"].message) == (None, NO_AGENT)
    assert found["props.quote.rules[0]"].message == NO_AGENT


def test_a_verdict_on_evidence_stays_until_an_agent_sets_the_value_anew() -> None:
    top = _set(EVIDENT, "agent", "r1", source="a.py")
    before = tuple(_proved(top).values())
    kept = verdicts(EVIDENT, replace(top, verdicts=before))
    assert (kept["props.source.rules[0]"].ok, kept["props.source.rules[0]"].version) == (True, 6)
    later = {"props.source": Provenance("agent", 6, AT, record_id="r2")}
    assert verdicts(EVIDENT, replace(top, verdicts=before, provenance=later))["props.source.rules[0]"].ok is True
    newer = {"props.source": Provenance("agent", 7, AT, record_id="r2")}
    fresh = verdicts(EVIDENT, replace(top, verdicts=before, provenance=newer))["props.source.rules[0]"]
    assert (fresh.ok, fresh.message) == (None, NOT_JUDGED)


def test_another_agent_vouches_only_for_what_nothing_proves_yet() -> None:
    top = _set(EVIDENT, "agent", "r1", source="a.py")
    proved = replace(top, verdicts=tuple(_proved(top).values()))
    assert _proved(proved, "r2", 8, read=False)["props.source.rules[0]"].ok is True
    unproved = replace(top, verdicts=tuple(_proved(top, read=False).values()))
    assert unproved.verdicts[1].ok is False
    assert _proved(unproved, "r2", 8)["props.source.rules[0]"] == RuleVerdict(
        "props.source.rules[0]", "evidence", True, "", 8
    )


def test_errors_name_node_field_and_rule_and_the_metadata_agent_sees_those_of_its_fields() -> None:
    made = course()
    found = tuple(verdicts(made, node(made, "course", metadata__grade=20, level="basic")).values())
    assert errors_of(found, "/", "metadata") == [
        {
            "node": "/",
            "field": "metadata.topic",
            "rule": "metadata.topic.required",
            "message": "A value is needed here.",
        },
        {
            "node": "/",
            "field": "metadata.grade",
            "rule": "metadata.grade.max",
            "message": "At most 13 is allowed; this is 20.",
        },
    ]
    of_node = errors_of(found, "/", "node")
    assert [one["field"] for one in of_node] == ["props.title", "props.objectives", "children.lesson"]
    assert len(errors_of(found, "/")) == len(of_node) + 2
