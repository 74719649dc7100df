"""A session that outgrows its model's context: later turns are shown the summary that one of them was shown."""

import re
from pathlib import Path

import pytest

from drone.agent.ports.model import Ask
from drone.models.scripted import Line, Said
from drone.settings import Settings
from mcc.configuration.settings import SessionSettings
from mcc.contracts.callers import Actor
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.journal import AgentStarted, ToolFinished
from mcc.contracts.order import NewFork, WorkOrder
from mcc.contracts.sessions import NewSessionFork
from mcc.contracts.status import OrderStatus
from mcc.store.database.errors import UnknownOrder
from mcc.store.rows.texts import parsed
from mcc.transcript.compaction.built import BEGINNING, WORDS
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, UserMessage
from mcc.transcript.shown import read_all
from mcc.transcript.transcript import request_in
from tests.drone.worker.test_transcripts_of_sessions import Talk

SUMMARY = "## Goal\nA garden.\n## Findings\n- README.md:1 names it.\n## Done\n- read\n## Open\n- tulips"
LONG = "word " * 2_000


class LongTalk(Talk):
    """A talk whose model can be asked to sum up."""

    async def __aenter__(self) -> "LongTalk":
        await super().__aenter__()
        return self

    async def _say(self, ask: Ask) -> Said:
        last = ask.messages[-1]
        if isinstance(last, UserMessage) and "This conversation gets too long" in last.text:
            return Line(SUMMARY)
        return await super()._say(ask)

    def compacted(self, order: WorkOrder) -> list[TranscriptCompacted]:
        return [entry.data for entry in self.journal(order.id) if isinstance(entry.data, TranscriptCompacted)]


async def test_later_turns_begin_with_the_summary_and_no_order_fails(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        orders = [await talk.say(f"0 Never water roses-17. {LONG}")]
        for number in range(1, 10):
            orders.append(await talk.say(f"{number} {LONG}", orders[0].session_id))
        assert all(order.status is OrderStatus.SUCCEEDED for order in orders)
        with_summary = [order for order in orders if talk.compacted(order)]
        facts = [fact for order in with_summary for fact in talk.compacted(order)]
        assert {fact.stage for fact in facts} == {"summary"}
        assert [base.reason for base in talk.bases()].count("summary") == len(with_summary)
        later = talk.asked[-1].messages[0]
        assert isinstance(later, UserMessage) and later.text == facts[-1].summary
        assert "Never water roses-17" in later.text


async def test_a_base_is_what_the_turn_was_shown_at_its_end(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        number = 1
        while not talk.bases():
            await talk.say(f"{number} {LONG}", session_id)
            number += 1
        shown = [*talk.asked[-1].messages]
        base = read_all(parsed(talk.store.texts.kept(talk.bases()[-1].digest)))
        assert [one.message for one in base][: len(shown)] == shown and len(base) == len(shown) + 1
        foretold = talk.store.sessions.get(session_id, principal="test").tokens
        order = await talk.say("next", session_id)
        assert [*talk.asked[-1].messages][: len(base)] == [one.message for one in base]
        started = next(entry.data for entry in talk.journal(order.id) if isinstance(entry.data, AgentStarted))
        assert started.session is not None and started.session.base == talk.bases()[-1].digest
        assert foretold == started.session.tokens, "what a session says that its next turn is shown"


async def test_a_rolled_back_turn_leaves_nothing_in_a_later_summary(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        number = 1
        while not talk.bases():
            order = await talk.say(f"{number} secret-{number} {LONG}", session_id)
            number += 1
        talk.store.orders.roll_back(order.id, by=Actor("test"))
        after = await talk.say("next", session_id)
        assert after.status is OrderStatus.SUCCEEDED
        assert f"secret-{number - 1}" not in "".join(getattr(one, "text", "") for one in talk.asked[-1].messages)


async def until_a_summary(talk: LongTalk, session_id: str) -> WorkOrder:
    """Turns of this session until one of them is summarised; answers that one."""
    for number in range(1, 30):
        order = await talk.say(f"{number} secret-{number} {'word ' * 300}", session_id)
        if talk.compacted(order):
            return order
    raise AssertionError("no turn was summarised")


def text_of(ask: Ask) -> str:
    return "\n".join(getattr(one, "text", "") for one in ask.messages)


async def test_what_people_said_while_an_earlier_turn_ran_is_among_their_words_in_a_summary(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        first = await talk.say("steer")
        fact = talk.compacted(await until_a_summary(talk, first.session_id))[0]
        words, _, _ = (fact.summary or "").partition("\n<untrusted ")
        assert "] And the tulips?" in words.partition(WORDS)[2]


async def test_every_request_of_a_session_tells_where_its_agent_is_also_after_a_summary(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        for _ in range(3):
            await until_a_summary(talk, session_id)
        assert all("What a look at the workspace found" in text_of(ask) for ask in talk.asked)


async def test_later_turns_are_told_nothing_of_a_summarised_turn_that_was_repeated(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        order = await until_a_summary(talk, session_id)
        [base] = [base for base in talk.bases() if base.order_id == order.id]
        assert base.reason == "summary"
        again = talk.store.orders.retry(order.id, by=Actor("test")).order
        await talk.work(again)
        after = await talk.say("next", session_id)
        assert after.status is OrderStatus.SUCCEEDED
        (word,) = [word for word in order.prompt.split() if word.startswith("secret-")]
        shown = talk.asked[-1].messages
        texts = [one.text for one in shown if isinstance(one, UserMessage) and word in one.text]
        assert len(texts) == 1, "the retry alone says it"
        context = talk.context(after)
        assert context is not None and context.base != base.digest


async def test_where_later_turns_see_answers_alone_a_summary_is_that_of_its_turn(tmp_path: Path) -> None:
    settings = Settings(workspace_roots=(tmp_path,), sessions=SessionSettings(context="answers"))
    async with LongTalk(tmp_path, settings, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        orders = [await talk.say(f"{number} {LONG}", session_id) for number in range(1, 10)]
        assert any(map(talk.compacted, orders))
        assert "summary" not in [base.reason for base in talk.bases()]
        assert not any(text_of(ask).count(BEGINNING) > 1 for ask in talk.asked)


async def test_a_fork_of_a_summarised_turn_goes_on_from_the_same_request(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        for number in range(1, 12):
            order = await talk.say(f"read {number} {LONG}", session_id)
            if talk.compacted(order):
                break
        looked = next(entry.seq for entry in talk.journal(order.id) if isinstance(entry.data, ToolFinished))
        asked = talk.asked[-1].messages
        fork = talk.store.orders.fork(order.id, NewFork(after=looked), by=Actor("test")).order
        assert (await talk.work(fork)).status is OrderStatus.SUCCEEDED
        [fact], [again] = talk.compacted(order), talk.compacted(fork)
        assert again.summary == fact.summary and again.record_id != fact.record_id
        assert [*map(_nameless, talk.asked[-1].messages)] == [*map(_nameless, asked)]
        assert again.record_id in {entry.record_id for entry in talk.journal(fork.id)}


async def test_the_source_of_a_forked_session_may_go_once_a_turn_has_ended(tmp_path: Path) -> None:
    async with LongTalk(tmp_path) as talk:
        first = await talk.say("one")
        fork = talk.store.sessions.fork(first.session_id, NewSessionFork(turn=1), by=Actor("test"))
        await talk.say("two", fork.id)
        assert [(base.session_id, base.reason) for base in talk.bases()] == [(fork.id, "fork")]
        talk.store.removal.begin(first.session_id, by=Actor("test"))
        for _ in range(5):
            talk.store.removal.advance()
        await talk.say("three", fork.id)
        said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
        assert said == ["one", "two", "three"]


@pytest.mark.parametrize("rolled_back", [False, True], ids=["cancelled in the queue", "rolled back"])
async def test_a_later_turn_keeps_what_a_fork_began_with_where_its_first_one_left_nothing(
    tmp_path: Path, rolled_back: bool
) -> None:
    async with LongTalk(tmp_path) as talk:
        first = await talk.say("one")
        fork = talk.store.sessions.fork(first.session_id, NewSessionFork(turn=1), by=Actor("test"))
        if rolled_back:
            second = await talk.say("two", fork.id)
            talk.store.orders.roll_back(second.id, by=Actor("test"))
        else:
            second = talk.place("two", session_id=fork.id)
            talk.store.controls.request(second.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
        talk.store.removal.begin(first.session_id, by=Actor("test"))
        for _ in range(5):
            talk.store.removal.advance()
        await talk.say("three", fork.id)
        counted = [(base.session_id, base.reason) for base in talk.bases() if base.voided_at is None]
        assert counted == [(fork.id, "fork")]
        shown = talk.asked[-1].messages
        for _ in range(5):
            talk.store.removal.advance()
        with pytest.raises(UnknownOrder):
            talk.store.orders.get(first.id)
        await talk.say("four", fork.id)
        again = talk.asked[-1].messages
        assert again[: len(shown)] == shown and len(again) == len(shown) + 2
        said = [request_in(one.text) for one in again if isinstance(one, UserMessage)]
        assert said == ["one", *([] if rolled_back else ["two"]), "three", "four"]


async def test_a_fork_whose_first_turn_was_summarised_keeps_what_it_began_with(tmp_path: Path) -> None:
    async with LongTalk(tmp_path, window=20_000) as talk:
        session_id = (await talk.say("one")).session_id
        fork = talk.store.sessions.fork(session_id, NewSessionFork(turn=1), by=Actor("test"))
        second = await talk.say(f"two {'word ' * 14_000}", fork.id)
        assert [base.through_seq for base in talk.bases()] == [0, 1], "of the source, and shortened"
        talk.store.removal.begin(session_id, by=Actor("test"))
        for _ in range(5):
            talk.store.removal.advance()
        talk.store.orders.roll_back(second.id, by=Actor("test"))
        await talk.say("three", fork.id)
        said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
        assert said == ["one", "three"]


async def test_a_fork_that_begins_with_nothing_lets_its_source_go(tmp_path: Path) -> None:
    async with LongTalk(tmp_path) as talk:
        first = await talk.say("one")
        fork = talk.store.orders.fork(first.id, NewFork(after=1, prompt="two"), by=Actor("test")).order
        await talk.work(fork)
        talk.store.removal.begin(first.session_id, by=Actor("test"))
        for _ in range(5):
            talk.store.removal.advance()
        with pytest.raises(UnknownOrder):
            talk.store.orders.get(first.id)
        await talk.say("three", fork.session_id)
        said = [request_in(one.text) for one in talk.asked[-1].messages if isinstance(one, UserMessage)]
        assert said == ["two", "three"]


def _nameless(message: Message) -> object:
    """A message without the ids of calls, and without the numbers of fences, which depend on them."""
    match message:
        case ToolResults():
            return [re.sub(r"untrusted \d+", "untrusted", result.content) for result in message.as_shown]
        case AssistantMessage():
            return message.text, [(one.name, one.arguments) for one in message.tool_calls]
        case _:
            return message
