"""`Document` of the library: history, undo, exports and imports."""

import json

import pytest

from mcc.documents import Blueprint, DispatchRefused, Document, UnknownNode, function
from mcc.documents.commands import CHILDREN, Accept
from tests.mcc.documents.course import BLUEPRINT, NOON, add, remove, set_metadata, set_props

RULED = """
blueprint: ruled
root: course
components:
  course:
    rules: [{function: titles_of_lessons_differ}]
    children: {lesson: {}}
  lesson:
    properties: {title: {type: text}}
"""


@function("titles_of_lessons_differ")
def titles_of_lessons_differ(node):  # type: ignore[no-untyped-def]
    titles = [child.props["title"] for child in node.children]
    return True if len(set(titles)) == len(titles) else "Two lessons have the same title."


def test_the_example_of_the_reference_does_what_the_page_says() -> None:
    blueprint = Blueprint.load("course")
    document = Document(blueprint, metadata={"topic": "Photosynthesis"})
    change = document.dispatch({"command": "add_child", "node": "/", "component": "lesson"}, by="person")
    assert change.made == ("/lesson-1",) and change.version == 2
    assert any(one.ok is False for one in document.node("/lesson-1").verdicts)
    assert {"/", "/lesson-1"} <= document.pending().keys() and not document.stale()
    assert document.node("/").metadata["topic"] == "Photosynthesis"
    document.undo()
    with pytest.raises(UnknownNode):
        document.node("/lesson-1")
    assert document.redo().made == ("/lesson-1",)
    assert "Photosynthesis" in document.export("md")


def test_a_function_of_this_program_is_found_by_its_name() -> None:
    document = Document(Blueprint.parse(RULED))
    document.dispatch([add("lesson", values={"title": "Light"}), add("lesson", values={"title": "Light"})])
    (verdict,) = document.node("/").verdicts
    assert (verdict.ok, verdict.message) == (False, "Two lessons have the same title.")
    document.dispatch(set_props("/lesson-2", title="Leaves"))
    (verdict,) = document.node("/").verdicts
    assert verdict.ok is True and document.status == "done"


def test_a_function_that_nobody_has_is_never_a_pass() -> None:
    document = Document(Blueprint.parse(RULED), functions={})
    document.dispatch(add("lesson"))
    (verdict,) = document.node("/").verdicts
    assert verdict.ok is None and "titles_of_lessons_differ" in verdict.message
    assert document.pending() == {"/": ("rules[0]",)}


def test_what_was_done_under_an_id_is_answered_again() -> None:
    document = Document(BLUEPRINT, {"topic": "Light"})
    first = document.dispatch(add("lesson"), command_id="1")
    document.dispatch(set_props("/lesson-1", minutes=5))
    again = document.dispatch(add("lesson"), command_id="1")
    assert (again.version, again.made, again.steps) == (first.version, first.made, ())
    assert again.state is document.state and document.counts.pending == 2


def test_a_refused_command_leaves_the_document_as_it_is() -> None:
    document = Document(BLUEPRINT, {"topic": "Light"})
    state, history = document.state, list(document.history)
    with pytest.raises(DispatchRefused):
        document.dispatch([add("lesson"), set_props("/lesson-1", minutes="x")])
    assert document.state is state and list(document.history) == history


def test_metadata_for_which_there_is_no_place_is_refused() -> None:
    with pytest.raises(DispatchRefused, match=r'did you mean "metadata\.topic"'):
        Document(BLUEPRINT, {"topi": "Light"})


def test_a_past_version_is_as_it_was_then() -> None:
    document = Document(BLUEPRINT, {"topic": "Light"}, clock=lambda: NOON)
    states = [document.state]
    for command in (
        add("lesson"),
        add("activity", "/lesson-1"),
        set_props("/lesson-1", minutes=5),
        remove("/lesson-1"),
    ):
        states.append(document.dispatch(command).state)
    document.undo()
    assert [document.at(state.version) for state in states] == states
    assert document.at(document.state.version) == document.state
    (differs,) = document.diff(3, 4).nodes
    assert differs.path == "/lesson-1" and differs.fields["props.minutes"] == (None, 5)
    for version in (0, 7):
        with pytest.raises(ValueError, match="versions 1 to 6"):
            document.at(version)


def test_an_export_makes_the_same_document_again() -> None:
    document = Document(BLUEPRINT, {"topic": "Light", "grade": 9}, "Light and leaves")
    document.dispatch([add("lesson", metadata={"focus": "Light"}), add("lesson"), remove("/lesson-1"), add("part")])
    document.dispatch([set_props("/lesson-2", minutes=40), add("lesson", "/part-1")], by="chat")
    document.dispatch(Accept(node="/", fields=(CHILDREN,)))
    again = Document.of_export(BLUEPRINT, document.export("json"))

    def told(one: Document) -> list[object]:
        nodes = json.loads(one.export("json"))["nodes"]
        return [[node["path"], node["metadata"], node["props"], node["status"], node["summary"]] for node in nodes]

    assert told(again) == told(document) and again.state.title == "Light and leaves"
    held = {name for name, one in again.state.root.provenance.items() if one.held}
    assert held == {"metadata.topic", "metadata.grade", CHILDREN}
    assert again.node("/lesson-2").provenance["props.minutes"].by == "import"
    assert again.dispatch(add("lesson")).made == ("/lesson-3",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "no list `nodes`"),
        ('{"nodes": [{"path": "lesson-1"}]}', "nodes.0.path"),
        ('{"nodes": [{"path": "/lesson-x"}]}', "no key of a node"),
        ('{"nodes": [{"path": "/lesson-1", "component": "part"}]}', "no key of a node"),
        ('{"nodes": [{"path": "/lesson-1/activity-1"}]}', "there is no node"),
        ('{"nodes": [{"path": "/lesson-1"}, {"path": "/lesson-1"}]}', "is there twice"),
        ('{"nodes": [{"path": "/chapter-1"}]}', "a course has no child 'chapter'"),
        ('{"nodes": [{"path": "/", "props": {"titel": "Light"}}]}', 'did you mean "props.title"'),
        ("{", "Expecting property name"),
    ],
)
def test_what_is_no_export_is_refused_with_a_sentence(text: str, said: str) -> None:
    with pytest.raises((ValueError, DispatchRefused)) as caught:
        Document.of_export(BLUEPRINT, text)
    assert said in str(caught.value)


def test_a_document_that_nobody_named_is_named_after_its_metadata() -> None:
    assert Document(BLUEPRINT, {"topic": "Light"}).state.title == "Light"
    assert Document(BLUEPRINT).state.title == "course"
    document = Document(BLUEPRINT)
    document.dispatch(set_metadata("/", topic="Light"))
    assert document.state.title == "course"


def test_a_default_names_no_document() -> None:
    audience = {"type": "text", "default": "everybody"}
    root = {"metadata": {"audience": audience, "topic": {"type": "text"}}}
    blueprint = Blueprint.load({"blueprint": "shop", "root": "shop", "components": {"shop": root}})
    assert Document(blueprint).state.title == "shop"
    assert Document(blueprint, metadata={"topic": "Lamps"}).state.title == "Lamps"
