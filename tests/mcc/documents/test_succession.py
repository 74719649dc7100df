"""Moving a document to another blueprint."""

import pytest

from mcc.documents import Blueprint, DispatchRefused, Document
from tests.mcc.documents.course import BLUEPRINT, COURSE, UNDO, add, set_metadata, set_props


def filled() -> Document:
    document = Document(BLUEPRINT, {"topic": "Light"})
    document.dispatch(set_props("/", title="Plants and light", level="basic"))
    document.dispatch(
        [add("lesson", metadata={"focus": "Light"}), add("lesson"), add("part"), add("lesson", "/part-1")]
    )
    document.dispatch([add("activity", "/lesson-1"), set_props("/lesson-1", minutes=40, source="a.md")])
    return document


def changed(*pairs: tuple[str, str]) -> Blueprint:
    text = COURSE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return Blueprint.parse(text)


def test_the_same_blueprint_changes_nothing() -> None:
    document = filled()
    found = document.change_blueprint(BLUEPRINT)
    assert found.dropped == () and found.change.version == document.state.version == 4


def test_what_has_no_place_is_dropped_and_told() -> None:
    document = filled()
    part = COURSE[COURSE.index("  part:") : COURSE.index("  lesson:\n    metadata:")]
    other = changed(
        (part, ""),
        (", part: {}}", "}"),
        ("      level: {type: choice, options: [basic, advanced]}\n", ""),
        ('props.level != "advanced" ||', "true ||"),
        (
            "        type: text\n        rules: [{evidence",
            "        type: list\n        items: {type: text}\n        rules: [{evidence",
        ),
    )
    found = document.change_blueprint(other)
    assert found.dropped == ("/ props.level", "/lesson-1 props.source", "/part-1")
    assert found.change.version == document.state.version == 5 and document.state.blueprint == other.digest
    assert "level" not in document.node("/").props and document.node("/lesson-1").props["source"] is None
    assert document.node("/lesson-1").props["minutes"] == 40
    assert document.dispatch(set_props("/lesson-1", minutes=45)).version == 6


def test_new_fields_have_their_defaults_and_what_is_computed_is_made_anew() -> None:
    document = filled()
    other = changed(
        ("max: 90, default: 45}\n", "max: 90, default: 60}\n      rooms: {type: number, default: 2}\n"),
        ("props.lessons_planned * props.lesson_minutes", "props.lessons_planned * props.lesson_minutes * props.rooms"),
    )
    document.change_blueprint(other)
    root = document.node("/")
    assert (root.props["lesson_minutes"], root.props["rooms"], root.props["total_minutes"]) == (45, 2, 720)
    assert root.provenance["props.rooms"].by == "default"


def test_a_value_that_somebody_set_is_dropped_where_it_is_computed_by_now() -> None:
    document = filled()
    document.dispatch(set_props("/", lesson_minutes=30))
    formula = "lesson_minutes: {type: number, integer: true, min: 20, max: 90, formula: metadata.grade + 23}"
    found = document.change_blueprint(
        changed(("lesson_minutes: {type: number, integer: true, min: 20, max: 90, default: 45}", formula))
    )
    assert found.dropped == ("/ props.lesson_minutes",)
    root = document.node("/")
    assert root.props["lesson_minutes"] == 30 and root.provenance["props.lesson_minutes"].by == "formula"


def test_a_hard_rule_is_judged_anew_and_asks_no_model() -> None:
    document = filled()
    stale = document.stale()
    found = document.change_blueprint(changed(("value % 5 == 0", "value % 7 == 0")))
    assert "props.minutes.rules[0]" in [one.rule for one in document.node("/lesson-1").verdicts if one.ok is False]
    assert set(found.stale) == set(document.stale()) >= set(stale)


def test_held_values_come_into_conflict_where_the_question_is_another() -> None:
    document = filled()
    found = document.change_blueprint(changed(("describe: 'Course \"", "describe: 'A course \"")))
    assert set(found.stale) >= {"/lesson-1"}
    conflicts = {one.field: one.because for one in document.node("/lesson-1").conflicts}
    assert conflicts["props.minutes"] == ("how the blueprint describes course",)
    assert not document.node("/").conflicts


def test_a_blueprint_with_another_root_is_refused() -> None:
    document = filled()
    with pytest.raises(DispatchRefused, match="the root of this document is a course, not a part"):
        document.change_blueprint(Blueprint.parse("blueprint: other\nroot: part\ncomponents: {part: {}}"))
    assert document.blueprint is BLUEPRINT


def test_nothing_before_it_is_taken_back() -> None:
    document = filled()
    document.change_blueprint(changed(("default: 45", "default: 60")))
    with pytest.raises(DispatchRefused, match="has another blueprint since"):
        document.undo()
    document.dispatch(set_metadata("/lesson-2", focus="Air"))
    document.dispatch(UNDO)
    assert document.node("/lesson-2").metadata["focus"] is None
