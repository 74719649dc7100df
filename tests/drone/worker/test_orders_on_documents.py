"""Orders on documents of the store: generated, taken over by another drone, talked about, deleted meanwhile."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from drone.agent.ports.journal import Fenced
from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.generation.port import DocumentLost
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.settings import Settings
from drone.worker.executions import Stop
from drone.worker.order_ports import OrderDocuments
from mcc.contracts.callers import Actor
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStarted, AgentStep, DocumentChanged
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.documents.change import Author, DispatchRefused
from mcc.documents.commands import SetMetadata, commands_of
from mcc.store.store import Store
from tests.drone.generation.world import Node, Play, course, diligent, played
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel

ROOT = {"command": "set_value", "node": "/", "values": {"title": "All about light"}}


class StuckAfter(ScriptedModel):
    """Answers so many times, then never again."""

    def __init__(self, replies: int) -> None:
        super().__init__(self._until_stuck)
        self.reached = asyncio.Event()
        self._left = replies

    async def _until_stuck(self, ask: Ask) -> Said:
        self._left -= 1
        if self._left < 0:
            self.reached.set()
            await asyncio.Event().wait()
        return diligent(Node(ask))


class Press(Bench):
    """A drone whose model plays the agents of nodes."""

    def __init__(self, play: Play | ScriptedModel = diligent, store: Store | None = None) -> None:
        self.model = play if isinstance(play, ScriptedModel) else played(play)
        settings = Settings()
        models: Any = OneModel(self.model)
        super().__init__(store, crew=Crew(settings, Definitions.load(settings.prompts_dir), models))

    def ordered(self, **asked: Any) -> WorkOrder:
        new = NewOrder.model_validate({"kind": "generate", **({} if "document_id" in asked else NAMED), **asked})
        blueprint = None if new.document_id else course()
        return self.store.orders.place(new, by=Actor("someone"), blueprint=blueprint).order

    async def done(self, order: WorkOrder) -> WorkOrder:
        assert await self.runner.work(order.id) is not None
        return self.store.orders.get(order.id)

    def facts(self, order: WorkOrder, kind: type) -> list[Any]:
        return [entry.data for entry in self.journal(order.id) if isinstance(entry.data, kind)]

    async def opened(self, order: WorkOrder) -> OrderDocuments:
        """The order's document, opened by a drone that claims the order now."""
        claim = self.claim(order)
        journal = self.writer.open(order.id, claim.epoch, self.fold(order.id))
        return await OrderDocuments.opened(self.async_store, journal, order.document_id or "", {})


NAMED = {"blueprint": "course", "generation": {"metadata": {"topic": "Light"}}}


def author(order: WorkOrder) -> Author:
    return Author(by="agent", at=now(), order_id=order.id, record_id=root_record_id(order.id))


async def test_an_order_generates_its_document_and_reports_each_change() -> None:
    async with Press() as press:
        order = await press.done(press.ordered(prompt="For beginners."))
        assert order.status is OrderStatus.SUCCEEDED, order.detail
        found = press.store.documents.summary(order.document_id or "")
        assert (found.status, found.counts.done, found.order_id) == ("done", 5, None)
        assert press.store.documents.state(found.id).brief == "For beginners."
        told = press.facts(order, DocumentChanged)
        items = press.store.documents.history(found.id, limit=200).items
        assert [(fact.version, fact.command, fact.node) for fact in reversed(told)] == [
            (item.version, item.command, item.node) for item in items if item.by in ("agent", "metadata_agent")
        ]
        assert len(told) > 10


async def test_another_drone_resumes_a_generation_and_generates_no_node_twice() -> None:
    async with Press() as whole:
        order = await whole.done(whole.ordered())
        replies = len(whole.facts(order, ModelReplied))
        values = [node.props for node in whole.store.documents.state(order.document_id or "").walk()]
    for cut in range(replies):
        async with Press(stuck := StuckAfter(cut)) as first, Press(store=first.store) as second:
            order = first.ordered()
            working = asyncio.create_task(first.runner.work(order.id))
            await asyncio.wait_for(stuck.reached.wait(), 10)
            for run in first.executions:
                run.halt(Stop.HAND_BACK)
            await working
            held = [(claim.order.id, claim.epoch) for claim in first.executions.to_hand_back()]
            first.store.claims.hand_back(held, drone="d1", message="bye")
            done = await second.done(order)
            assert done.status is OrderStatus.SUCCEEDED, (cut, done.detail)
            assert max(Counter(entry.record_id for entry in second.journal(order.id) if is_start(entry)).values()) == 1
            assert len(second.facts(order, ModelReplied)) == replies
            assert [node.props for node in second.store.documents.state(order.document_id or "").walk()] == values


def is_start(entry: Any) -> bool:
    return isinstance(entry.data, AgentStarted)


async def test_a_committed_change_whose_answer_was_lost_is_answered_to_the_next_drone() -> None:
    async with Press() as first, Press(store=first.store) as second:
        order = first.ordered()
        documents = await first.opened(order)
        made = await documents.dispatch(Origin(record_id=None), commands_of(ROOT), author(order), "call")
        first.store.claims.hand_back([(order.id, 1)], drone="d1", message="bye")
        again = await (await second.opened(order)).dispatch(
            Origin(record_id=None), commands_of(ROOT), author(order), "call"
        )
        assert (again.version, again.changed, again.steps) == (made.version, made.changed, ())
        assert len(second.facts(order, DocumentChanged)) == 1
        with pytest.raises(Fenced):
            await documents.dispatch(Origin(record_id=None), commands_of(ROOT), author(order), "another")
        with pytest.raises(Fenced):
            await documents.state()
        assert second.store.documents.summary(order.document_id or "").version == made.version


async def test_entries_queued_before_a_change_are_numbered_before_it_and_a_refusal_leaves_no_gap() -> None:
    async with Press() as press:
        order = press.ordered()
        claim = press.claim(order)
        journal = press.writer.open(order.id, claim.epoch, press.fold(order.id))
        documents = await OrderDocuments.opened(press.async_store, journal, order.document_id or "", {})
        origin = Origin(record_id=None)
        wrong = commands_of({**ROOT, "values": {"titel": "x"}})
        journal.defer(origin, AgentStep(name="owed", message="before all"))
        answers = await asyncio.gather(
            documents.dispatch(origin, commands_of(ROOT), author(order), "call-1"),
            journal.write(origin, AgentStep(name="note", message="between")),
            documents.dispatch(origin, wrong, author(order), "call-2"),
            journal.write(origin, AgentStep(name="note", message="after")),
            return_exceptions=True,
        )
        assert isinstance(answers[2], DispatchRefused)
        assert press.kinds(order.id)[2:] == ["agent.step", "document.changed", "agent.step", "agent.step"]
        assert (answers[1], answers[3], journal.last_seq) == (5, 6, 6)
        assert [hint.seq for hint in press.publisher.hints][-1] == 6


async def test_a_person_changes_the_document_while_it_is_generated_and_is_not_overwritten() -> None:
    changed: list[int] = []

    def play(node: Node) -> Said:
        if node.path == "/lesson-1" and not node.is_metadata and not changed:
            person = Author(by="person", at=now(), principal="ann")
            given = {"command": "set_value", "node": "/lesson-1", "values": {"minutes": 20}}
            changed.append(press.store.documents.dispatch(order.document_id or "", commands_of(given), person).version)
        return diligent(node)

    async with Press(play) as press:
        order = press.ordered()
        await press.done(order)
        state = press.store.documents.state(order.document_id or "")
        assert state.find("/lesson-1").props["minutes"] == 20
        assert changed


async def test_a_document_that_is_deleted_while_it_is_generated_ends_its_order_with_a_sentence() -> None:
    def play(node: Node) -> Said:
        if node.path == "/lesson-1":
            connection = press.store.database
            connection.write(
                lambda one: one.exec_driver_sql("UPDATE documents SET deleted_at = 1")  # as if no order were known
            )
        return diligent(node)

    async with Press(play) as press:
        order = await press.done(press.ordered())
        assert (order.status, order.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
        assert "was deleted" in (order.detail or "")


async def test_a_document_that_is_gone_before_it_is_begun_ends_its_order_with_a_sentence() -> None:
    async with Press() as press:
        order = press.ordered()
        press.store.database.write(lambda one: one.exec_driver_sql("UPDATE documents SET deleted_at = 1"))
        done = await press.done(order)
        assert (done.status, done.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
        with pytest.raises(DocumentLost):
            await OrderDocuments.opened(
                press.async_store, press.writer.open(order.id, 9, press.fold(order.id)), order.document_id or "", {}
            )


async def test_a_chat_about_a_document_changes_it_under_its_own_order() -> None:
    model = ScriptedModel(
        (
            Line(calls=(call("set_metadata", node="/", values={"topic": "Shadows"}),)),
            "It is about shadows now.",
        )
    )
    async with Press(model) as press:
        generated = press.ordered()
        chat = press.place("Make it about shadows.", document_id=generated.document_id)
        done = await press.done(chat)
        assert done.status is OrderStatus.SUCCEEDED, done.detail
        (told,) = press.facts(chat, DocumentChanged)
        assert (told.by, told.command, told.node) == ("chat", "set_metadata", "/")
        item = press.store.documents.history(generated.document_id or "").items[0]
        assert (item.by, item.order_id, item.fields) == ("chat", chat.id, {"metadata.topic": ("Light", "Shadows")})


async def test_the_same_document_is_generated_again_only_where_it_is_stale() -> None:
    async with Press() as press:
        first = await press.done(press.ordered())
        person = Author(by="person", at=now(), principal="ann")
        press.store.documents.dispatch(
            first.document_id or "", [SetMetadata(node="/lesson-1", values={"focus": "Noon"})], person
        )
        second = await press.done(press.ordered(document_id=first.document_id))
        assert second.status is OrderStatus.SUCCEEDED, second.detail
        nodes = {fact.node for fact in press.facts(second, AgentStarted)} - {None}
        assert nodes == {"/lesson-1", "/lesson-1/activity-1"}
