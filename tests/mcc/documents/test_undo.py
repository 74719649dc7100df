"""Undo and redo of own commands, and refusals where somebody else changed the same."""

from typing import Any

import pytest

from mcc.documents.change import DispatchRefused
from mcc.documents.commands import Settle
from mcc.documents.state import DocumentState
from tests.mcc.documents.course import (
    AGENT,
    ANN,
    BEN,
    CHAT,
    REDO,
    UNDO,
    Course,
    add,
    move,
    remove,
    set_metadata,
    set_props,
)


def told(state: DocumentState) -> dict[str, Any]:
    """The content of a document by node id, in order: values, places, and what is held.

    Conflicts are left out: one that a change caused lasts until the value is accepted or released, even after an undo.
    """
    return {
        node.id: (
            state.path(node),
            dict(node.metadata),
            dict(node.props),
            sorted(name for name, known in node.provenance.items() if known.held),
            {name: known.by for name, known in node.provenance.items() if known.given},
            [(one.rule, one.ok) for one in node.verdicts],
        )
        for node in state.walk()
    }


def begun() -> Course:
    course = Course()
    course.do(add("lesson", metadata={"focus": "Light"}), add("lesson", metadata={"focus": "Leaves"}), add("part"))
    course.do(set_props("/lesson-1", minutes=40), author=AGENT)
    course.do(add("activity", "/lesson-1"), author=AGENT)
    return course


def refused(course: Course, command: Any) -> str:
    with pytest.raises(DispatchRefused) as caught:
        course.do(command)
    assert caught.value.status == 409
    return str(caught.value)


CHANGES: dict[str, list[Any]] = {
    "a value": [set_props("/lesson-1", minutes=45)],
    "a value taken away": [set_props("/lesson-1", minutes=None)],
    "metadata": [set_metadata("/", grade=9)],
    "a new child": [add("lesson", metadata={"focus": "Air"}, position=1)],
    "a removed child": [remove("/lesson-1")],
    "a moved child": [move("/lesson-1", 2)],
    "a child of another parent": [move("/lesson-1", 1, "/part-1")],
    "acceptance": [{"command": "accept", "node": "/lesson-1"}],
    "release": [{"command": "release", "node": "/lesson-2"}],
    "a child that came and went": [
        add("part", "/part-1"),
        set_metadata("/part-1/part-1", name="Leaves"),
        set_metadata("/part-1", name="Light"),
        remove("/part-1"),
    ],
    "several at once": [
        set_props("/lesson-2", builds_on="/lesson-1"),
        move("/lesson-1", 1, "/part-1"),
        set_metadata("/", grade=1),
    ],
}


@pytest.mark.parametrize("commands", CHANGES.values(), ids=CHANGES)
def test_a_change_is_taken_back_and_made_again(commands: list[Any]) -> None:
    course = begun()
    before = told(course.state)
    course.do(*commands)
    after = told(course.state)
    assert after != before
    for _ in range(2):
        version = course.state.version
        course.do(UNDO)
        assert told(course.state) == before
        course.do(REDO)
        assert told(course.state) == after
        assert course.state.version == version + 2


def test_a_value_taken_back_is_again_whose_it_was() -> None:
    course = begun()
    course.do(set_props("/lesson-1", minutes=45))
    course.do(UNDO)
    known = course.node("/lesson-1").provenance["props.minutes"]
    assert (known.by, known.record_id, known.held, known.version) == ("agent", "record", False, 6)
    course.do(set_props("/lesson-1", minutes=50), author=AGENT)


def test_commands_are_taken_back_in_turn_and_a_new_one_ends_what_could_be_made_again() -> None:
    course = begun()
    for minutes in (10, 20, 30):
        course.do(set_props("/lesson-2", minutes=minutes))
    seen = []
    for command in (UNDO, UNDO, REDO, UNDO, UNDO):
        course.do(command)
        seen.append(course.node("/lesson-2").props["minutes"])
    assert seen == [20, 10, 20, 10, None]
    course.do(set_props("/lesson-2", minutes=5))
    assert "no change of yours to redo" in refused(course, REDO)


def test_what_a_later_one_touched_is_not_taken_back() -> None:
    course = begun()
    course.do(set_props("/lesson-2", minutes=10))
    course.do(set_props("/lesson-2", minutes=20), author=BEN)
    assert "props.minutes of /lesson-2 was changed since" in refused(course, UNDO)
    course = begun()
    course.do(set_props("/lesson-2", minutes=10))
    course.do(set_props("/lesson-2", builds_on="/lesson-1"), author=BEN)
    course.do(UNDO)
    props = course.node("/lesson-2").props
    assert props["minutes"] is None and props["builds_on"] == "/lesson-1"


def test_the_same_value_given_by_another_is_a_touch_too() -> None:
    course = begun()
    course.do(set_props("/lesson-2", minutes=10))
    course.do(set_props("/lesson-2", minutes=10), author=BEN)
    assert "was changed since" in refused(course, UNDO)


def test_what_another_touched_between_two_of_mine_stays() -> None:
    course = begun()
    course.do(set_props("/lesson-2", minutes=10))
    course.do(set_props("/lesson-2", minutes=20), author=BEN)
    course.do(set_props("/lesson-2", minutes=30))
    course.do(UNDO)
    assert course.node("/lesson-2").props["minutes"] == 20
    assert "was changed since" in refused(course, UNDO)


def test_what_another_accepted_stays() -> None:
    course = begun()
    course.do(set_props("/lesson-2", minutes=10))
    course.do({"command": "accept", "node": "/lesson-2", "fields": ["minutes"]}, author=BEN)
    assert "was changed since" in refused(course, UNDO)


@pytest.mark.parametrize(
    "command",
    [
        set_props("/lesson-3", minutes=10),
        add("activity", "/lesson-3"),
        move("/lesson-3", 1),
    ],
)
def test_a_child_that_somebody_is_at_work_on_stays(command: Any) -> None:
    course = begun()
    course.do(add("lesson"))
    course.do(command, author=AGENT)
    assert "/lesson-3 was changed since" in refused(course, UNDO)


def generated() -> Course:
    course = begun()
    course.do(add("lesson"))
    course.do(set_props("/lesson-3", minutes=10), add("activity", "/lesson-3"), author=AGENT)
    for path in ("/lesson-3", "/lesson-3/activity-1"):
        course.do(Settle(node=path, role="node", asked="sha256:asked", inputs={}), author=AGENT)
    return course


def test_a_child_that_the_generator_filled_goes_and_comes_back_with_all_that_was_made_of_it() -> None:
    course = generated()
    before = told(course.state)
    course.do(UNDO)
    assert "/lesson-3" not in [course.state.path(node) for node in course.state.walk()]
    course.do(REDO)
    assert told(course.state) == before
    course.do(UNDO)
    course.do(REDO)
    assert told(course.state) == before


@pytest.mark.parametrize(
    ("command", "author"),
    [
        (set_props("/lesson-3", minutes=20), BEN),
        (set_props("/lesson-3", minutes=20), CHAT),
        ({"command": "accept", "node": "/lesson-3", "fields": ["minutes"]}, BEN),
        (add("activity", "/lesson-3"), BEN),
    ],
)
def test_a_generated_child_that_somebody_worked_on_stays(command: Any, author: Any) -> None:
    course = generated()
    course.do(command, author=author)
    assert "was changed since" in refused(course, UNDO)


def test_a_child_that_something_refers_to_stays() -> None:
    course = begun()
    course.do(add("lesson"))
    course.do(set_props("/lesson-2", builds_on="/lesson-3"), author=CHAT)
    assert "/lesson-2 refers to /lesson-3" in refused(course, UNDO)


def test_a_removed_child_comes_back_only_where_its_parent_is() -> None:
    course = begun()
    course.do(add("part", "/part-1"), author=BEN)
    course.do(remove("/part-1/part-1"))
    course.do(remove("/part-1"), author=BEN)
    assert "the parent of /part-1/part-1 is not there any more" in refused(course, UNDO)


def test_a_child_moved_on_by_another_stays() -> None:
    course = begun()
    course.do(move("/lesson-1", 2))
    course.do(move("/lesson-1", 3), author=BEN)
    assert "was moved since" in refused(course, UNDO)


def test_what_others_did_is_not_mine_to_take_back() -> None:
    course = begun()
    course.do(set_metadata("/", grade=3))
    course.do(set_props("/lesson-2", minutes=10), author=BEN)
    course.do(UNDO)
    assert course.node("/lesson-2").props["minutes"] == 10 and course.state.root.metadata["grade"] == 7


def test_a_redo_of_a_removal_is_refused_where_somebody_worked_on_it() -> None:
    course = begun()
    course.do(remove("/lesson-2"))
    course.do(UNDO)
    course.do(set_props("/lesson-2", minutes=5), author=CHAT)
    assert "/lesson-2 was changed since" in refused(course, REDO)


def test_the_history_says_what_an_undo_changed() -> None:
    course = begun()
    course.do(set_props("/lesson-1", minutes=45))
    (step,) = course.do(UNDO).steps
    assert (step.command, step.node, step.fields) == ("undo", "/lesson-1", {"props.minutes": (45, 40)})
    assert step.by == ANN.by and step.principal == "ann"


def test_nothing_is_taken_back_across_blueprints() -> None:
    course = begun()
    course.do(set_props("/lesson-1", minutes=45))
    course.steps[-1].undo["blueprint"] = "sha256:0"  # type: ignore[index]
    assert "has another blueprint since" in refused(course, UNDO)
