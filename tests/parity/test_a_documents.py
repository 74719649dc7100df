"""Section A: documents that change by commands. One test for each thing of the rows on dispatch and on pending."""

import pytest

from mcc.documents import DispatchRefused, Document
from mcc.documents.briefs import brief_of
from mcc.documents.commands import HIDDEN, VISIBLE, AnyCommand
from tests.mcc.documents.course import BLUEPRINT, add, move, remove, set_metadata, set_props


def course() -> Document:
    document = Document(BLUEPRINT, {"topic": "Photosynthesis"})
    document.dispatch([add("lesson", metadata={"focus": "Light"}), add("lesson", metadata={"focus": "Leaves"})])
    return document


def test_every_change_goes_through_one_dispatch_reduce_recompute_commit_tell() -> None:
    document = course()
    before = document.state
    change = document.dispatch(set_metadata("/", grade=9))
    # Reduced, and what follows computed and judged with it.
    assert change.state.root.metadata["grade"] == 9 and change.state.find("/lesson-1").props["grade"] == 9
    # Committed as a whole, as the next version; the one before is as it was.
    assert (document.state, document.state.version) == (change.state, before.version + 1)
    assert before.root.metadata["grade"] == 7
    # Told: to who asked, and in the history.
    assert set(change.changed) == {"/", "/lesson-1", "/lesson-2"}
    (step,) = change.steps
    assert document.history[-1] is step and step.fields == {"metadata.grade": (7, 9)}
    with pytest.raises(DispatchRefused):
        document.dispatch([set_metadata("/", grade=10), set_props("/lesson-1", minutes="long")])
    assert document.state is change.state


def test_chat_generation_and_a_person_are_told_apart_in_what_one_dispatch_keeps() -> None:
    document = course()
    document.dispatch(set_props("/lesson-1", minutes=30), by="agent")
    document.dispatch(set_props("/lesson-1", minutes=35), by="chat")
    document.dispatch(set_props("/lesson-1", minutes=40), by="person")
    assert [step.by for step in document.history[-3:]] == ["agent", "chat", "person"]
    with pytest.raises(DispatchRefused, match="A person holds this value"):
        document.dispatch(set_props("/lesson-1", minutes=45), by="agent")


@pytest.mark.parametrize(
    "command",
    [
        set_props("/lesson-1", minutes=40),
        set_metadata("/", grade=9),
        add("part"),
        remove("/lesson-1"),
        move("/lesson-2", 1),
    ],
)
def test_every_visible_command_is_undone_and_redone(command: dict[str, object]) -> None:
    document = course()

    def told() -> list[tuple[object, ...]]:
        nodes = [document.node(node.id) for node in document.state.walk()]
        return [(node.path, node.metadata, node.props, node.pending) for node in nodes]

    before = told()
    document.dispatch(command)
    after = told()
    document.undo()
    assert told() == before
    document.redo()
    assert told() == after != before


def test_bindings_are_resolved_before_the_child_runs() -> None:
    document = course()
    document.dispatch(set_metadata("/", grade=11))
    asked = brief_of(document.blueprint, document.state, "/lesson-2", "node").task
    assert "props.grade: 11" in asked and 'props.headline: "2: Leaves"' in asked
    assert document.node("/lesson-2").provenance["props.grade"].by == "binding"


def test_pending_says_which_required_fields_still_need_values() -> None:
    document = course()
    assert document.pending() == {
        "/": ("props.title",),
        "/lesson-1": ("props.minutes", "children.activity"),
        "/lesson-2": ("props.minutes", "children.activity"),
    }
    document.dispatch([set_props("/lesson-1", minutes=40), add("activity", "/lesson-1", values={"text": "Look."})])
    document.dispatch(set_props("/", title="Plants and light"))
    assert document.pending() == {"/lesson-2": ("props.minutes", "children.activity")}


def test_hidden_commands_are_dispatched_for_people_and_for_nobody_else() -> None:
    document = course()
    given: dict[str, dict[str, object]] = {"undo": {}, "redo": {}, "accept": {}, "release": {}, "select": {}}
    assert given.keys() == {_name(command) for command in HIDDEN} and set(VISIBLE).isdisjoint(HIDDEN)
    for command in HIDDEN:
        sent = {"command": _name(command), **({"node": "/lesson-1"} if "node" in command.model_fields else {})}
        document.dispatch(sent)
        for by in ("chat", "agent", "metadata_agent", "outline", "import"):
            with pytest.raises(DispatchRefused):
                document.dispatch(sent, by=by)


def _name(command: type[AnyCommand]) -> str:
    return str(command.model_fields["command"].default)
