"""Commands of a document: their changes and consequences, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, DispatchRefused
from mcc.documents.commands import Instruct, Judge, Judged, RunFailure, Settle
from mcc.documents.state import MAX_LEVELS
from tests.mcc.documents.course import (
    AGENT,
    CHAT,
    METADATA_AGENT,
    NOON,
    Course,
    add,
    move,
    remove,
    set_metadata,
    set_props,
)
from tests.mcc.documents.work_done import calls

RULED = """
blueprint: ruled
root: course
components: {course: {metadata: {topic: {type: text}}, rules: [{function: reads_well}]}}
"""


def refused(course: Course, *commands: Any, **more: Any) -> DispatchRefused:
    """The refusal of these commands; asserts that nothing changed."""
    before = course.state
    with pytest.raises(DispatchRefused) as caught:
        course.do(*commands, **more)
    assert course.state is before
    return caught.value


def lessons(*focuses: str) -> Course:
    course = Course()
    course.do(*(add("lesson", metadata={"focus": focus}) for focus in focuses))
    return course


def paths(course: Course) -> list[str]:
    return [course.state.path(node) for node in course.state.walk()]


def test_a_document_begins_with_its_defaults_and_what_follows_from_them() -> None:
    course = Course()
    assert course.state.title == "Photosynthesis"
    assert course.state.root.metadata == {"topic": "Photosynthesis", "grade": 7}
    assert course.state.root.props["total_minutes"] == 360
    by = {name: known.by for name, known in course.state.root.provenance.items()}
    rules = course.blueprint.root.rules_digest
    assert course.state.root.provenance["metadata.grade"].rules == rules
    assert by["metadata.topic"] == "person" and by["metadata.grade"] == "default"
    assert by["props.total_minutes"] == "formula"
    assert course.failing("/") == ["props.title.required", "children.lesson.min"]


def test_a_value_knows_who_set_it_from_what() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-1", minutes=40), author=AGENT)
    known = course.node("/lesson-1").provenance["props.minutes"]
    assert (known.by, known.order_id, known.record_id, known.version) == ("agent", "order", "record", 3)
    assert known.asked == "sha256:asked" and known.rules == course.blueprint.component("lesson").rules_digest
    assert not known.held
    course.do(set_props("/lesson-1", minutes=50))
    known = course.node("/lesson-1").provenance["props.minutes"]
    assert (known.by, known.principal, known.asked, known.held) == ("person", "ann", None, True)
    assert known.accepted is not None and (known.accepted.version, known.accepted.principal) == (4, "ann")
    bound = course.node("/lesson-1").provenance["props.grade"]
    assert (bound.by, bound.sources) == ("binding", ("/ metadata.grade",))


def test_a_value_that_only_breaks_a_rule_is_taken_and_its_verdict_says_so() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-1", minutes=41))
    assert course.node("/lesson-1").props["minutes"] == 41
    (verdict,) = [one for one in course.node("/lesson-1").verdicts if one.rule == "props.minutes.rules[0]"]
    assert (verdict.ok, verdict.kind, verdict.version) == (False, "cel", 3)
    assert verdict.message.startswith("Use steps of five.")
    course.do(set_props("/lesson-1", minutes=45))
    assert course.failing("/lesson-1") == ["children.activity.min"]


def test_a_verdict_that_says_the_same_stays_as_old_as_it_is() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_metadata("/lesson-1", focus="Water"))
    found = {one.rule: one.version for one in course.node("/lesson-1").verdicts}
    assert found["props.minutes.required"] == 2


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        (set_props("/lesson-1", minutes="long"), 422, "This must be a number, and a text was given"),
        (set_props("/lesson-1", minuts=5), 422, 'did you mean "props.minutes"?'),
        (set_props("/lesson-1", grade=5), 422, "made by its binding; nobody sets it"),
        (set_props("/", total_minutes=5), 422, "made by its formula; nobody sets it"),
        (set_props("/lesson-1", focus="Light"), 422, "has no props.focus; metadata.focus is set by set_metadata"),
        (set_props("/lesson-9", minutes=5), 404, 'did you mean "/lesson-'),
        (add("lessn"), 422, 'did you mean "lesson"?'),
        (add("activity"), 422, "a course has no child 'activity'"),
        (add("lesson", position=0), 422, "greater than or equal to 1"),
        (remove("/"), 422, "the root of a document cannot be removed"),
        (move("/", 1), 422, "the root of a document cannot be moved"),
        (move("/lesson-1", 1, "/lesson-2"), 422, "a lesson has no child 'lesson'"),
        ({"command": "set_values", "node": "/", "values": {}}, 422, 'did you mean "set_value"?'),
        ({"command": "set_value", "node": "/", "value": {"a": 1}, "values": {"a": 1}}, 422, 'did you mean "values"?'),
        ({"command": "set_value", "node": "/", "values": {}}, 422, "Name at least one field"),
        ({"command": "settle", "node": "/", "role": "node", "asked": "", "inputs": {}}, 422, "no command 'settle'"),
        ("undo", 422, "a command should be a JSON object"),
        (set_props("/lesson-1", minutes=float("inf")), 422, "without infinite numbers"),
        ({"command": "undo", "node": "/"}, 422, "undo has nothing of this name"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(command: Any, status: int, said: str) -> None:
    found = refused(lessons("Light", "Leaves"), command)
    assert found.status == status and said in str(found)


def test_all_commands_are_done_or_none() -> None:
    course = lessons("Light", "Leaves")
    found = refused(course, set_props("/lesson-1", minutes=40), set_props("/lesson-2", minutes="x", level=2))
    assert [one.split(":")[0] for one in found.sentences] == ["commands.1", "commands.1"]
    assert course.node("/lesson-1").props["minutes"] is None


def test_a_later_command_of_one_dispatch_may_name_what_an_earlier_one_made() -> None:
    course = Course()
    change = course.do(add("lesson"), add("activity", "/lesson-1"), set_props("/lesson-1/activity-1", text="Look."))
    assert change.made == ("/lesson-1", "/lesson-1/activity-1") and change.version == 2


def test_the_expected_version_is_that_of_the_addressed_nodes() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-1", minutes=40))
    course.do(set_metadata("/", grade=8))
    course.do(set_props("/lesson-2", minutes=40), expected_version=2)
    found = refused(course, set_props("/lesson-1", minutes=45), set_props("/lesson-2", minutes=45), expected_version=2)
    assert (found.status, found.version, found.changed) == (409, 5, ("/lesson-1", "/lesson-2"))
    assert "/lesson-1, /lesson-2" in str(found)
    assert course.do(set_props("/lesson-1", minutes=45), expected_version=5).version == 6


def test_bindings_and_formulas_follow_down_to_where_nothing_changes() -> None:
    course = lessons("Light", "Leaves")
    course.do(add("activity", "/lesson-1"), set_props("/lesson-1", minutes=40))
    change = course.do(set_metadata("/", grade=9))
    assert set(change.changed) == {"/", "/lesson-1", "/lesson-2", "/lesson-1/activity-1"}
    assert course.node("/lesson-1/activity-1").props["above"] == 9
    assert course.node("/lesson-1/activity-1").provenance["props.above"].sources == ("/lesson-1 props.grade",)
    assert course.node("/lesson-1").version == 3
    change = course.do(set_metadata("/", topic="Plants"))
    assert change.changed == ("/",)


def test_a_formula_is_null_where_it_meets_a_null() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-1", minutes=40))
    assert course.node("/lesson-1").props["double"] == 80
    course.do(set_props("/lesson-1", minutes=None))
    assert course.node("/lesson-1").props["double"] is None


def test_a_position_is_bound_anew_where_it_shifts() -> None:
    course = lessons("Light", "Leaves", "Air")
    change = course.do(add("lesson", metadata={"focus": "First"}, position=2))
    heads = [node.props["headline"] for node in course.state.children_of(course.state.root)]
    assert heads == ["1: Light", "2: First", "3: Leaves", "4: Air"]
    assert "/lesson-1" not in change.changed
    course.do(move("/lesson-3", 1))
    heads = [node.props["headline"] for node in course.state.children_of(course.state.root)]
    assert heads == ["1: Air", "2: Light", "3: First", "4: Leaves"]
    course.do(remove("/lesson-1"))
    heads = [node.props["headline"] for node in course.state.children_of(course.state.root)]
    assert heads == ["1: Air", "2: First", "3: Leaves"]


def test_keys_are_never_used_again_and_paths_survive_reordering() -> None:
    course = lessons("Light", "Leaves")
    ids = {path: course.node(path).id for path in ("/lesson-1", "/lesson-2")}
    course.do(move("/lesson-2", 1))
    assert paths(course) == ["/", "/lesson-2", "/lesson-1"]
    assert {path: course.node(path).id for path in ids} == ids
    course.do(remove("/lesson-2"))
    assert course.do(add("lesson")).made == ("/lesson-3",)


def test_a_child_moves_to_another_parent_with_all_below_it_and_references_follow() -> None:
    course = lessons("Light", "Leaves")
    id = course.node("/lesson-1").id
    course.do(add("activity", "/lesson-1"), set_props("/lesson-2", builds_on="/lesson-1"), add("part"))
    assert course.node("/lesson-1").props["grade"] == 7
    course.do(move("/lesson-1", 1, "/part-1"))
    assert paths(course) == ["/", "/lesson-2", "/part-1", "/part-1/lesson-1", "/part-1/lesson-1/activity-1"]
    assert course.node(id).key == "lesson-1"
    assert course.node("/lesson-2").props["builds_on"] == "/part-1/lesson-1"
    assert course.node(id).props["grade"] is None
    bound = course.node("/part-1/lesson-1/activity-1").provenance["props.above"]
    assert bound.sources == ("/part-1/lesson-1 props.grade",)
    assert course.failing("/lesson-2") == ["props.minutes.required", "children.activity.min"]
    course.do(move(id, 1, "/"))
    assert course.node(id).key == "lesson-3" and course.node("/lesson-2").props["builds_on"] == "/lesson-3"


def test_what_is_bound_says_where_its_source_is_by_now_also_where_the_value_is_the_same() -> None:
    course = Course()
    course.do(add("part", metadata={"grade": 5}), add("part", metadata={"grade": 5}), add("lesson", "/part-1"))
    course.do(add("activity", "/part-1/lesson-1"))
    course.do(move("/part-1/lesson-1", 1, "/part-2"))
    known = course.node("/part-2/lesson-1/activity-1").provenance["props.above"]
    assert (known.sources, known.version) == (("/part-2/lesson-1 props.grade",), 3)


def test_a_state_of_before_is_gone_on_with_as_if_there_had_been_no_later_one() -> None:
    course = lessons("Light", "Leaves")
    before = course.state
    course.do(set_props("/lesson-2", builds_on="/lesson-1"))
    course.state = before
    course.do(remove("/lesson-1"))
    assert paths(course) == ["/", "/lesson-2"]


def test_a_node_cannot_be_moved_into_itself() -> None:
    course = Course()
    course.do(add("part"), add("part", "/part-1"))
    assert "into itself" in str(refused(course, move("/part-1", 1, "/part-1/part-1")))


def test_what_a_reference_from_outside_leads_to_cannot_be_removed() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-2", builds_on="/lesson-1"))
    found = refused(course, remove("/lesson-1"))
    assert found.status == 409 and "/lesson-2 refers to /lesson-1" in str(found)
    course.do(set_props("/lesson-2", builds_on=None), remove("/lesson-1"))
    assert paths(course) == ["/", "/lesson-2"]


def test_references_within_what_is_removed_do_not_keep_it() -> None:
    course = Course()
    course.do(add("part"), add("lesson", "/part-1"), add("lesson", "/part-1"))
    course.do(
        set_props("/part-1/lesson-2", builds_on="/part-1/lesson-1"),
        set_props("/part-1/lesson-1", builds_on="/part-1/lesson-2"),
    )
    assert course.do(remove("/part-1")).changed == ("/",)


def test_a_reference_is_judged_anew_when_what_it_names_comes_to_be() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-2", builds_on="/lesson-3"))
    assert "props.builds_on.to" in course.failing("/lesson-2")
    course.do(add("lesson"))
    assert "props.builds_on.to" not in course.failing("/lesson-2")


@pytest.mark.parametrize("named", ["id", "/lesson-1/", "//lesson-1"])
def test_a_reference_is_kept_as_the_path_however_it_was_given(named: str) -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-2", builds_on=course.node("/lesson-1").id if named == "id" else named))
    assert course.node("/lesson-2").props["builds_on"] == "/lesson-1"
    assert refused(course, remove("/lesson-1")).status == 409


def test_how_many_children_there_are_is_a_rule_of_the_parent_and_no_refusal() -> None:
    course = lessons(*(f"Lesson {number}" for number in range(9)))
    assert "children.lesson.max" in course.failing("/")
    course.do(remove("/lesson-9"))
    assert "children.lesson.max" not in course.failing("/")


def test_a_document_has_at_most_100_levels() -> None:
    course = Course()
    path = ""
    for _ in range(MAX_LEVELS - 1):
        course.do(add("part", path or "/"))
        path += "/part-1"
    assert "at most 100 levels" in str(refused(course, add("part", path)))
    course.do(add("part", "/"))
    assert "at most 100 levels" in str(refused(course, move("/part-1", 1, "/part-2")))


def test_a_held_field_is_refused_to_agents_and_not_to_people_and_their_chats() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-1", minutes=40))
    for author in (AGENT, Author("agent", NOON, node="/lesson-1")):
        found = refused(course, set_props("/lesson-1", minutes=45), author=author)
        assert found.status == 422 and "A person holds this value" in str(found)
    course.do(set_props("/lesson-1", minutes=45), author=CHAT)
    known = course.node("/lesson-1").provenance["props.minutes"]
    assert known.by == "chat" and known.held
    course.do(set_props("/lesson-1", minutes=None))
    course.do(set_props("/lesson-1", minutes=30), author=AGENT)


def test_what_a_person_made_or_holds_is_not_removed_by_an_agent() -> None:
    course = Course()
    course.do(add("lesson"), author=AGENT)
    course.do(add("lesson"))
    course.do(set_props("/lesson-1", minutes=5))
    for path in ("/lesson-1", "/lesson-2"):
        assert "a person holds" in str(refused(course, remove(path), author=AGENT))
    course.do({"command": "release", "node": "/lesson-1"})
    course.do(remove("/lesson-1"), author=AGENT)


def test_an_agent_is_bound_to_its_node() -> None:
    course = Course()
    course.do(add("lesson"), add("lesson"), add("activity", "/lesson-1"), author=CHAT)
    bound = Author("agent", NOON, node="/lesson-1")
    course.do({"command": "set_value", "values": {"minutes": 40}}, author=bound)
    course.do({"command": "add_child", "component": "activity"}, author=bound)
    course.do(move("/lesson-1/activity-2", 1), author=bound)
    course.do(remove("/lesson-1/activity-1"), author=bound)
    for wrong in (
        set_props("/lesson-2", minutes=40),
        set_props("/lesson-1/activity-2", text="Look."),
        add("activity", "/lesson-2"),
        add("activity", "/lesson-1", values={"text": "Look."}),
        remove("/lesson-2"),
        remove("/lesson-1"),
        move("/lesson-1/activity-2", 1, "/lesson-2"),
        set_metadata("/lesson-1", focus="Light"),
        {"command": "undo"},
        {"command": "accept", "node": "/lesson-1"},
        {"command": "select", "node": "/lesson-1"},
    ):
        assert refused(course, wrong, author=bound).status == 422


def test_the_metadata_agent_sets_metadata_alone() -> None:
    course = Course()
    course.do(add("lesson"), author=AGENT)
    course.do(set_metadata("/lesson-1", focus="Light"), author=METADATA_AGENT)
    assert course.node("/lesson-1").provenance["metadata.focus"].by == "metadata_agent"
    for wrong in (set_props("/lesson-1", minutes=40), add("activity", "/lesson-1"), remove("/lesson-1")):
        assert "not for this agent" in str(refused(course, wrong, author=METADATA_AGENT))


def test_a_selection_changes_nothing() -> None:
    course = lessons("Light", "Leaves")
    before = course.state
    change = course.do({"command": "select", "node": "/lesson-1"})
    assert change.state is before and change.steps == () and change.version == before.version
    assert refused(course, {"command": "select", "node": "/x"}).status == 404


def test_how_a_run_ended_is_kept_with_its_node() -> None:
    course = lessons("Light", "Leaves")
    failure = RunFailure(reason="gate_failed", message="1 rule does not hold.")
    settle = Settle(node="/lesson-1", role="node", asked="sha256:1", inputs={"brief": ""}, failure=failure, summary="…")
    course.do(settle, author=AGENT)
    node = course.node("/lesson-1")
    assert node.failure is not None and (node.failure.reason, node.failure.record_id) == ("gate_failed", "record")
    assert (node.stamps["node"].asked, node.stamps["node"].version, node.summary) == ("sha256:1", 3, "…")
    course.do(settle.model_copy(update={"failure": None, "summary": None}), author=AGENT)
    assert course.node("/lesson-1").failure is None and course.node("/lesson-1").summary == "…"


def test_what_all_agents_read_is_kept_with_the_document() -> None:
    course = Course()
    assert course.do(Instruct(brief="Be brief.")).state.brief == "Be brief."
    assert course.do(Instruct(brief="Be brief.")).version == 2


def test_evidence_is_kept_for_as_long_as_the_value_that_it_is_about() -> None:
    course = lessons("Light", "Leaves")
    rule = "props.source.rules[0]"

    def said() -> tuple[bool | None, str]:
        return next((one.ok, one.message) for one in course.node("/lesson-1").verdicts if one.rule == rule)

    course.do(set_props("/lesson-1", source="a.md"), author=AGENT)
    assert said()[0] is None
    verdicts = (Judged(rule=rule, ok=True),)
    settled = Settle(node="/lesson-1", role="node", asked="a", inputs={}, verdicts=verdicts)
    course.do(settled, author=AGENT)
    assert said() == (True, "")
    course.do(set_props("/lesson-1", minutes=40))
    assert said() == (True, "")
    course.do(set_props("/lesson-1", source="b.md"))
    assert said() == (None, "No agent set this value.")
    course.do({"command": "undo"})
    assert said() == (True, "")
    course.do(set_props("/lesson-1", source="a.md"), settled, author=AGENT)
    course.do(set_props("/lesson-1", minutes=None))
    assert said() == (True, "")


def test_a_whole_number_is_kept_as_one() -> None:
    course = lessons("Light", "Leaves")
    course.do(set_props("/lesson-1", minutes=45.0))
    assert isinstance(course.node("/lesson-1").props["minutes"], int)


def test_what_functions_said_of_a_node_that_has_changed_since_is_not_kept() -> None:
    blueprint = Blueprint.parse(RULED)
    course = Course(blueprint, topic="Light")

    def judged(version: int) -> bool | None:
        said = {course.state.root_id: (Judged(rule="rules[0]", ok=True),)}
        course.do(Judge(version=version, verdicts=said))
        return course.state.root.verdicts[-1].ok

    course.do(set_metadata("/", topic="Air"))
    assert judged(1) is None and course.state.version == 2
    assert judged(2) is True and course.state.version == 3
    step = course.steps[-1]
    assert (step.command, step.by, step.principal) == ("judge", "rule", None)
    course.do(set_metadata("/", topic="Sea"))
    assert course.state.root.verdicts[-1].ok is None


def test_a_change_takes_as_many_calls_however_many_nodes_stand_beside_it() -> None:
    def needed(parts: int) -> int:
        course = Course()
        course.do(add("lesson"), *[add("part")] * parts, author=AGENT)
        course.do(set_props("/lesson-1", minutes=1), add("part"))
        return calls(lambda: course.do(set_props("/lesson-1", minutes=2), add("part")))

    # A walk through them would take ten times as many.
    assert needed(4_000) < 1.5 * needed(400)


def test_what_was_sent_may_change_afterwards() -> None:
    values = {"builds_on": "/lesson-1"}
    course = lessons("Light", "Leaves")
    course.do({"command": "set_value", "node": "/lesson-2", "values": values})
    values["builds_on"] = "/"
    assert course.node("/lesson-2").props["builds_on"] == "/lesson-1"


def test_a_document_is_changed_by_its_own_blueprint_alone() -> None:
    course = Course()
    course.state = replace(course.state, blueprint="sha256:0")
    with pytest.raises(ValueError, match="pinned to the blueprint sha256:0"):
        course.do(set_props("/", title="Plants and light"))
