"""What generating documents costs beside the time of their models, and what a change of a large one costs."""

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from types import MappingProxyType

from benchmarks.workload import table
from drone.agent.journal import MemoryJournal
from drone.agent.messages import UserMessage
from drone.agent.model import Ask
from drone.agent.tree import Tree
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
from mcc.documents.state import State
from mcc.store.resources import tune_collector

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


def book_of_nothing() -> Document:
    return Document(Blueprint.parse(BOOK), metadata={"topic": "Light"})


def agents(sections: int, seconds: float) -> ScriptedModel:
    """Each agent does its work in one reply, which takes so long; chapters have so many sections."""

    def author(ask: Ask) -> Line:
        told = next(message.text for message in ask.messages if isinstance(message, UserMessage))
        path = told.rpartition("This is the node ")[2].partition("\n")[0].rstrip(".")
        again = "# Children that are there" in told
        if path == "/":
            made = [call("add_child", component="chapter", metadata={"about": f"part {n}"}) for n in range(CHAPTERS)]
            calls = [call("set_value", values={"title": "A book"}), *([] if again else made)]
        elif path.count("/") == 1:
            made = [call("add_child", component="section") for _ in range(sections)]
            calls = [call("set_value", values={"title": "A chapter"}), *([] if again else made)]
        else:
            calls = [call("set_value", values={"text": "A text of some words.", "words": 5})]
        return Line(calls=(*calls, call("done", summary="It is done.")), delay_seconds=seconds)

    return ScriptedModel(author, keep_asks=False)


async def made(book: Document, sections: int, seconds: float) -> tuple[GenerationReport, float, float]:
    """The report, and the seconds that it took: by the clock, and of this process."""
    began, cpu = time.perf_counter(), time.process_time()
    report = await generate(book, model=agents(sections, seconds), concurrency=CONCURRENCY)
    if not report.ok:
        raise RuntimeError(report.error)
    return report, time.perf_counter() - began, time.process_time() - cpu


async def beside_the_ideal() -> None:
    """1,000 nodes, 50 at a time, with a model that takes 200 ms: one round for the book, one for its chapters, then
    waves of 50 sections."""
    sections = (1_000 - 1 - CHAPTERS) // CHAPTERS
    nodes = 1 + CHAPTERS + CHAPTERS * sections
    await made(book_of_nothing(), 1, 0.0)  # what is loaded once is loaded
    _, wall, cpu = await made(book_of_nothing(), sections, MODEL_SECONDS)
    ideal = (2 + CHAPTERS * sections / CONCURRENCY) * MODEL_SECONDS
    figures = (f"{wall:.2f} s", f"{ideal:.2f} s", f"{wall / ideal:.2f}", f"{cpu / nodes * 1e3:.2f} ms")
    head = ("nodes", "wall", "ideal", "wall / ideal (≤ 1.3)", "CPU a node")
    table(f"{CONCURRENCY} agents at a time, a model of {MODEL_SECONDS * 1e3:.0f} ms", head, [(f"{nodes:,}", *figures)])


async def one_input_changed() -> Document:
    """10,000 nodes of which one chapter is about something else now: who works again, and who would be asked so."""
    book, sections = await _of(10_000)
    book.dispatch({"command": "set_metadata", "node": "/chapter-3", "values": {"about": "shadows"}})
    chapter = book.state.find("/chapter-3")
    below = {book.state.path(node) for node in book.state.walk(chapter)}
    affected = {book.state.path(book.state.nodes[id]) for id in assessed(book.blueprint, book.state).stale}
    report, wall, _ = await made(book, sections, 0.0)
    again = {one.data.node for one in report.journal.entries if isinstance(one.data, AgentStarted)} - {None}
    nodes = len(book.state.nodes)
    rows = [(f"{nodes:,}", f"{len(below):,}", f"{len(affected):,}", f"{len(again):,}", f"{wall:.1f} s")]
    table("one chapter is about something else", ("nodes", "it and below", "stale", "run again", "wall"), rows)
    if again != affected:
        raise RuntimeError(f"{len(again ^ affected)} nodes ran that are not stale, or did not that are")
    return book


async def _of(size: int) -> tuple[Document, int]:
    """A whole document of about so many nodes, and the sections of each of its chapters."""
    book, sections = book_of_nothing(), (size - 1 - CHAPTERS) // CHAPTERS
    await made(book, sections, 0.0)
    return book, sections


class Kept:
    """A document whose every version can be gone back to, as one in a database whose drone was killed."""

    functions: Functions = MappingProxyType({})

    def __init__(self, changes: Sequence[Change]) -> None:
        self.blueprint = Blueprint.parse(BOOK)
        self._changes = list(changes)

    @property
    def state(self) -> State:
        return self._changes[-1].state

    @property
    def history(self) -> Sequence[Step]:
        return [step for change in self._changes for step in change.steps]

    def take(self, change: Change) -> None:
        self._changes.append(change)

    def left_at(self, version: int) -> "Kept":
        return Kept([change for change in self._changes if change.version <= version])


async def killed(times: int = 100) -> None:
    """A generation whose drone is killed so often, each time after some more entries; the next one goes on."""
    author = Author(by="person", at=now(), principal="someone")
    blueprint = Blueprint.parse(BOOK)
    document = Kept([new_state(blueprint, id=fresh_id(), metadata={"topic": "Light"}, author=author)])
    journal, lost, running = MemoryJournal(fresh_id()), 0, 0
    for kill in range(times):
        journal, document = await _killed_after(journal, document, 11 + kill % 7)
        begun = Tree.of(journal.entries)
        asked = Counter(one.record_id for one in journal.entries if isinstance(one.data, ModelStarted))
        asked.subtract(one.record_id for one in journal.entries if isinstance(one.data, ModelReplied))
        running += len(begun.unfinished)
        lost = asked.total()
    report = await generate(document, model=agents(20, 0.002), concurrency=CONCURRENCY, journal=journal)
    replies = Counter((one.record_id, one.data.round) for one in journal.entries if isinstance(one.data, ModelReplied))
    results = Counter(one.data.call_id for one in journal.entries if isinstance(one.data, ToolFinished))
    if not report.ok or max(replies.values()) > 1 or max(results.values()) > 1:
        raise RuntimeError(f"something was paid twice: {report.error}")
    memory = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB"
    rows = [
        (times, report.counts.done, replies.total(), results.total(), 0, f"{lost} of {running} agents at work", memory)
    ]
    head = ("kills", "nodes", "replies", "tool results", "of them twice", "calls lost", "peak memory")
    table("a drone killed again and again", head, rows)


async def _killed_after(journal: MemoryJournal, document: Kept, entries: int) -> tuple[MemoryJournal, Kept]:
    """The journal with so many entries more, and the document as it was then; what came after it never was."""
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
    left = MemoryJournal(journal.order_id, entries=work.entries[:cut])
    left.texts.update(work.texts)
    versions = [one.data.version for one in left.entries if isinstance(one.data, DocumentChanged)]
    return left, document.left_at(max(versions, default=1))


def _seconds(work: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return median(found)


def validation(*books: Document) -> None:
    """What it costs to judge one node, and to set one value, in documents of several sizes."""
    rows = []
    for book in books:
        node = book.state.find("/chapter-3/section-2")
        values = iter(range(10, 10_000))

        def judged(book: Document = book, id: str = node.id) -> object:
            return judge(book.blueprint, book.state, id, version=book.state.version)

        def set_one(book: Document = book, values: Iterator[int] = values) -> None:
            book.dispatch({"command": "set_value", "node": "/chapter-3/section-2", "values": {"words": next(values)}})

        size = len(book.state.nodes)
        rows.append((f"{size:,}", f"{_seconds(judged, 200) * 1e3:.3f} ms", f"{_seconds(set_one, 50) * 1e3:.2f} ms"))
    table("CPU, in a small document and in a large one", ("nodes", "a node judged", "a value set"), rows)


async def figures() -> None:
    tune_collector()  # as a drone does
    await beside_the_ideal()
    await killed()
    large = await one_input_changed()
    small, _ = await _of(1_000)
    validation(small, large)


def main() -> None:
    asyncio.run(figures())
