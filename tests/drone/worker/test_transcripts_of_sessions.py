"""A later turn is shown its session's earlier turns exactly as they were sent, and what is stored of them is what their
journals say."""

import asyncio
import random
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from drone.agent.ports.model import Ask, Listener, Reply
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.settings import Settings
from drone.worker.executions import Stop
from drone.worker.sessions.idle import IdleCompaction
from mcc.configuration.settings import SessionSettings
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import AgentStarted, AgentStep
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.questions import SessionWords
from mcc.contracts.status import OrderStatus
from mcc.contracts.turn_context import MOST_AFTER_BASE, ContextMode, TurnContext
from mcc.store.database.tables import BASES, TRANSCRIPTS
from mcc.store.rows.session_words import add_words
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from mcc.transcript.opening import HEADING, PUT_AWAY
from mcc.transcript.own_messages import OwnMessages, TurnEnd
from mcc.transcript.shown import canonical
from mcc.transcript.transcript import request_in
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel


class Windowed(ScriptedModel):
    context_tokens: int | None = None
    """How many tokens it takes in."""
    told_tokens: int | None = None
    """How many its replies say it takes in."""
    cache_seconds: int | None = None

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        return replace(await super().ask(ask, listener), context_tokens=self.told_tokens)


class Talk(Bench):
    """A real crew in a workspace. Its model reads a file before some answers, is steered at others, and keeps silent
    at "never"."""

    model_class: type[Windowed] = Windowed

    def __init__(self, folder: Path, settings: Settings | None = None, window: int | None = None) -> None:
        self.folder = folder
        (folder / "README.md").write_text("# A garden\n" + "Roses.\n" * 20)
        self.asked: list[Ask] = []
        self.silent = asyncio.Event()
        self.steered: WorkOrder | None = None
        settings = settings or Settings(workspace_roots=(folder,))
        self.model = self.model_class(self._say)
        self.model.context_tokens = window
        models: Any = OneModel(self.model)
        crew = Crew(settings, Definitions.load(settings.prompts_dir), models)
        super().__init__(crew=crew, idle=IdleCompaction(settings.compaction, models))

    async def __aenter__(self) -> "Talk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        self.asked.append(ask)
        last = ask.messages[-1]
        if not isinstance(last, UserMessage):
            return "Roses grow there."
        word = request_in(last.text)
        if word.startswith("read"):
            return Line("I look.", (call("read_file", path="README.md"),))
        if word == "never":
            self.silent.set()
            await asyncio.Event().wait()
        if word == "steer" and (order := self.steered) is not None:
            self.store.controls.request(
                order.id, ControlKind.STEER, NewControl(message="And the tulips?"), by=Actor("test")
            )
            run = next(one for one in self.executions if one.order_id == order.id)
            await run.take(self.store.controls.pending({order.id: 0}))
        return f"About {word}."

    async def say(self, prompt: str, session_id: str | None = None) -> WorkOrder:
        order = self.place(prompt, session_id=session_id, workspace=str(self.folder))
        self.steered = order
        if prompt == "never":
            return await self._cancelled(order)
        return await self.work(order)

    async def _cancelled(self, order: WorkOrder) -> WorkOrder:
        self.silent.clear()
        working = asyncio.create_task(self.runner.work(order.id))
        await self.silent.wait()
        self.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        run = next(one for one in self.executions if one.order_id == order.id)
        await run.take(self.store.controls.pending({order.id: 0}))
        await working
        return self.store.orders.get(order.id)

    async def work(self, order: WorkOrder) -> WorkOrder:
        assert await self.runner.work(order.id) is not None
        return self.store.orders.get(order.id)

    def context(self, order: WorkOrder) -> TurnContext | None:
        return next(one.data.session for one in self.journal(order.id) if isinstance(one.data, AgentStarted))

    def stored(self, order: WorkOrder) -> bytes:
        wanted = sa.select(TRANSCRIPTS.c.data).where(TRANSCRIPTS.c.order_id == order.id)
        return zlib.decompress(self.store.database.read(lambda one: one.scalar(wanted)) or b"")

    def bases(self) -> list[Any]:
        wanted = sa.select(BASES).order_by(BASES.c.through_seq)
        return [*self.store.database.read(lambda one: one.execute(wanted).all())]

    def forget(self) -> None:
        """Delete everything that is stored beside the journals."""
        self.store.database.write(lambda one: (one.execute(sa.delete(BASES)), one.execute(sa.delete(TRANSCRIPTS))))

    def folded(self, order: WorkOrder) -> bytes:
        own = OwnMessages()
        for entry in self.journal(order.id):
            own.add(entry)
        end = TurnEnd(order.id, order.session_seq, order.prompt, order.status, order.answer)
        return canonical(own.at_end(end, "full"))


@pytest.fixture
async def talk(tmp_path: Path) -> AsyncIterator[Talk]:
    folder = tmp_path / "workspace"
    folder.mkdir()
    async with Talk(folder) as opened:
        yield opened


def without_end(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages of earlier turns alone: all but the newest prompt."""
    return tuple(messages[:-1])


async def test_whatever_turns_do_the_next_one_begins_with_what_they_sent_and_heard(talk: Talk) -> None:
    chance, session_id, sent = random.Random(7), None, tuple[Message, ...]()
    words = ["read on", "plain", "steer", "never"] * 2
    chance.shuffle(words)
    for word in words:
        first = len(talk.asked)
        order = await talk.say(word, session_id)
        session_id = order.session_id
        assert talk.asked[first].messages[: len(sent)] == sent
        assert len(talk.asked[first].messages) == len(sent) + 1
        last = talk.asked[-1].messages
        ended = order.answer or f"[This turn ended as {order.status.value}, without an answer.]"
        assert talk.stored(order) == talk.folded(order)
        sent = (*last, AssistantMessage.of(ended, model=talk.model.name if order.answer else ""))
    assert {type(message) for message in sent} == {UserMessage, AssistantMessage, ToolResults}
    assert any(isinstance(one, UserMessage) and one.text.endswith("Z] And the tulips?") for one in sent)


async def test_a_turn_is_shown_the_same_when_everything_that_is_stored_is_lost(talk: Talk) -> None:
    first = await talk.say("read it")
    for word in ("never", "steer", "again"):
        await talk.say(word, first.session_id)
    before = talk.asked[-1].messages
    shown = talk.store.orders.retry(talk.store.sessions.get(first.session_id).last_order_id or "", by=Actor("t")).order
    talk.forget()
    await talk.work(shown)
    assert talk.asked[-1].messages == before
    assert talk.stored(first) == talk.folded(first)


async def test_a_later_turn_reads_stored_turns_behind_the_base_and_no_journal(talk: Talk) -> None:
    talk.model.context_tokens = 10_000_000
    session_id = (await talk.say("1 " + "x" * 190_000)).session_id
    for number in range(2, 8):
        await talk.say(f"{number} " + "x" * 190_000, session_id)
    older, base = talk.bases()
    assert [(one.reason, one.through_seq) for one in (older, base)] == [("rollup", 3), ("rollup", 6)]
    order = talk.place("next", session_id=session_id)
    past = talk.store.transcripts.past(order)
    assert past.base == base.digest
    assert [turn.session_seq for turn in past.turns] == [7]
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    sa.event.listen(talk.store.database.engine, "before_cursor_execute", note)
    talk.store.transcripts.past(order)
    sa.event.remove(talk.store.database.engine, "before_cursor_execute", note)
    assert statements and not any("FROM journal" in statement for statement in statements)
    rolled = without_end(talk.asked[-1].messages)
    assert len(rolled) == 12
    talk.forget()
    await talk.work(order)
    assert talk.asked[-1].messages[: len(rolled)] == rolled


async def test_after_64_turns_behind_a_base_they_become_one(talk: Talk) -> None:
    session_id = None
    for number in range(1, MOST_AFTER_BASE + 2):
        order = await talk.say(f"{number}", session_id)
        session_id = order.session_id
        if number == MOST_AFTER_BASE - 1:
            assert talk.bases() == []
    (base,) = talk.bases()
    assert (base.reason, base.through_seq) == ("rollup", MOST_AFTER_BASE)
    context = talk.context(order)
    assert context is not None and (context.base, context.turns) == (base.digest, ())
    assert len(talk.asked[-1].messages) == 2 * MOST_AFTER_BASE + 1
    assert talk.asked[-1].messages[:-3] == talk.asked[-2].messages[:-1]


async def test_a_base_that_is_lost_is_made_of_its_turns_again(talk: Talk) -> None:
    first = await talk.say("one")
    second = await talk.say("two", first.session_id)
    fork = talk.store.orders.fork(second.id, NewFork(after=second.last_seq, prompt="three"), by=Actor("t")).order
    await talk.work(fork)
    (base,) = talk.bases()
    lost = sa.update(BASES).values(digest="0" * 64)
    talk.store.database.write(lambda one: one.execute(lost))
    four = await talk.say("four", fork.session_id)
    said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
    assert said == ["one", "two", "three", "four"]
    context = talk.context(four)
    assert context is not None and context.base is None and base.digest


async def test_a_long_opening_is_not_shortened_while_no_one_says_how_large_the_window_is(talk: Talk) -> None:
    first = await talk.say("1 " + "x" * 190_000)
    for number in range(2, 6):
        await talk.say(f"{number} " + "x" * 190_000, first.session_id)
    assert sum(len(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)) > 5 * 190_000


async def test_a_rollback_in_a_fork_leaves_what_it_began_with(talk: Talk) -> None:
    first = await talk.say("one")
    second = await talk.say("two", first.session_id)
    fork = talk.store.orders.fork(second.id, NewFork(after=second.last_seq, prompt="three"), by=Actor("t")).order
    done = await talk.work(fork)
    (base,) = talk.bases()
    assert (base.session_id, base.through_seq, base.reason) == (fork.session_id, 0, "fork")
    await talk.say("four", fork.session_id)
    said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage | AssistantMessage)]
    assert said == ["one", "About one.", "two", "About two.", "three", "About three.", "four"]
    talk.store.orders.roll_back(done.id, by=Actor("t"))
    assert talk.bases()[0].voided_at is None
    await talk.say("five", fork.session_id)
    said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage | AssistantMessage)]
    assert said == ["one", "About one.", "four", "About four.", "five"]


async def test_later_turns_are_shown_a_retry_in_place_of_the_turn_that_it_repeats(talk: Talk) -> None:
    first = await talk.say("one")
    second = await talk.say("two", first.session_id)
    await talk.say("three", first.session_id)
    again = talk.store.orders.retry(second.id, by=Actor("t")).order
    await talk.work(again)
    assert len(talk.asked[-1].messages) == 3, "it is shown what the turn was that it repeats"
    await talk.say("four", first.session_id)
    said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
    assert said == ["one", "three", "two", "four"]


async def test_a_turn_that_is_taken_over_is_shown_what_its_journal_names(talk: Talk) -> None:
    first = await talk.say("read it")
    second = talk.place("never", session_id=first.session_id, workspace=str(talk.folder))
    working = asyncio.create_task(talk.runner.work(second.id))
    await talk.silent.wait()
    for run in talk.executions:
        run.halt(Stop.HAND_BACK)
    await working
    held = [(claim.order.id, claim.epoch) for claim in talk.executions.to_hand_back()]
    talk.store.claims.hand_back(held, drone="d1", message="bye")
    context = talk.context(second)
    assert context is not None and context.turns == (first.id,) and context.messages == 4
    garbled = {"data": zlib.compress(b"[]")}
    talk.store.database.write(lambda one: one.execute(sa.update(TRANSCRIPTS).values(**garbled)))
    before = talk.asked[-1].messages
    talk.silent.clear()
    again = asyncio.create_task(talk.runner.work(second.id))
    await talk.silent.wait()
    assert talk.asked[-1].messages == before, "the row that does not fit the digest was computed from the journal"
    talk.store.controls.request(second.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
    run = next(one for one in talk.executions if one.order_id == second.id)
    await run.take(talk.store.controls.pending({second.id: 0}))
    await again


async def test_of_a_session_that_does_not_fit_the_oldest_turns_are_lines_and_that_is_told(tmp_path: Path) -> None:
    async with Talk(tmp_path, window=200_000) as talk:
        session_id = (await talk.say("0 " + "word " * 2_000)).session_id
        for number in range(1, 12):
            await talk.say(f"{number} " + "word " * 2_000, session_id)
        talk.model.context_tokens = 20_000
        orders = [await talk.say("12", session_id), await talk.say("13", session_id)]
        assert [base.reason for base in talk.bases()] == ["handles"]
        told = [step for one in orders for step in talk.journal(one.id) if isinstance(step.data, AgentStep)]
        assert len([step for step in told if getattr(step.data, "name", "") == PUT_AWAY]) == 1
        shown = talk.asked[-1].messages
        assert isinstance(shown[0], UserMessage) and shown[0].text.startswith(HEADING + "turn 1: 0 word word")
        assert all(order.status is OrderStatus.SUCCEEDED for order in orders)


async def test_in_the_cheap_mode_a_turn_leaves_its_prompt_and_its_answer(tmp_path: Path) -> None:
    settings = Settings(workspace_roots=(tmp_path,), sessions=SessionSettings(context="answers"))
    async with Talk(tmp_path, settings) as talk:
        first = await talk.say("read it")
        second = await talk.say("two", first.session_id)
        assert without_end(talk.asked[-1].messages) == (
            UserMessage("read it"),
            AssistantMessage.of("Roses grow there."),
        )
        context = talk.context(second)
        assert context is not None and context.mode == "answers"


@pytest.mark.parametrize("mode", ["full", "answers"])
async def test_what_was_said_between_two_turns_is_above_the_prompt_also_in_later_turns(
    tmp_path: Path, mode: ContextMode
) -> None:
    settings = Settings(workspace_roots=(tmp_path,), sessions=SessionSettings(context=mode))
    async with Talk(tmp_path, settings) as talk:
        first = await talk.say("one")
        words = [
            SessionWords(at=first.created_at, text="Roses.", question="Which?"),
            SessionWords(at=first.created_at, text="Hm."),
        ]
        talk.store.database.write(lambda one: add_words(one, "w", first.session_id, words))
        second = await talk.say("two", first.session_id)
        stamp = f"[{first.created_at:%Y-%m-%dT%H:%M:%SZ}]"
        prompt = f"{stamp} The answer to the earlier question “Which?”: Roses.\n\n{stamp} Hm.\n\ntwo"
        assert second.prompt == "two" and list(second.words) == words
        told = talk.asked[-1].messages[-1]
        assert isinstance(told, UserMessage) and request_in(told.text) == prompt
        record = talk.store.orders.record(second.id)
        assert record is not None and record.title == "two"
        await talk.say("three", first.session_id)
        seen = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
        assert seen == ["one", prompt, "three"]
        talk.forget()
        await talk.say("four", first.session_id)
        again = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
        assert again == ["one", prompt, "three", "four"]


async def test_what_a_cancelled_turn_did_not_read_is_above_the_next_prompt(talk: Talk) -> None:
    order = talk.place("never", workspace=str(talk.folder))
    working = asyncio.create_task(talk.runner.work(order.id))
    await talk.silent.wait()
    for kind, message in ((ControlKind.STEER, "Look south."), (ControlKind.CANCEL, None)):
        talk.store.controls.request(order.id, kind, NewControl(message=message), by=Actor("test"))
    run = next(one for one in talk.executions if one.order_id == order.id)
    await run.take(talk.store.controls.pending({order.id: 0}))
    await working
    following = await talk.say("two", order.session_id)
    assert [one.text for one in following.words] == ["Look south."]
    told = talk.asked[-1].messages[-1]
    assert isinstance(told, UserMessage) and request_in(told.text).endswith("Look south.\n\ntwo")
