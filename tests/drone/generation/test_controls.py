"""Controls of a running generation: pause, steer and cancel single nodes and the whole."""

import asyncio
from collections.abc import Awaitable, Callable

from drone.agent.control.control_router import ASKS_NO_MODEL, ControlRouter
from drone.agent.control.idle_watch import IdleWatch
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.turns.turn import Steering, Turn
from drone.generation.library import _hiring
from drone.generation.orchestrator import GenerationTask, Orchestrator
from drone.generation.port import MemoryDocuments
from drone.generation.results import Generated
from drone.library import toolset
from drone.models.scripted import Line, Said, call
from mcc.contracts.generation import LIMITS, Generation
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted
from mcc.contracts.limits import Limits
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import UserMessage
from tests.drone.generation.holding import Document
from tests.drone.generation.world import Node, course, diligent, played


class Running:
    """A running generation with its control router."""

    def __init__(
        self,
        document: Document,
        model: Model,
        concurrency: int = 8,
        asked: Generation | None = None,
        journal: MemoryJournal | None = None,
    ) -> None:
        self.document = document
        self.journal = journal or MemoryJournal(fresh_id())
        self.idle = IdleWatch(parks=True)
        limits = Limits.model_validate({**LIMITS, "concurrency": concurrency})
        router = ControlRouter(self.journal, idle=self.idle, tree=Tree.of(self.journal.entries))
        self.turn = Turn.begun(self.journal, Budget(limits), router)
        self.steering = Steering(self.turn)
        documents = MemoryDocuments(document, self.turn.journal, {})
        request = GenerationTask(self.journal.order_id, asked or Generation())
        hire = _hiring(model, toolset(None), limits)
        self._orchestrator = Orchestrator(documents, self.turn, hire, request)

    def start(self) -> "asyncio.Task[Generated]":
        return asyncio.create_task(self._orchestrator.run())

    def record(self, path: str) -> str:
        facts = (one for one in self.journal.entries if isinstance(one.data, AgentStarted))
        return next(one.record_id or "" for one in facts if one.data.node == path)  # type: ignore[attr-defined]


class Gated:
    """Diligent agents; those of one node wait until they are released."""

    def __init__(self, path: str, then: Callable[[Node], Said] = diligent) -> None:
        self.path, self.then = path, then
        self.reached, self.may = asyncio.Event(), asyncio.Event()

    async def __call__(self, node: Node) -> Said:
        if node.path == self.path and not node.replies:
            self.reached.set()
            await self.may.wait()
            return Line(calls=(call("validate"),))
        return self.then(node) if node.path == self.path else diligent(node)


def running(play: Callable[[Node], Awaitable[Said]], **more: int) -> Running:
    return Running(Document(course()), played(play), **more)  # type: ignore[arg-type]


async def test_a_message_reaches_the_agent_of_a_node() -> None:
    heard: list[str] = []

    def then(node: Node) -> Said:
        heard.extend(message.text for message in node.ask.messages if isinstance(message, UserMessage))
        return diligent(node)

    gated = Gated("/lesson-2", then)
    run = running(gated)
    task = run.start()
    await gated.reached.wait()
    await run.steering.steer("Speak of shadows.", record_id=run.record("/lesson-2"))
    gated.may.set()
    assert (await task).succeeded
    assert any("Speak of shadows." in text for text in heard)


async def test_the_generator_reads_nothing_and_says_so() -> None:
    gated = Gated("/lesson-2")
    run = running(gated)
    task = run.start()
    await gated.reached.wait()
    for record_id in (None, run.turn.tree.root):
        assert (await run.steering.steer("Hello?", record_id=record_id)).refused == ASKS_NO_MODEL
    gated.may.set()
    assert (await task).succeeded


async def test_a_node_that_is_cancelled_failed_and_others_go_on() -> None:
    gated = Gated("/lesson-2")
    run = running(gated)
    task = run.start()
    await gated.reached.wait()
    await run.steering.cancel(record_id=run.record("/lesson-2"), reason="Not that one.")
    generated = await task
    assert [one.path for one in generated.failed] == ["/lesson-2"]
    failure = run.document.node("/lesson-2").failure
    assert failure is not None and failure.reason == "cancelled"
    assert run.document.status("/lesson-1/activity-1") == "done"


async def test_the_whole_is_cancelled_by_its_root_and_nothing_stays_open() -> None:
    gated = Gated("/lesson-2")
    run = running(gated)
    task = run.start()
    await gated.reached.wait()
    await run.steering.cancel(record_id=run.turn.tree.root, reason="Enough.")
    generated = await task
    assert generated.outcome().status is OrderStatus.CANCELLED
    record = run.journal.fold.record()
    assert record is not None and record.status == "cancelled"
    assert {child.status for child in record.subagent_history} <= {"completed", "cancelled"}
    assert run.document.status("/lesson-2") == "pending", "it was stopped, and has not failed"


async def test_a_paused_generation_begins_no_agent_and_stands_still() -> None:
    gated = Gated("/lesson-2")
    run = running(gated, concurrency=1)
    stands = asyncio.Event()
    run.idle.watch(lambda still: stands.set() if still else None)
    task = run.start()
    await gated.reached.wait()
    await run.steering.pause()
    gated.may.set()
    await stands.wait()
    begun = [one for one in run.journal.entries if isinstance(one.data, AgentStarted)]
    assert {one.data.node for one in begun} <= {None, "/", "/lesson-1", "/lesson-2"}  # type: ignore[attr-defined]
    await run.steering.resume()
    assert (await task).succeeded


async def test_a_paused_node_gives_its_place_to_others() -> None:
    gated, beside = Gated("/lesson-1"), asyncio.Event()

    async def play(node: Node) -> Said:
        if node.path == "/lesson-2/activity-1":
            beside.set()
        return await gated(node)

    run = running(play, concurrency=1)
    task = run.start()
    await gated.reached.wait()
    await run.steering.pause(record_id=run.record("/lesson-1"))
    gated.may.set()
    await beside.wait()
    assert run.document.status("/lesson-1") == "pending"
    await run.steering.resume(record_id=run.record("/lesson-1"))
    assert (await task).succeeded


async def test_what_people_hold_is_left_and_its_agent_is_told() -> None:
    told: list[str] = []

    def play(node: Node) -> Said:
        if node.path == "/lesson-1":
            told.append(node.task)
            if not node.replies:
                return Line(calls=(call("set_value", values={"minutes": 30}),))
            return Line(calls=(call("done"),))
        return diligent(node)

    document = Document(course(), {"topic": "Light"})
    document.dispatch({"command": "set_value", "node": "/", "values": {"title": "All about light"}})
    for focus in ("One", "Two"):
        document.dispatch({"command": "add_child", "node": "/", "component": "lesson", "metadata": {"focus": focus}})
    document.dispatch({"command": "set_value", "node": "/lesson-1", "values": {"minutes": 90}})
    run = Running(document, played(play))
    generated = await run.start()
    assert document.node("/lesson-1").props["minutes"] == 90
    assert "People hold these values" in told[0]
    refusals = [one.data for one in run.journal.entries if getattr(one.data, "is_error", False)]
    assert any("A person holds this value" in fact.content for fact in refusals)  # type: ignore[attr-defined]
    assert [one.path for one in generated.failed] == ["/lesson-1"], "it has no activity"


async def test_what_only_people_could_mend_costs_nothing_and_is_said() -> None:
    document = Document(course())
    await Running(document, played()).start()
    document.dispatch({"command": "set_value", "node": "/lesson-1", "values": {"minutes": 42}})
    model = played()
    generated = await Running(document, model).start()
    assert not [ask for ask in model.asks if "This is the node /lesson-1." in ask.messages[0].text]  # type: ignore[union-attr]
    assert [(one.path, one.why) for one in generated.failed] == [("/lesson-1", "Use steps of five.")]
