"""Generating documents: overhead over the model's time, recovery from kills, and the cost of changing a large one."""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from types import MappingProxyType

from benchmarks.workload import table
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask
from drone.agent.state.tree import Tree
from drone.generation.library import GenerationReport, generate
from drone.models.scripted import Line, ScriptedModel, call
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted, DocumentChanged, ToolFinished
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.shape import now
from mcc.documents import Author, Blueprint, Change, Document, Step
from mcc.documents.beginning import new_state
from mcc.documents.functions import Functions
from mcc.documents.judging import judge
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState
from mcc.resources import tune_collector
from mcc.transcript.messages import UserMessage

MODEL_SECONDS = 0.2
CONCURRENCY = 50
CHAPTERS = 9

BOOK = """
blueprint: book
root: book
components:
  book:
    metadata: {topic: {type: text, required: true}, style: {type: text}}
    properties: {title: {type: text, required: true, min_length: 3}}
    children: {chapter: {min: 1}}
    describe: 'A book on {metadata.topic}.'
  chapter:
    metadata: {about: {type: text, required: true}}
    properties:
      headline: {type: text, bind: '{parent.metadata.topic}: {metadata.about}'}
      title: {type: text, required: true}
    children: {section: {min: 1}}
    describe: 'Chapter {position} on {metadata.about}.'
  section:
    properties:
      text:
        type: text
        required: true
        min_length: 10
        rules: [{cel: value == null || size(value) < 1000, message: Be brief.}]
      words: {type: number, integer: true, required: true, min: 1}
"""


def empty_book() -> Document:
    return Document(Blueprint.parse(BOOK), metadata={"topic": "Light"})


def agents(sections: int, seconds: float) -> ScriptedModel:
    """A model with which each agent finishes in one reply of `seconds`; chapters get `sections` sections."""

    def author(ask: Ask) -> Line:
        task = next(message.text for message in ask.messages if isinstance(message, UserMessage))
        path = task.rpartition("This is the node ")[2].partition("\n")[0].rstrip(".")
        has_children = "# Current children" in task
        if path == "/":
            made = [call("add_child", component="chapter", metadata={"about": f"part {n}"}) for n in range(CHAPTERS)]
            calls = [call("set_value", values={"title": "A book"}), *([] if has_children else made)]
        elif path.count("/") == 1:
            made = [call("add_child", component="section") for _ in range(sections)]
            calls = [call("set_value", values={"title": "A chapter"}), *([] if has_children else made)]
        else:
            calls = [call("set_value", values={"text": "A text of some words.", "words": 5})]
        return Line(calls=(*calls, call("done", summary="It is done.")), delay_seconds=seconds)

    return ScriptedModel(author, keep_asks=False)


async def generated(book: Document, sections: int, seconds: float) -> tuple[GenerationReport, float, float]:
    """Generate the document; answers the report, the wall-clock seconds and this process's seconds of CPU."""
    began, cpu = time.perf_counter(), time.process_time()
    report = await generate(book, model=agents(sections, seconds), concurrency=CONCURRENCY)
    if not report.ok:
        raise RuntimeError(report.error)
    return report, time.perf_counter() - began, time.process_time() - cpu


async def beside_the_ideal() -> None:
    """1,000 nodes, 50 at a time, with a model that takes 200 ms.

    Ideal: one round for the book, one for its chapters, then rounds of 50 sections.
    """
    sections = (1_000 - 1 - CHAPTERS) // CHAPTERS
    nodes = 1 + CHAPTERS + CHAPTERS * sections
    await generated(empty_book(), 1, 0.0)  # Loads everything that is loaded once.
    _, wall, cpu = await generated(empty_book(), sections, MODEL_SECONDS)
    ideal = (2 + CHAPTERS * sections / CONCURRENCY) * MODEL_SECONDS
    figures = (f"{wall:.2f} s", f"{ideal:.2f} s", f"{wall / ideal:.2f}", f"{cpu / nodes * 1e3:.2f} ms")
    head = ("nodes", "wall", "ideal", "wall / ideal (target: <= 1.3)", "CPU per node")
    title = f"Generating a document, {CONCURRENCY} agents at a time, {MODEL_SECONDS * 1e3:.0f} ms a model call"
    table(title, head, [(f"{nodes:,}", *figures)])


async def one_input_changed() -> Document:
    """Change the metadata of one chapter of 10,000 nodes: exactly the nodes that became stale must run again."""
    book, sections = await _book_of(10_000)
    book.dispatch({"command": "set_metadata", "node": "/chapter-3", "values": {"about": "shadows"}})
    chapter = book.state.find("/chapter-3")
    subtree = {book.state.path(node) for node in book.state.walk(chapter)}
    affected = {book.state.path(book.state.nodes[id]) for id in assessed(book.blueprint, book.state).stale}
    report, wall, _ = await generated(book, sections, 0.0)
    rerun = {one.data.node for one in report.journal.entries if isinstance(one.data, AgentStarted)} - {None}
    nodes = len(book.state.nodes)
    rows = [(f"{nodes:,}", f"{len(subtree):,}", f"{len(affected):,}", f"{len(rerun):,}", f"{wall:.1f} s")]
    table("One chapter of a document changed", ("nodes", "in the chapter", "stale", "run again", "wall"), rows)
    if rerun != affected:
        raise RuntimeError(f"{len(rerun ^ affected)} nodes ran without being stale, or were stale and did not run")
    return book


async def _book_of(size: int) -> tuple[Document, int]:
    """A complete document of about `size` nodes, and the number of sections per chapter."""
    book, sections = empty_book(), (size - 1 - CHAPTERS) // CHAPTERS
    await generated(book, sections, 0.0)
    return book, sections


class VersionedDocument:
    """A document that can return to each of its versions, like one in a database after its drone was killed."""

    functions: Functions = MappingProxyType({})

    def __init__(self, changes: Sequence[Change]) -> None:
        self.blueprint = Blueprint.parse(BOOK)
        self._changes = list(changes)

    @property
    def state(self) -> DocumentState:
        return self._changes[-1].state

    @property
    def history(self) -> Sequence[Step]:
        return [step for change in self._changes for step in change.steps]

    def take(self, change: Change) -> None:
        self._changes.append(change)

    def left_at(self, version: int) -> "VersionedDocument":
        return VersionedDocument([change for change in self._changes if change.version <= version])


async def killed(times: int = 100) -> None:
    """A generation whose drone is killed so often, each time after some more entries; the next one goes on."""
    author = Author(by="person", at=now(), principal="someone")
    blueprint = Blueprint.parse(BOOK)
    document = VersionedDocument([new_state(blueprint, id=fresh_id(), metadata={"topic": "Light"}, author=author)])
    journal, lost, running = MemoryJournal(fresh_id()), 0, 0
    for kill in range(times):
        journal, document = await _killed_after(journal, document, 11 + kill % 7)
        tree = Tree.of(journal.entries)
        unanswered = Counter(one.record_id for one in journal.entries if isinstance(one.data, ModelStarted))
        unanswered.subtract(one.record_id for one in journal.entries if isinstance(one.data, ModelReplied))
        running += len(tree.unfinished)
        lost = unanswered.total()
    report = await generate(document, model=agents(20, 0.002), concurrency=CONCURRENCY, journal=journal)
    replies = Counter((one.record_id, one.data.round) for one in journal.entries if isinstance(one.data, ModelReplied))
    results = Counter(one.data.call_id for one in journal.entries if isinstance(one.data, ToolFinished))
    if not report.ok or max(replies.values()) > 1 or max(results.values()) > 1:
        raise RuntimeError(f"a model or tool call was paid for twice: {report.error}")
    memory = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"
    rows = [
        (times, report.counts.done, replies.total(), results.total(), 0, f"{lost} of {running} running agents", memory)
    ]
    head = ("kills", "nodes", "replies", "tool results", "paid twice", "calls lost", "peak memory")
    table("Generation with repeated kills of the drone", head, rows)


async def _killed_after(
    journal: MemoryJournal, document: VersionedDocument, entries: int
) -> tuple[MemoryJournal, VersionedDocument]:
    """Generate until `entries` more entries are written; answers journal and document as of the last of them."""
    reached, cut = asyncio.Event(), len(journal.entries) + entries
    work = MemoryJournal(
        journal.order_id,
        entries=journal.entries,
        watch=lambda entry: reached.set() if entry.seq >= cut else None,
    )
    work.texts.update(journal.texts)
    task = asyncio.create_task(generate(document, model=agents(20, 0.002), concurrency=CONCURRENCY, journal=work))
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    for one in (task, waiting):
        one.cancel()
    await asyncio.wait({task, waiting})
    kept = MemoryJournal(journal.order_id, entries=work.entries[:cut])
    kept.texts.update(work.texts)
    versions = [one.data.version for one in kept.entries if isinstance(one.data, DocumentChanged)]
    return kept, document.left_at(max(versions, default=1))


def _seconds(work: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return median(found)


def validation(*books: Document) -> None:
    """CPU of validating one node and of setting one value, in documents of several sizes."""
    rows = []
    for book in books:
        node = book.state.find("/chapter-3/section-2")
        values = iter(range(10, 10_000))

        def judge_one(book: Document = book, id: str = node.id) -> object:
            return judge(book.blueprint, book.state, id, version=book.state.version)

        def set_one(book: Document = book, values: Iterator[int] = values) -> None:
            book.dispatch({"command": "set_value", "node": "/chapter-3/section-2", "values": {"words": next(values)}})

        size = len(book.state.nodes)
        rows.append((f"{size:,}", f"{_seconds(judge_one, 200) * 1e3:.3f} ms", f"{_seconds(set_one, 50) * 1e3:.2f} ms"))
    table("CPU in a small and in a large document", ("nodes", "validating a node", "setting a value"), rows)


async def figures() -> None:
    tune_collector()  # As a drone does.
    await beside_the_ideal()
    await killed()
    large = await one_input_changed()
    small, _ = await _book_of(1_000)
    validation(small, large)


def main() -> None:
    asyncio.run(figures())
