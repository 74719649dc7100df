"""Held values: conflicts with changed inputs, accept and release, stamps."""

from typing import Any

import pytest

from mcc.documents.briefs import brief_of
from mcc.documents.change import DispatchRefused
from mcc.documents.commands import CHILDREN, Instruct, RunFailure, Settle
from mcc.documents.node import Role
from mcc.documents.staleness import assessed, stale_because
from tests.mcc.documents.course import BEN, CHAT, REDO, STAMPED, UNDO, Course, add, remove, set_metadata, set_props


def settled(course: Course, path: str, role: Role = "node") -> None:
    """Settle the node as if its agent had run with the present prompt."""
    brief = brief_of(course.blueprint, course.state, path, role)
    course.do(Settle(node=path, role=role, asked=brief.asked, inputs=brief.inputs), author=STAMPED)


def generated() -> Course:
    """A course whose first lesson was generated; a person set its focus, its agent the minutes."""
    course = Course()
    course.do(set_props("/", title="Plants and light"), author=STAMPED)
    course.do(add("lesson"), add("lesson"), author=STAMPED)
    course.do(set_metadata("/lesson-1", focus="Light"))
    course.do(set_props("/lesson-1", minutes=40), author=STAMPED)
    settled(course, "/lesson-1")
    return course


def stale(course: Course) -> set[str]:
    found = assessed(course.blueprint, course.state).stale
    return {course.state.path(course.state.nodes[id]) for id in found}


def conflicts(course: Course, path: str = "/lesson-1") -> dict[str, tuple[int, tuple[str, ...]]]:
    return {name: (one.since, one.because) for name, one in course.node(path).conflicts.items()}


def accept(node: str, *fields: str) -> dict[str, Any]:
    return {"command": "accept", "node": node, **({"fields": list(fields)} if fields else {})}


def release(node: str, *fields: str) -> dict[str, Any]:
    return {"command": "release", "node": node, **({"fields": list(fields)} if fields else {})}


def test_a_conflict_begins_when_the_node_of_a_held_field_becomes_stale() -> None:
    course = generated()
    assert not conflicts(course) and "/lesson-1" not in stale(course)
    course.do(set_metadata("/", grade=8))
    assert "/lesson-1" in stale(course)
    assert conflicts(course) == {"metadata.focus": (7, ("/ metadata.grade, 7 → 8 at version 7",))}
    course.do(set_metadata("/", grade=9))
    assert conflicts(course)["metadata.focus"][0] == 7


def test_a_conflict_lasts_when_the_node_is_done_again() -> None:
    course = generated()
    course.do(set_metadata("/", grade=8))
    settled(course, "/lesson-1")
    settled(course, "/lesson-1", "metadata")
    assert "/lesson-1" not in stale(course) and "metadata.focus" in conflicts(course)
    course.do(release("/lesson-1", "focus"))
    assert not conflicts(course)


def test_accepting_ends_the_conflict_and_answers_todays_question_where_all_is_held() -> None:
    course = generated()
    course.do(set_metadata("/", grade=8))
    course.do(accept("/lesson-1", "metadata.focus"))
    assert not conflicts(course)
    # The minutes are an agent's, and were made for another grade.
    assert "/lesson-1" in stale(course)
    course.do(accept("/lesson-1"))
    assert "/lesson-1" not in stale(course)
    known = course.node("/lesson-1").provenance["props.minutes"]
    assert known.by == "agent" and known.accepted is not None
    assert (known.accepted.version, known.accepted.principal) == (9, "ann")


def test_what_is_released_is_the_generators() -> None:
    course = generated()
    course.do(set_metadata("/", grade=8))
    course.do(release("/lesson-1"))
    assert not conflicts(course) and "/lesson-1" in stale(course)
    course.do(set_metadata("/lesson-1", focus="Leaves"), author=CHAT)
    assert not course.node("/lesson-1").provenance["metadata.focus"].held


def test_a_value_set_anew_is_in_conflict_no_more() -> None:
    course = generated()
    course.do(set_metadata("/", grade=8))
    course.do(set_metadata("/lesson-1", focus="Leaves"))
    assert not conflicts(course)
    course.do(UNDO)
    assert "metadata.focus" in conflicts(course)


def test_the_change_that_makes_a_node_stale_is_in_no_conflict_with_itself() -> None:
    course = generated()
    course.do(set_props("/lesson-1", source="a.md"))
    course.do(set_metadata("/lesson-1", focus="Leaves"))
    assert set(conflicts(course)) == {"props.source"}


def test_acceptance_is_taken_back_with_what_it_ended() -> None:
    course = generated()
    course.do(set_metadata("/", grade=8))
    before = conflicts(course)
    course.do(accept("/lesson-1"))
    course.do(UNDO)
    assert conflicts(course) == before and "/lesson-1" in stale(course)
    assert not course.node("/lesson-1").provenance["props.minutes"].held
    course.do(REDO)
    assert not conflicts(course) and "/lesson-1" not in stale(course)
    course.do(set_metadata("/", grade=9), author=BEN)
    assert "/lesson-1" in stale(course)


def test_a_failure_is_forgotten_when_a_person_accepts_the_node() -> None:
    course = generated()
    failure = RunFailure(reason="gate_failed", message="…")
    course.do(Settle(node="/lesson-1", role="node", asked="", inputs={}, failure=failure), author=STAMPED)
    course.do(accept("/lesson-1", "minutes"))
    assert course.node("/lesson-1").failure is not None
    course.do(accept("/lesson-1"))
    assert course.node("/lesson-1").failure is None


def test_a_first_edit_by_a_person_stands_for_the_agent_that_never_was() -> None:
    course = Course()
    course.do(add("lesson", metadata={"focus": "Light"}), author=STAMPED)
    course.do(set_props("/lesson-1", minutes=35))
    assert not course.node("/lesson-1").stamps, "a child is missing"
    course.do(add("activity", "/lesson-1"), author=STAMPED)
    course.do(set_props("/lesson-1", minutes=40))
    stamp = course.node("/lesson-1").stamps["node"]
    assert (stamp.version, stamp.record_id) == (5, None)
    assert stamp.asked == brief_of(course.blueprint, course.state, "/lesson-1", "node").asked
    course.do(set_metadata("/", grade=8))
    assert conflicts(course) == {"props.minutes": (6, ("/ metadata.grade, 7 → 8 at version 6",))}
    course.do(set_props("/lesson-1", minutes=45))
    assert course.node("/lesson-1").stamps["node"] is stamp and "/lesson-1" in stale(course)
    course.do(UNDO, UNDO, UNDO)
    assert not course.node("/lesson-1").stamps


def test_an_agents_edit_stamps_nothing_until_its_run_has_ended() -> None:
    course = Course()
    course.do(add("lesson"), author=STAMPED)
    course.do(set_props("/lesson-1", minutes=40), author=STAMPED)
    assert not course.node("/lesson-1").stamps


def test_the_stamp_of_an_edit_is_made_of_what_follows_from_it() -> None:
    course = Course()
    course.do(add("lesson"), author=STAMPED)
    course.do(set_metadata("/", grade=9), set_props("/lesson-1", minutes=40))
    assert "/lesson-1" not in stale(course) and not conflicts(course)


def test_held_children_are_left_as_they_are_by_agents() -> None:
    course = Course()
    course.do(add("lesson"), add("lesson"), author=STAMPED)
    course.do(accept("/", CHILDREN))
    for command in (add("lesson"), remove("/lesson-1")):
        with pytest.raises(DispatchRefused, match="a person holds the children of / as they are"):
            course.do(command, author=STAMPED)
    course.do(add("lesson"))
    course.do(release("/", CHILDREN))
    course.do(remove("/lesson-1"), author=STAMPED)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (accept("/lesson-2", "minutes"), "has no value that could be held"),
        (accept("/lesson-1", "minuts"), 'did you mean "props.minutes"?'),
        (accept("/lesson-1", "props.grade"), "made by its binding"),
        (release("/lesson-1", "props.grade"), "made by its binding"),
    ],
)
def test_what_cannot_be_held_is_refused(command: Any, said: str) -> None:
    with pytest.raises(DispatchRefused) as caught:
        generated().do(command)
    assert caught.value.status == 422 and said in str(caught.value)


def test_a_name_that_two_sections_have_is_said_in_full() -> None:
    course = generated()
    with pytest.raises(DispatchRefused, match=r"has no title"):
        course.do(accept("/lesson-1", "title"))
    course.do(accept("/", "topic"), author=BEN)
    accepted = course.state.root.provenance["metadata.topic"].accepted
    assert accepted is not None and accepted.principal == "ben"


def test_why_a_node_is_stale_names_the_field_and_the_version() -> None:
    course = generated()
    course.do(set_metadata("/", grade=8))
    assert stale_because(course.blueprint, course.state, course.node("/lesson-1")) == (
        "/ metadata.grade, 7 → 8 at version 7",
    )


def test_the_first_brief_moves_no_ground_and_a_later_one_does() -> None:
    course = Course(topic="Photosynthesis")
    course.do(add("lesson"), add("lesson"), set_props("/", title="How leaves work"), set_metadata("/", grade=8))
    course.do(Instruct(brief="For beginners."))
    root = course.state.root
    assert root.stamps["metadata"].asked == brief_of(course.blueprint, course.state, "/", "metadata").asked
    assert root.stamps["metadata"].inputs == brief_of(course.blueprint, course.state, "/", "metadata").inputs
    assert not root.conflicts and not assessed(course.blueprint, course.state).stale
    settled(course, "/")
    course.do(Instruct(brief="For experts."))
    assert course.state.root.conflicts["metadata.topic"].because == ("the brief",)
    assert assessed(course.blueprint, course.state).stale == {root.id}
