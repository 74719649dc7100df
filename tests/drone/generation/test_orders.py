"""Orders on documents with a real crew: a generation with models, tools and limits, and a chat."""

import json
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.generation.port import MemoryDocuments
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.order_context import OrderContext
from drone.settings import Settings
from mcc.configuration.trust import TrustStore
from mcc.contracts.fence import unfenced
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted, DocumentChanged, ToolFinished
from mcc.contracts.order import NewOrder, OrderOutcome, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.transcript.opening import NO_OPENING, SessionOpening
from tests.drone.generation.holding import Document
from tests.drone.generation.world import COURSE, Node, course, diligent, done, played
from tests.parity.world import OneModel

SOURCED = """
blueprint: design
root: design
components:
  design:
    properties:
      source:
        type: text
        required: true
        rules:
          - evidence: 'value == null || receipts.exists(r, r.ok && r.tool == "read_file" && r.path == value)'
            message: Name a file that you read.
    agent: {tools: [workspace_read]}
"""


class Service:
    """A drone without a service, for one order on one document."""

    def __init__(self, folder: Path, document: Document, model: ScriptedModel, names: tuple[str, ...] = ()) -> None:
        self.folder, self.document, self.model = folder, document, model
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "a.py").write_text("A = 1\n")
        settings = Settings(workspace_roots=(str(self.workspace),))
        trust = TrustStore(folder / "configuration" / "trust.json")
        self.crew = Crew(settings, Definitions.load(), OneModel(model, names), trust=trust)

    async def run(self, session: SessionOpening = NO_OPENING, **asked: Any) -> OrderOutcome:
        order = order_of(self.document, **asked)
        self.journal = MemoryJournal(order.id)
        documents = MemoryDocuments(self.document, self.journal, {})
        return await self.crew.run(order, OrderContext(self.journal, session=session, documents=documents))

    def facts(self, kind: type) -> list[Any]:
        return [one.data for one in self.journal.entries if isinstance(one.data, kind)]


def order_of(document: Document, **asked: Any) -> WorkOrder:
    new = NewOrder.model_validate({"kind": "generate", "prompt": "", "document_id": document.state.id, **asked})
    session_id = new.document_id if new.kind == "generate" else fresh_id()
    kept = {"id": fresh_id(), "session_id": session_id, "session_seq": 1, "status": "running", "created_at": now()}
    return WorkOrder.model_validate({**new.model_dump(exclude={"session_id"}), **kept})


async def test_an_order_generates_its_document(tmp_path: Path) -> None:
    service = Service(tmp_path, Document(course()), played())
    outcome = await service.run(prompt="For beginners.")
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    assert outcome.answer == "5 nodes done." and outcome.accepted is True
    assert outcome.result["counts"]["done"] == 5
    assert service.document.state.brief == "For beginners."
    assert {fact.by for fact in service.facts(DocumentChanged)} == {"agent", "metadata_agent"}


async def test_a_model_that_a_component_names_is_asked_and_one_that_is_unknown_is_said(tmp_path: Path) -> None:
    text = COURSE.replace("agent: {max_turns: 6}", "agent: {max_turns: 6, model: clever}")
    service = Service(tmp_path, Document(course(text)), played(), names=("clever",))
    assert (await service.run()).status is OrderStatus.SUCCEEDED
    asked = {fact.node: fact.model.requested for fact in service.facts(AgentStarted) if fact.model}
    assert asked["/lesson-1"] == "clever" and asked["/"] == "inherit"
    (tmp_path / "other").mkdir()
    other = Service(tmp_path / "other", Document(course(text)), played())
    outcome = await other.run()
    assert outcome.reason is FailureReason.INVALID
    assert "There is no model 'clever'." in (outcome.detail or "")


async def test_evidence_is_what_the_tools_really_read(tmp_path: Path) -> None:
    def play(node: Node) -> Said:
        claim = call("set_value", values={"source": "a.py"})
        steps = (
            Line(calls=(claim, call("done"))),
            Line(calls=(call("read_file", path="a.py"),)),
            Line(calls=(call("done", summary="From a.py."),)),
        )
        return steps[node.replies]

    service = Service(tmp_path, Document(course(SOURCED)), played(play))
    outcome = await service.run(workspace=str(service.workspace))
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    first, last = (json.loads(one.content) for one in service.facts(ToolFinished) if one.name == "done")
    assert [error["message"] for error in first["errors"]] == ["Name a file that you read."]
    assert last["ok"] is True
    (verdict,) = [one for one in service.document.node("/").verdicts if one.kind == "evidence"]
    assert verdict.ok is True, "it stays with the value"


async def test_an_invented_source_is_never_done(tmp_path: Path) -> None:
    invented = played(lambda node: done(call("set_value", values={"source": "invented.py"})))
    service = Service(tmp_path, Document(course(SOURCED)), invented)
    outcome = await service.run(workspace=str(service.workspace))
    assert outcome.reason is FailureReason.GATE_FAILED
    assert service.document.status("/") == "failed"
    (verdict,) = [one for one in service.document.node("/").verdicts if one.kind == "evidence"]
    assert verdict.ok is False


async def test_agents_of_nodes_have_the_reading_tools_of_their_component_and_no_other(tmp_path: Path) -> None:
    model = played(lambda node: done(call("set_value", values={"source": "a.py"})))
    service = Service(tmp_path, Document(course(SOURCED)), model)
    await service.run(workspace=str(service.workspace))
    names = {spec.name for ask in model.asks for spec in ask.tools}
    assert {"read_file", "list_files", "set_value", "done"} <= names
    assert names.isdisjoint({"subagent", "subagents_run", "git_log", "environment_detect"})


def chat(*lines: Said) -> ScriptedModel:
    return ScriptedModel(lines)


async def test_a_chat_reads_and_changes_the_same_document(tmp_path: Path) -> None:
    document = Document(course())
    model = chat(
        Line(calls=(call("read_document"), call("describe_component", component="lesson"))),
        Line(calls=(call("set_metadata", node="/", values={"topic": "Shadows"}),)),
        Line(calls=(call("add_child", node="/", component="lesson", metadata={"focus": "Noon"}),)),
        "It is about shadows now.",
    )
    service = Service(tmp_path, document, model)
    outcome = await service.run(kind="chat", prompt="Make it about shadows.")
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    assert document.node("/").metadata["topic"] == "Shadows"
    assert document.node("/lesson-1").metadata["focus"] == "Noon"
    assert [(fact.command, fact.by) for fact in service.facts(DocumentChanged)] == [
        ("set_metadata", "chat"),
        ("add_child", "chat"),
    ]
    read = next(one for one in service.facts(ToolFinished) if one.name == "read_document")
    assert json.loads(unfenced(read.content))["nodes"][0]["path"] == "/"


async def test_a_chat_is_told_of_its_document_and_may_delegate(tmp_path: Path) -> None:
    asks: list[Ask] = []

    def say(ask: Ask) -> Said:
        asks.append(ask)
        return "Fine."

    document = Document(course(), {"topic": "Light"})
    await Service(tmp_path, document, ScriptedModel(say)).run(kind="chat", prompt="How is it?")
    first = asks[0].messages[0].text  # type: ignore[union-attr]
    assert "made after the blueprint course" in first and "Course on Light, grade 7." in first
    names = {spec.name for spec in asks[0].tools}
    assert {"read_document", "describe_component", "set_value", "subagents_run"} <= names


async def test_what_a_chat_does_wrong_it_is_told(tmp_path: Path) -> None:
    model = chat(
        Line(
            calls=(
                call("read_document", node="/lesson-7"),
                call("read_document", depth=-1),
                call("describe_component", component="lesso"),
                call("set_value", node="/", values={"titel": "x"}),
                call("undo"),
            )
        ),
        "So be it.",
    )
    service = Service(tmp_path, Document(course()), model)
    await service.run(kind="chat", prompt="Try.")
    assert [one.is_error for one in service.facts(ToolFinished)] == [True] * 5


async def test_generator_chat_and_person_are_told_apart_in_one_history(tmp_path: Path) -> None:
    document = Document(course(), {"topic": "Light"})
    service = Service(tmp_path, document, played())
    await service.run()
    document.dispatch({"command": "set_value", "node": "/lesson-1", "values": {"minutes": 30}})
    service.crew = Service(make(tmp_path / "chat"), document, chat(Line(calls=(SET,)), "Done.")).crew
    await service.run(kind="chat", prompt="Longer.")
    by = [step.by for step in document.history if step.command == "set_value" and step.node == "/lesson-1"]
    assert by == ["agent", "person", "chat"]


SET = call("set_value", node="/lesson-1", values={"minutes": 60})


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def test_without_a_document_a_generation_cannot_be(tmp_path: Path) -> None:
    service = Service(tmp_path, Document(course()), played(diligent))
    order = order_of(service.document)
    outcome = await service.crew.run(order, OrderContext(MemoryJournal(order.id)))
    assert outcome.reason is FailureReason.INVALID
