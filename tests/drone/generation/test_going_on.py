"""A generation interrupted after any commit is resumed without generating or paying for a node twice."""

from collections import Counter

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.generation.library import GenerationReport, generate
from drone.models.scripted import Line, Said, call
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import AgentStarted, DocumentChanged
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from tests.drone.generation.holding import Document
from tests.drone.generation.world import Node, course, diligent, done, played


def careful(node: Node) -> Said:
    """A model that forgets a value at first and fixes it, with one step per reply."""
    if node.component == "lesson" and not node.is_metadata:
        steps = (
            Line(calls=(call("set_value", values={"minutes": 42}), call("done"))),
            Line(calls=(call("set_value", values={"minutes": 40}), call("add_child", component="activity"))),
            done(summary="A lesson."),
        )
        return steps[node.replies]
    return diligent(node)


class Noted(MemoryJournal):
    """A journal that notes after which entries a drone may be lost: each write is one commit."""

    def __init__(self) -> None:
        super().__init__(fresh_id())
        self.commits: list[int] = []

    async def write(self, origin: Origin, *facts: Fact) -> int:
        self.commits.append(await super().write(origin, *facts))
        return self.commits[-1]


async def whole(journal: MemoryJournal | None = None) -> tuple[Document, GenerationReport]:
    document = Document(course())
    return document, await generate(document, model=played(careful), journal=journal)


def version_after(journal: MemoryJournal, document: Document, entries: int) -> int:
    """The version of the document when the journal had this many entries."""
    told = [one.data.version for one in journal.entries[:entries] if isinstance(one.data, DocumentChanged)]
    return max(told, default=1)


def left_after(journal: MemoryJournal, entries: int) -> MemoryJournal:
    """The journal of a drone that was lost after writing this many entries."""
    left = MemoryJournal(journal.order_id, entries=journal.entries[:entries])
    left.texts.update(journal.texts)
    return left


def begun(journal: MemoryJournal) -> Counter[str | None]:
    return Counter(one.record_id for one in journal.entries if isinstance(one.data, AgentStarted))


def replies(journal: MemoryJournal) -> int:
    return sum(isinstance(one.data, ModelReplied) for one in journal.entries)


async def test_it_goes_on_after_any_commit() -> None:
    noted = Noted()
    document, first = await whole(noted)
    assert first.ok, first.error
    assert noted.commits[-1] == len(noted.entries) and len(noted.commits) > 50
    for cut in noted.commits:
        left = document.at(version_after(first.journal, document, cut))
        journal = left_after(first.journal, cut)
        second = await generate(left, model=played(careful), journal=journal)
        assert second.ok, (cut, second.error)
        assert max(begun(journal).values()) == 1, cut
        assert begun(journal).keys() == begun(first.journal).keys(), cut
        assert replies(journal) == replies(first.journal), cut
        assert left.statuses == document.statuses, cut
        for node in document.state.walk():
            assert left.state.nodes[node.id].props == node.props, (cut, document.state.path(node))


async def test_a_call_that_was_open_is_asked_again_and_no_other() -> None:
    document, first = await whole()
    entries = first.journal.entries
    cut = next(place for place, one in enumerate(entries, start=1) if isinstance(one.data, ModelStarted))
    model = played(careful)
    left = document.at(version_after(first.journal, document, cut))
    await generate(left, model=model, journal=left_after(first.journal, cut))
    assert len(model.asks) == replies(first.journal)


async def test_a_change_whose_entry_was_lost_is_not_made_again() -> None:
    """The document may be ahead of a journal in memory; command ids prevent repeated changes."""
    document, first = await whole()
    changed = [place for place, one in enumerate(first.journal.entries) if isinstance(one.data, DocumentChanged)]
    for cut in changed:
        left = document.at(version_after(first.journal, document, cut + 1))
        journal = left_after(first.journal, cut)
        second = await generate(left, model=played(careful), journal=journal)
        assert second.ok, (cut, second.error)
        assert len(left.statuses) == len(document.statuses), cut


async def test_what_an_agent_was_asked_counts_and_not_what_it_would_be_asked_when_another_drone_ends_its_work() -> None:
    document, first = await whole()
    entries = first.journal.entries
    cut = next(
        place
        for place, one in enumerate(entries, start=1)
        if isinstance(one.data, ModelReplied) and one.agent == "course/lesson"
    )
    left = document.at(version_after(first.journal, document, cut))
    left.dispatch({"command": "set_metadata", "node": "/", "values": {"grade": 9}})
    journal = left_after(first.journal, cut)
    second = await generate(left, model=played(careful), journal=journal)
    begun = [one.data.node for one in entries[:cut] if isinstance(one.data, AgentStarted)]
    started = {node for node in begun if node and node != "/"}
    assert started, "an agent of a lesson had begun"
    for path in started:
        assert left.status(path) == "stale"
    assert second.ok
    assert second.outcome.answer is not None
    assert f"{1 + len(started)} of them stale again" in second.outcome.answer, "the root has been changed as well"


@pytest.mark.parametrize("nodes", [(), ("/",)])
async def test_a_generation_that_is_over_is_not_made_again(nodes: tuple[str, ...]) -> None:
    document, first = await whole()
    before = list(first.journal.entries)
    model = played(careful)
    second = await generate(document, model=model, journal=first.journal, nodes=nodes)
    assert second.ok and not model.asks
    assert first.journal.entries == before
