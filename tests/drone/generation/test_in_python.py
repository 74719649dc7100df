"""The Python API of documents: blueprint, functions, changes, a generation, and `run_subagent`."""

import subprocess
import sys
from pathlib import Path

from drone.generation import generate, run_subagent
from drone.models.offline import OfflineModel
from drone.models.scripted import Line, ScriptedModel, call
from mcc.documents import Blueprint, Document, ReadOnlyNode, function

COURSE = """
blueprint: course
root: course
components:
  course:
    metadata: {topic: {type: text, required: true, min_length: 3}}
    properties:
      title: {type: text, required: true, min_length: 5, max_length: 80}
    rules: [{function: lesson_titles_differ}]
    children: {lesson: {min: 2, max: 8}}
  lesson:
    metadata: {focus: {type: text, required: true}}
    properties: {title: {type: text, required: true, min_length: 5}}
"""


@function("lesson_titles_differ")
def lesson_titles_differ(node: ReadOnlyNode) -> str | None:
    titles = [child.props["title"] for child in node.children if child.props["title"]]
    return None if len(set(titles)) == len(titles) else "Two lessons have one title."


async def test_a_document_is_made_without_broker_and_database(tmp_path: Path) -> None:
    (tmp_path / "course.yaml").write_text(COURSE)
    blueprint = Blueprint.load(str(tmp_path / "course.yaml"))
    document = Document(blueprint, metadata={"topic": "Photosynthesis"})
    change = document.dispatch({"command": "add_child", "node": "/", "component": "lesson"}, by="person")
    assert change.made == ("/lesson-1",)
    model = OfflineModel()
    report = await generate(document, model=model, concurrency=8, on_failure="collect", nodes=[])
    assert report.ok, report.error
    assert report.failed == () and report.counts.done == len(document.state.nodes)
    assert report.usage.model_calls > 3 and report.usage.tool_calls > 3
    assert report.record is not None and report.usage == report.record.usage_total
    assert document.node("/lesson-1").verdicts and not document.pending() and not document.stale()
    made, nodes = document.node("/lesson-1"), len(document.state.nodes)
    document.undo()
    assert len(document.state.nodes) < nodes
    document.redo()
    assert len(document.state.nodes) == nodes and document.node("/lesson-1").props == made.props
    assert not document.pending()
    assert "Photosynthesis" in document.export("md")


async def test_a_person_changes_what_was_made_and_just_that_is_made_anew() -> None:
    document = Document(Blueprint.load("course"), metadata={"topic": "Photosynthesis"})
    model = OfflineModel()
    assert (await generate(document, model=model)).ok
    document.dispatch({"command": "set_metadata", "node": "/lesson-1", "values": {"focus": "Stomata"}})
    stale = set(document.stale())
    assert stale and all(path.startswith("/lesson-1") for path in stale)
    report = await generate(document, model=model)
    again = {child.node for child in report.record.subagent_history} if report.record else set()
    assert again == stale and report.ok, report.error
    assert document.node("/lesson-1").metadata["focus"] == "Stomata"


async def test_one_agent_works_by_itself_until_its_check_passes() -> None:
    found: list[str] = []

    def note(text: str) -> str:
        """Write a note."""
        found.append(text)
        return "Noted."

    model = ScriptedModel([Line(calls=(call("note", text="Light"), call("done", summary="Noted.")))])
    text = await run_subagent(model, "You take notes.", [note], lambda: [] if found else ["Nothing."], "Note it.", 50)
    assert (text, found) == ("Noted.", ["Light"])


def test_nothing_of_a_service_is_loaded_for_it() -> None:
    code = (
        "import sys, mcc.documents, drone.generation; drone.generation.generate; drone.generation.run_subagent\n"
        "print(sorted({'celery', 'redis', 'sqlalchemy', 'fastapi'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


async def test_what_a_person_gave_a_node_before_it_was_made_is_in_no_conflict_with_what_is_made_above_it() -> None:
    document = Document(Blueprint.load("course"), metadata={"topic": "Photosynthesis"})
    lesson = {"command": "add_child", "node": "/", "component": "lesson", "metadata": {"focus": "Stomata"}}
    document.dispatch(lesson)
    assert (await generate(document, model=OfflineModel())).ok
    assert document.counts.conflicts == 0 and not document.stale()
    document.dispatch({"command": "set_metadata", "node": "/", "values": {"grade": 9}})
    assert "metadata.focus" in document.state.find("/lesson-1").conflicts
