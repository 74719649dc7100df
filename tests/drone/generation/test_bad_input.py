"""Lost, deep and wide documents, and agents that conflict: each generation ends properly."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Turn
from drone.generation.library import _hiring, generate
from drone.generation.orchestrator import GenerationTask, Orchestrator
from drone.generation.port import DocumentLost, MemoryDocuments
from drone.generation.results import Generated
from drone.library import toolset
from drone.models.scripted import Line, Said, call
from mcc.contracts.entry import Origin
from mcc.contracts.generation import LIMITS
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.documents.change import Author, Change
from mcc.documents.commands import Command
from mcc.documents.state import DocumentState
from tests.drone.generation.holding import Document
from tests.drone.generation.world import Node, course, diligent, done, played


class Losing(MemoryDocuments):
    """A document that is lost after a number of reads and changes."""

    left = 10**6

    def _look(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise DocumentLost("the document was deleted")

    async def state(self) -> DocumentState:
        self._look()
        return await super().state()

    async def dispatch(self, origin: Origin, commands: Sequence[Command], author: Author, command_id: str) -> Change:
        self._look()
        return await super().dispatch(origin, commands, author, command_id)


async def lost_after(looks: int, play: Callable[[Node], Said] = diligent) -> tuple[Generated, MemoryJournal]:
    document, journal = Document(course()), MemoryJournal(fresh_id())
    limits = Limits.model_validate({**LIMITS, "concurrency": 4})
    turn = Turn.begun(journal, Budget(limits))
    documents = Losing(document, turn.journal, {})
    documents.left = looks
    hire = _hiring(played(play), toolset(None), limits)
    return await Orchestrator(documents, turn, hire, GenerationTask(journal.order_id)).run(), journal


@pytest.mark.parametrize("looks", [*range(0, 40, 3)])
async def test_a_document_that_is_deleted_meanwhile_ends_its_order_with_a_sentence(looks: int) -> None:
    generated, journal = await lost_after(looks)
    outcome = generated.outcome()
    assert (outcome.status, outcome.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
    assert outcome.detail == "The document was deleted."
    record = journal.fold.record()
    if record is not None:
        assert record.finished_at is not None
        assert all(child.finished_at is not None for child in record.subagent_history), "nothing stays open"


DEEP = """
blueprint: deep
root: part
components:
  part:
    properties: {title: {type: text, required: true}}
    children: {part: {max: 1}}
"""


async def test_a_document_may_have_a_hundred_levels_and_no_more() -> None:
    def play(node: Node) -> Said:
        made = [call("add_child", component="part")] if not node.has_children else []
        return done(call("set_value", values={"title": "A part"}), *made)

    document = Document(course(DEEP))
    report = await generate(document, model=played(play, keep_asks=False))
    assert report.ok, report.error
    assert max(path.count("/") for path in document.statuses) == 99
    record = report.record
    assert record is not None and {child.depth for child in record.subagent_history} == {1}


async def test_many_children_of_one_node_queue_for_their_places() -> None:
    text = DEEP.replace("max: 1", "max: 2000")
    at_work, most = 0, 0

    async def play(node: Node) -> Said:
        nonlocal at_work, most
        at_work, most = at_work + 1, max(most, at_work + 1)
        await asyncio.sleep(0)
        at_work -= 1
        made = [call("add_child", component="part") for _ in range(300)] if node.path == "/" else []
        return done(call("set_value", values={"title": "A part"}), *made)

    document = Document(course(text))
    report = await generate(document, model=played(play, keep_asks=False), concurrency=20)  # type: ignore[arg-type]
    assert report.ok, report.error
    assert report.counts.done == 301 and most == 20


async def test_two_generations_of_one_document_lose_nothing() -> None:
    document = Document(course())

    async def play(node: Node) -> Said:
        await asyncio.sleep(0)
        return diligent(node)

    both = await asyncio.gather(*(generate(document, model=played(play)) for _ in range(2)))  # type: ignore[arg-type]
    assert set(document.statuses.values()) == {"done"}, [report.error for report in both]


async def test_a_node_that_a_person_takes_away_meanwhile_is_no_failure() -> None:
    document = Document(course())

    def play(node: Node) -> Said:
        if node.path == "/lesson-3":
            document.dispatch({"command": "remove_child", "node": "/lesson-3"})
        return diligent(node, lessons=3)

    report = await generate(document, model=played(play))
    assert report.ok, report.error
    assert [path for path in document.statuses if path.count("/") == 1] == ["/", "/lesson-1", "/lesson-2"]


PROVED = """
blueprint: proved
root: page
components:
  page:
    metadata: {topic: {type: text, required: true}}
    properties:
      title: {type: text, required: true}
      source: {type: text, rules: [{evidence: 'receipts.exists(r, r.tool == "read_file")', message: Read it.}]}
"""


async def cut_off_after(**values: str) -> Document:
    """A document whose agent set these values and was interrupted before its gate."""
    document, is_set = Document(course(PROVED), metadata={"topic": "Light"}), asyncio.Event()

    async def play(node: Node) -> Said:
        if node.replies:
            is_set.set()
            await asyncio.Event().wait()
        return Line(calls=(call("set_value", values=values),))

    working = asyncio.create_task(generate(document, model=played(play)))  # type: ignore[arg-type]
    await is_set.wait()
    working.cancel()
    await asyncio.wait({working})
    return document


async def test_what_an_agent_that_was_cut_off_cited_is_no_pass_before_it_is_proved() -> None:
    document = await cut_off_after(title="Light", source="invented.py")
    assert document.status("/") == "pending"
    report = await generate(document, model=played(lambda node: done()))
    assert report.failed == ("/",)
    accepted = await cut_off_after(title="Light", source="invented.py")
    accepted.dispatch({"command": "accept", "node": "/"})
    assert accepted.status("/") == "done", "a person vouches for it"


async def test_an_agent_that_was_cut_off_leaves_its_node_stale_when_it_would_be_asked_something_else() -> None:
    document = await cut_off_after(title="Light")
    assert document.status("/") == "done"
    document.dispatch({"command": "set_metadata", "node": "/", "values": {"topic": "Shadows"}})
    assert document.status("/") == "stale"
    document.dispatch({"command": "set_metadata", "node": "/", "values": {"topic": "Light"}})
    assert document.status("/") == "done"
