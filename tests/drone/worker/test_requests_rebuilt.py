"""What `GET /orders/{id}/calls/{seq}` tells of each model call is what the model was given, wherever it was asked."""

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeAlias

import httpx
import pytest
import sqlalchemy as sa

from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.retry import Retrying
from drone.models.scripted import Author, Line, Said, call
from drone.settings import Settings
from drone.worker.executions import Stop
from mcc.api.app import build_app
from mcc.contracts.approvals import NewDecision
from mcc.contracts.callers import Actor
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import ToolFinished
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.order_facts import OrderQueued
from mcc.contracts.status import OrderStatus
from mcc.settings import ServiceSettings
from mcc.store.database.tables import TRANSCRIPTS
from mcc.store.store import Store
from mcc.testing.served import TOKEN
from mcc.transcript.messages import AssistantMessage, Message, Picture, ToolResult, ToolResults, UserMessage
from mcc.transcript.transcript import NUDGE
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.test_agents_of_earlier_turns import Hirer
from tests.drone.worker.test_compact_orders import AskedTalk
from tests.drone.worker.test_compacted_sessions import LONG, SUMMARY, LongTalk
from tests.drone.worker.test_forked_orders import AND_THE_TESTS, Theatre, a_turn_with_children
from tests.drone.worker.test_pictures_of_sessions import Gallery
from tests.drone.worker.test_transcripts_of_sessions import Talk, Windowed
from tests.parity.world import OneModel

Seen: TypeAlias = tuple[Store, list[Ask]]
"""Where the orders are, and all that their model was given."""


class Stage(Bench):
    """A real crew in a workspace; its model says what the play writes, and an order that waits is parked at once."""

    def __init__(self, folder: Path, play: Author, window: int | None = None) -> None:
        self.folder = folder
        (folder / "long.txt").write_text("All roses are red.\n" * 400)
        self.model = Windowed(play)
        self.model.context_tokens = window
        settings = Settings(workspace_roots=(folder,))
        models: Any = OneModel(Retrying(self.model, sleep=at_once))
        super().__init__(crew=Crew(settings, Definitions.load(settings.prompts_dir), models), park_after_seconds=0.0)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def play(self, **fields: object) -> WorkOrder:
        order = self.place("go", workspace=str(self.folder), **fields)
        await self.runner.work(order.id)
        return self.store.orders.get(order.id)

    @property
    def seen(self) -> Seen:
        return self.store, self.model.asks


async def at_once(_: float) -> None:
    return None


def replies_in(ask: Ask) -> int:
    return sum(isinstance(message, AssistantMessage) for message in ask.messages)


def look_at(first: int, last: int | None = None) -> WantedCall:
    return call("read_file", path="long.txt", start_line=first, end_line=last or first)


def asks_for_a_summary(ask: Ask) -> bool:
    last = ask.messages[-1]
    return isinstance(last, UserMessage) and "This conversation gets too long" in last.text


async def turns_of_a_session(folder: Path) -> Seen:
    async with Talk(folder) as talk:
        first = await talk.say("read it")
        await talk.say("steer", first.session_id)
        await talk.say("never", first.session_id)
        second = await talk.say("read it again", first.session_id)
        await talk.work(talk.store.orders.retry(second.id, by=Actor("t")).order)
        await talk.say("last", first.session_id)
        return talk.store, talk.model.asks


async def turns_whose_rows_are_lost(folder: Path) -> Seen:
    async with Talk(folder) as talk:
        first = await talk.say("read it")
        for word in ("read more", "last"):
            await talk.say(word, first.session_id)
        talk.forget()
        return talk.store, talk.model.asks


async def turns_whose_rows_are_not_what_they_were(folder: Path) -> Seen:
    async with Talk(folder) as talk:
        first = await talk.say("read it")
        await talk.say("last", first.session_id)
        garbled = sa.update(TRANSCRIPTS).values(data=zlib.compress(b"[]"))
        talk.store.database.write(lambda connection: connection.execute(garbled))
        return talk.store, talk.model.asks


async def children_a_fork_and_a_retry(folder: Path) -> Seen:
    async with Talk(folder) as talk, Theatre(talk.store, folder, a_turn_with_children) as theatre:
        source = await theatre.play()
        fork = await theatre.fork(source, source.last_seq - 4, AND_THE_TESTS)
        await theatre.work(theatre.store.orders.retry(fork.id, by=Actor("test")).order)
        await theatre.fork(source, source.last_seq // 2)
        return theatre.store, theatre.model.asks


async def a_child_of_an_earlier_turn(folder: Path) -> Seen:
    async with Hirer(folder) as hirer:
        first = await hirer.say("hire")
        (hired,) = hirer.children(first)
        second = await hirer.say(f"send {hired.record_id} And tulips?", first.session_id)
        (again,) = hirer.children(second)
        await hirer.say(f"send {again.record_id} And lilies?", first.session_id)
        return hirer.store, hirer.model.asks


async def a_takeover(folder: Path) -> Seen:
    async with Talk(folder) as talk:
        session_id = (await talk.say("read it")).session_id
        order = talk.place("never", session_id=session_id, workspace=str(folder))
        await handed_back(talk, order, talk.silent)
        talk.silent.clear()
        await handed_back(talk, order, talk.silent)
        return talk.store, talk.model.asks


async def handed_back(bench: Bench, order: WorkOrder, begun: asyncio.Event) -> None:
    """Work on the order until its model is asked, and hand it back."""
    working = asyncio.create_task(bench.runner.work(order.id))
    async with asyncio.timeout(30):
        await begun.wait()
    execution = next(one for one in bench.executions if one.order_id == order.id)
    assert execution.held is not None
    epoch = execution.held[0].epoch
    execution.halt(Stop.HAND_BACK)
    await working
    bench.store.claims.hand_back([(order.id, epoch)], drone="d1", message="bye")


async def an_approval(folder: Path) -> Seen:
    def play(ask: Ask) -> Said:
        return "Done." if replies_in(ask) else Line("I look.", (call("read_file", path="long.txt"),))

    async with Stage(folder, play) as stage:
        order = await stage.play(permission={"read_file": "ask"}, on_ask="wait")
        assert order.status is OrderStatus.WAITING
        (asked,) = [one.data for one in stage.journal(order.id) if isinstance(one.data, ApprovalRequested)]
        stage.store.approvals.decide(asked.approval_id, NewDecision(decision="approve"), by=Actor("test"))
        await stage.runner.work(order.id)
        assert stage.store.orders.get(order.id).status is OrderStatus.SUCCEEDED
        return stage.seen


async def attempts_at_a_reply(folder: Path) -> Seen:
    busy = [ModelError("Busy.", retryable=True), ModelError("Busy.", retryable=True)]

    def play(ask: Ask) -> Said:
        if not replies_in(ask):
            return Line("I look.", (call("read_file", path="long.txt"),))
        return busy.pop() if busy else "Done."

    async with Stage(folder, play) as stage:
        order = await stage.play()
        assert stage.kinds(order.id).count(ModelRetried.kind) == 2
        return stage.seen


async def an_agent_that_is_nudged(folder: Path) -> Seen:
    def play(ask: Ask) -> Said:
        return "Done." if replies_in(ask) > 2 else Line("I look.", (look_at(1),))

    async with Stage(folder, play) as stage:
        order = await stage.play()
        assert NUDGE in [getattr(entry.data, "name", "") for entry in stage.journal(order.id)]
        return stage.seen


async def a_last_reply(folder: Path) -> Seen:
    def play(ask: Ask) -> Said:
        if ask.tool_choice == "none":
            return "I stop."
        return Line("I look.", (call("read_file", path="long.txt", start_line=1 + replies_in(ask)),))

    async with Stage(folder, play) as stage:
        await stage.play(limits={"output_tokens": 2_000, "rounds": 3}, temperature=0.3, max_output_tokens=900)
        assert stage.model.asks[-1].tool_choice == "none" and stage.model.asks[-1].max_output_tokens
        return stage.seen


async def a_conversation_that_is_compacted(folder: Path) -> Seen:
    numbers = count(1)

    def play(ask: Ask) -> Said:
        if asks_for_a_summary(ask):
            return Line(SUMMARY)
        number = next(numbers)
        if number > 42:
            return "Done."
        text = f"Rule {number}: never prune rose-{number} before 2026-03-{number:02}.\n"
        look = look_at(number, number if number > 10 else 400)
        edit = call("edit_file", path="long.txt", old=text * 120, new="")
        return Line(text * (120 if number > 20 else 1), (look, edit) if 10 < number <= 20 else (look,))

    async with Stage(folder, play, window=24_000) as stage:
        order = await stage.play()
        facts = [one.data for one in stage.journal(order.id) if isinstance(one.data, TranscriptCompacted)]
        assert order.status is OrderStatus.SUCCEEDED, order.detail
        assert {fact.stage for fact in facts} >= {"results", "arguments", "summary"}
        return stage.seen


async def a_summary_that_is_taken_over(folder: Path) -> Seen:
    """While the first drone waits for the summary, its agent goes on; the second one asks with what was said since."""
    numbers, summing, held = count(1), asyncio.Event(), list[Ask]()

    async def play(ask: Ask) -> Said:
        if asks_for_a_summary(ask):
            held.append(ask)
            if len(held) == 1:
                summing.set()
                await asyncio.Event().wait()
            return Line(SUMMARY)
        number = next(numbers)
        return "Done." if number > 34 else Line(f"{number}. {LONG[:2_400]}", (look_at(number),))

    async with Stage(folder, play, window=24_000) as stage:
        order = stage.place("go", workspace=str(folder))
        await handed_back(stage, order, summing)
        await stage.runner.work(order.id)
        assert stage.store.orders.get(order.id).status is OrderStatus.SUCCEEDED
        assert len(held[1].messages) > len(held[0].messages)
        return stage.seen


async def a_session_that_is_compacted(folder: Path) -> Seen:
    """Twice, the first time taken over; its first summary lacks what must be kept, so that it is asked once more."""
    async with AskedTalk(folder) as talk:
        rules = " ".join(f"Never cut rose-{number} before 2026-03-{number:02}." for number in range(1, 28))
        session_id = (await talk.say(f"0 {rules} {LONG}")).session_id
        for number in range(1, 4):
            await talk.say(f"{number} Always water tulip-{number}. {LONG}", session_id)
        talk.holding = True
        order = talk.ask(session_id)
        await handed_back(talk, order, talk.summing)
        talk.holding = False
        await talk.work(order)
        assert "The summary that you wrote before lacked" in str(talk.requests[-1].messages[-1])
        await talk.say("next", session_id)
        return talk.store, talk.model.asks


async def turns_that_outgrow_the_window(folder: Path) -> Seen:
    async with LongTalk(folder, window=20_000) as talk:
        session_id = (await talk.say(f"0 {LONG}")).session_id
        for number in range(1, 8):
            await talk.say(f"{number} {LONG}", session_id)
        assert talk.bases()
        return talk.store, talk.model.asks


async def pictures(folder: Path) -> Seen:
    async with Gallery(folder) as gallery:
        first = await gallery.say("look 1 2")
        for number in range(3, 7):
            await gallery.say(f"look {number}", first.session_id)
        return gallery.store, gallery.model.asks


SCENES = (
    turns_of_a_session,
    turns_whose_rows_are_lost,
    turns_whose_rows_are_not_what_they_were,
    children_a_fork_and_a_retry,
    a_child_of_an_earlier_turn,
    a_takeover,
    an_approval,
    attempts_at_a_reply,
    an_agent_that_is_nudged,
    a_last_reply,
    a_conversation_that_is_compacted,
    a_summary_that_is_taken_over,
    a_session_that_is_compacted,
    turns_that_outgrow_the_window,
    pictures,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_a_request_is_told_as_the_model_was_given_it(
    scene: Callable[[Path], Awaitable[Seen]], tmp_path: Path
) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    store, asks = await scene(folder)
    told: list[str] = []
    async with reading(store, tmp_path) as api:
        for order in (*store.orders.list(limit=200).items, *store.orders.list(kind=OrderKind.COMPACT).items):
            told += [canonical(await request(api, store, order.id, seq)) for seq in calls_of(store, order)]
    assert sorted(told) == sorted(canonical(given(ask)) for ask in asks)


def reading(store: Store, data_dir: Path) -> httpx.AsyncClient:
    app = build_app(ServiceSettings(data_dir=data_dir), store, token=TOKEN)
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {TOKEN}"}
    )


def calls_of(store: Store, order: WorkOrder) -> list[int]:
    """The entries with which model calls of this order began, without those that it has from another one."""
    entries = store.journal.read(order.id, limit=10_000)
    queued = entries[0].data
    assert isinstance(queued, OrderQueued)
    copied = queued.forked.until if queued.forked else 0
    return [entry.seq for entry in entries if isinstance(entry.data, ModelStarted) and entry.seq > copied]


MADE_BY = {
    "assistant": {"model.replied", "order.finished"},
    "tool": {"tool.finished"},
    "user": {"agent.started", "control.applied", "agent.step", "budget.warned", "transcript.compacted", "order.queued"},
}
"""Kinds of the entries that messages come from. A turn that ended without an answer ends with words that say so."""


def check_places(store: Store, messages: list[Any]) -> None:
    """Each message comes from an entry that says it."""
    for message in messages:
        if message["order_id"] is None:
            continue
        (entry,) = store.journal.read(message["order_id"], after=message["seq"] - 1, limit=1)
        assert entry.kind in MADE_BY[message["role"]]
        if isinstance(entry.data, ModelReplied):
            assert message["blocks"][0].get("text") == getattr(entry.data.blocks[0], "text", None)
        if isinstance(entry.data, ToolFinished):
            assert entry.data.call_id in [one.get("call_id") for one in message["blocks"]]


async def request(api: httpx.AsyncClient, store: Store, order_id: str, seq: int) -> Any:
    """The request, from all its pages."""
    first, cursor, messages = None, "", list[Any]()
    while cursor is not None:
        answer = await api.get(f"/api/v1/orders/{order_id}/calls/{seq}{cursor and f'?cursor={cursor}'}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        first, cursor = first or page, page["next_cursor"]
        assert page["first"] == len(messages)
        messages += page["messages"]
    check_places(store, messages)
    assert first is not None and first["of"] == len(messages) and not first["cut"]
    model = first["parameters"].pop("model")
    return {
        "model": model,
        "system": first["system"],
        "tools": first["tools"],
        "parameters": first["parameters"],
        "messages": [{"role": one["role"], "blocks": one["blocks"]} for one in messages],
    }


def given(ask: Ask) -> Any:
    return {
        "model": "scripted/model",
        "system": ask.system,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in ask.tools
        ],
        "parameters": {
            "tool_choice": ask.tool_choice,
            "max_output_tokens": ask.max_output_tokens,
            "temperature": ask.temperature,
            "thinking": ask.thinking,
            "service_tier": ask.service_tier,
            "cache_key": ask.cache_key,
        },
        "messages": [*map(heard, ask.messages)],
    }


def heard(message: Message) -> Any:
    match message:
        case UserMessage():
            return {"role": "user", "blocks": [block(part) for part in message.parts]}
        case AssistantMessage(blocks=blocks):
            return {"role": "assistant", "blocks": [one.model_dump(mode="json") for one in blocks]}
        case ToolResults():
            return {"role": "tool", "blocks": [part for result in message.as_shown for part in parts(result)]}


def parts(result: ToolResult) -> list[Any]:
    told = {"type": "tool_result", "call_id": result.call_id, "name": result.name, "content": result.content}
    return [{**told, "is_error": result.is_error}, *map(block, result.pictures)]


def block(part: str | Picture) -> Any:
    if isinstance(part, Picture):
        return part.image.model_dump(mode="json")
    return {"type": "text", "text": part, "extra": None}


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
