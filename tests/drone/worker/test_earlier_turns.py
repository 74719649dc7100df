"""A turn's model is shown the session's earlier turns, and the same ones again after another drone takes over."""

import asyncio
from collections.abc import Sequence
from typing import Any

from drone.agent.ports.model import Ask
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.scripted import Said, ScriptedModel
from drone.settings import Settings
from drone.worker.executions import Stop
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.transcript.messages import AssistantMessage, Message, UserMessage
from mcc.transcript.transcript import NOTE
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel


class Talk(Bench):
    """A real crew whose model answers each prompt; it answers "slowly" only once the test permits."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []
        self.held, self.let_go = asyncio.Event(), asyncio.Event()
        settings = Settings()
        models: Any = OneModel(ScriptedModel(self._say))
        super().__init__(crew=Crew(settings, Definitions.load(settings.prompts_dir), models))

    async def __aenter__(self) -> "Talk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        self.asked.append(ask)
        prompt = [message.text for message in ask.messages if isinstance(message, UserMessage)][-1]
        if prompt == "slowly" and not self.let_go.is_set():
            self.held.set()
            await asyncio.Event().wait()
        return f"About {prompt}."

    async def say(self, prompt: str, session_id: str | None = None) -> WorkOrder:
        return await self.work(self.place(prompt, session_id=session_id))

    async def work(self, order: WorkOrder) -> WorkOrder:
        assert await self.runner.work(order.id) is not None
        return self.store.orders.get(order.id)

    def notes(self, order: WorkOrder) -> list[str]:
        record = self.store.orders.record(order.id)
        assert record is not None
        return [step.message for step in record.steps if step.kind == "note" and step.name == NOTE]


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if isinstance(message, UserMessage | AssistantMessage)]


async def test_a_turn_is_shown_the_prompts_and_answers_before_it() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        second = await talk.say("two", first.session_id)
        assert said(talk.asked[0].messages) == ["one"]
        assert said(talk.asked[1].messages) == ["one", "About one.", "two"]
        assert talk.notes(first) == []
        assert talk.notes(second) == ["It was shown the turn before it in its session."]


async def test_a_turn_that_is_rolled_back_is_not_shown_to_later_ones() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        second = await talk.say("two", first.session_id)
        talk.store.orders.roll_back(second.id, by=Actor("test"))
        third = await talk.say("three", first.session_id)
        assert said(talk.asked[-1].messages) == ["one", "About one.", "three"]
        assert talk.notes(third) == ["It was shown the turn before it in its session."]


async def test_a_turn_without_an_answer_is_shown_as_such() -> None:
    async with Talk() as talk:
        first = talk.place("one")
        talk.store.controls.request(first.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        await talk.say("two", first.session_id)
        assert said(talk.asked[0].messages) == ["one", "[This turn ended as cancelled, without an answer.]", "two"]


async def test_a_drone_that_takes_a_turn_over_shows_the_turns_it_began_with_despite_later_rollbacks() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        second = talk.place("slowly", session_id=first.session_id)
        working = asyncio.create_task(talk.runner.work(second.id))
        await talk.held.wait()
        for run in talk.executions:
            run.halt(Stop.HAND_BACK)
        await working
        held = [(claim.order.id, claim.epoch) for claim in talk.executions.to_hand_back()]
        talk.store.claims.hand_back(held, drone="d1", message="bye")
        talk.store.orders.roll_back(first.id, by=Actor("test"))
        talk.let_go.set()
        done = await talk.work(second)
        assert done.status is OrderStatus.SUCCEEDED
        before, after = talk.asked[-2:]
        assert said(before.messages) == said(after.messages) == ["one", "About one.", "slowly"]
        assert talk.notes(second) == ["It was shown the turn before it in its session."]


async def test_a_fork_of_a_turn_is_shown_the_same_earlier_turns() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        second = await talk.say("two", first.session_id)
        fork = talk.store.orders.fork(second.id, NewFork(after=second.last_seq, prompt="three"), by=Actor("test")).order
        await talk.work(fork)
        assert said(talk.asked[-1].messages) == ["one", "About one.", "two", "About two.", "three"]


async def test_a_turn_after_a_fork_is_shown_the_forks_prompt_and_the_turns_before_it() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        second = await talk.say("two", first.session_id)
        fork = talk.store.orders.fork(second.id, NewFork(after=second.last_seq, prompt="three"), by=Actor("test")).order
        await talk.work(fork)
        await talk.say("four", fork.session_id)
        assert said(talk.asked[-1].messages) == [
            "one",
            "About one.",
            "two",
            "About two.",
            "three",
            "About three.",
            "four",
        ]


async def test_a_fork_from_before_the_master_began_is_shown_the_earlier_turns_of_its_source() -> None:
    async with Talk() as talk:
        first = await talk.say("one")
        second = await talk.say("two", first.session_id)
        fork = talk.store.orders.fork(second.id, NewFork(after=1, prompt="three"), by=Actor("test")).order
        await talk.work(fork)
        assert said(talk.asked[-1].messages) == ["one", "About one.", "three"]
