"""Differences between versions: values, added and removed nodes, and a smallest set of moves."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcc.documents.difference import diff
from mcc.documents.state import DocumentState
from tests.mcc.documents.course import Course, add, move, remove, set_metadata, set_props


def lessons(count: int) -> Course:
    course = Course()
    course.do(*(add("lesson", metadata={"focus": f"Part {at}"}) for at in range(count)))
    return course


def told(before: DocumentState, after: DocumentState) -> list[tuple[str, str, str | None]]:
    return [(one.path, one.change, one.before) for one in diff(before, after).nodes]


def test_values_differ_with_what_follows_from_them() -> None:
    course = lessons(1)
    before = course.state
    course.do(set_metadata("/", grade=8), set_props("/lesson-1", minutes=40))
    found = diff(before, course.state)
    assert (found.since, found.to) == (2, 3)
    fields: dict[str, Any] = {one.path: dict(one.fields) for one in found.nodes}
    assert fields == {
        "/": {"metadata.grade": (7, 8)},
        "/lesson-1": {"props.grade": (7, 8), "props.double": (None, 80), "props.minutes": (None, 40)},
    }
    assert {one.change for one in found.nodes} == {"changed"}


def test_nodes_that_came_and_went_are_told_with_their_values() -> None:
    course = lessons(2)
    before = course.state
    course.do(remove("/lesson-1"), add("lesson", metadata={"focus": "New"}))
    found = {one.path: one for one in diff(before, course.state).nodes}
    assert {path: one.change for path, one in found.items()} == {
        "/lesson-2": "changed",
        "/lesson-3": "added",
        "/lesson-1": "removed",
    }
    assert found["/lesson-3"].fields["metadata.focus"] == (None, "New")
    assert found["/lesson-1"].fields["metadata.focus"] == ("Part 0", None)
    assert list(found)[-1] == "/lesson-1"


def test_a_node_with_another_parent_has_moved_and_its_children_went_along() -> None:
    course = lessons(2)
    course.do(add("part", metadata={"name": "One"}), add("activity", "/lesson-2"))
    before = course.state
    course.do(move("/lesson-2", 1, "/part-1"))
    assert [one for one in told(before, course.state) if one[1] == "moved"] == [
        ("/part-1/lesson-1", "moved", "/lesson-2"),
    ]


def test_one_node_that_is_moved_to_the_front_is_the_only_one_that_moved() -> None:
    course = lessons(6)
    before = course.state
    course.do(move("/lesson-6", 1))
    found = [path for path, change, _ in told(before, course.state) if change == "moved"]
    assert found == ["/lesson-6"]


def test_the_same_version_does_not_differ_from_itself() -> None:
    course = lessons(2)
    assert diff(course.state, course.state).nodes == ()


@given(st.permutations(range(7)))
def test_what_moved_explains_the_new_order(order: list[int]) -> None:
    course = lessons(7)
    before = course.state
    course.do(*(move(f"/lesson-{one + 1}", place + 1) for place, one in enumerate(order)))
    moved = {path for path, change, _ in told(before, course.state) if change == "moved"}
    stayed = [one for one in order if f"/lesson-{one + 1}" not in moved]
    assert stayed == sorted(stayed)
    assert (not moved) == (order == sorted(order))
