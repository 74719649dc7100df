"""A secret that a tool finds, a person writes or a model says is nowhere in what is kept or told of an order."""

import asyncio
import base64
import io
import json
import logging
import sqlite3
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pydantic import SecretStr

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.agent.state.tree import Tree
from drone.crew import Crew
from drone.definitions import Definitions
from drone.local_run import order_from
from drone.models.scripted import Line, Said, ScriptedModel
from drone.order_context import OrderContext
from drone.sandbox.places.paths import Workspace
from drone.settings import Settings
from drone.tools.files.manifests import entry_points
from drone.tools.files.reading import read_file
from drone.tools.files.search import search_tool
from drone.tools.frame.tool import ToolContext
from drone.tools.rules_and_skills import RULE_BYTES, SkillTools, rules_list, rules_read
from drone.worker.app import TaskBroke, run_order
from mcc.contracts.blocks import OpaqueBlock, RedactedBlock, TextBlock, ThinkingBlock, ToolCallBlock
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.ids import fresh_id
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.logs import set_up_logs
from mcc.redaction import MARK, Redactor
from mcc.settings import load
from mcc.store.database.migrate import upgrade
from mcc.store.store import open_store
from mcc.testing import temporary_store
from mcc.testing.served import Served
from mcc.transcript.messages import UserMessage
from mcc.transcript.opening import SessionOpening
from mcc.transcript.own_messages import TurnEnd, prompt_and_answer
from tests.drone.worker.bench_of_orders import Bench
from tests.hostile.orders import MASTER
from tests.parity.world import OneModel

TOKEN = "Zk3vTq9_token-Of-the_operator-77xWbLr2mNp0QsYh"
FLOWER = "fl0wer-Word_5hJkQ2zXv8"
KEY = "sk-live/key+of=a-model 9"
REDIS = "redis-Word-3kLm9PqX-0aZ"
SECRETS = (TOKEN, FLOWER, KEY, REDIS)


def forms(secret: str) -> dict[str, str]:
    raw = secret.encode()
    return {
        "plain": secret,
        "base64": base64.b64encode(raw).decode(),
        "base64, shifted by one": base64.b64encode(b"x" + raw + b"y").decode(),
        "base64, shifted by two": base64.urlsafe_b64encode(b"xy" + raw + b"z").decode(),
        "query": quote(secret, safe=""),
        "percent": "".join(f"%{byte:02x}" for byte in raw),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "backwards": secret[::-1],
        "JSON": json.dumps(secret)[1:-1],
    }


EVERY_FORM = [form for secret in SECRETS for form in forms(secret).values()]


def leaks(text: str) -> list[str]:
    """What is there of any form, but for edges that encode what stands beside a secret."""
    return [form for form in EVERY_FORM if form[8:-8] in text]


@pytest.mark.parametrize("before", range(330, 420, 6))
def test_a_search_that_shows_a_part_of_a_line_shows_no_part_of_a_key(tmp_path: Path, before: int) -> None:
    line = json.dumps({"said": "word " * 100 + "x" * before, "token": TOKEN, "more": ["word"] * 200})
    (tmp_path / "one-line.json").write_text(line)
    where = ToolContext("call", Origin(record_id="r", agent="master"), Workspace(tmp_path))
    for pattern in ("x+", f"{TOKEN[-4:]}|more", ".{120}$"):
        assert TOKEN[:10] not in (said := Redactor([TOKEN]).text(search_tool(None)(where, pattern)))
        assert TOKEN[-10:] not in said


async def shown_by(tool: str, folder: Path, said: str) -> str:
    """What a tool makes of a text that is longer than it shows."""
    where = ToolContext("call", Origin(record_id="r", agent="master"), Workspace(folder))
    match tool:
        case "read_file":
            (folder / "one-line").write_text(said)
            return str(await read_file(where, "one-line"))
        case "rules_list":
            (folder / "AGENTS.md").write_text(f"# {said}\n")
            return rules_list(where)
        case "rules_read":
            (folder / "AGENTS.md").write_text(said)
            return rules_read(where, "AGENTS.md")
        case "skills_list":
            place = folder / ".mcc" / "skills" / "leak" / "SKILL.md"
            place.parent.mkdir(parents=True)
            place.write_text(f"---\nname: leak\ndescription: {said}\n---\nText\n")
            return SkillTools(()).skills_list(where).content
        case _:
            (point,) = entry_points("package.json", json.dumps({"scripts": {"start": said}}))
            return point.target


@pytest.mark.parametrize("inside", [4, 20, 39])
@pytest.mark.parametrize(
    ("tool", "most"),
    [
        ("read_file", 196_608),
        ("rules_list", 200),
        ("rules_read", RULE_BYTES),
        ("skills_list", 500),
        ("environment_detect", 300),
    ],
)
async def test_a_cut_that_goes_through_a_key_shows_no_part_of_it(
    tmp_path: Path, tool: str, most: int, inside: int
) -> None:
    before = "word " * ((most - inside) // 5)
    said = f"{before}{'x' * (most - inside - len(before) - 1)} {TOKEN} {'word ' * (5_000 if most > 1_000 else 200)}"
    shown = Redactor([TOKEN]).text(await shown_by(tool, tmp_path, said))
    assert "word" in shown
    assert TOKEN[:4] not in shown


def settings_in(folder: Path, **more: Any) -> Settings:
    """A drone with a token and a login in its data dir, a key of a model and a password in an address."""
    data_dir = folder / "data"
    data_dir.mkdir(mode=0o700)
    (data_dir / "token").write_text(f"{TOKEN}\n")
    (data_dir / "flower.auth").write_text(f"mcc:{FLOWER}\n")
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "leak.txt").write_text("\n".join(f"here: {form}" for form in EVERY_FORM))
    prompts = folder / "prompts"
    (prompts / "master").mkdir(parents=True)
    (prompts / "master" / "system.md").write_text(MASTER)
    return Settings(
        data_dir=data_dir,
        workspace_roots=(workspace,),
        prompts_dir=prompts,
        redis_url=f"redis://:{REDIS}@cache:6379/0",
        keys={"A_KEY": SecretStr(KEY)},
        **more,
    )


def reading(ask: Ask) -> Said:
    """Says secrets in its text, its thinking and its calls, reads a file that is full of them, and answers with one."""
    if len(ask.messages) == 1:
        text = f"I have {TOKEN}, and {base64.b64encode(KEY.encode()).decode()} too."
        return Line(
            text=text,
            pieces=tuple(text),
            thinking=f"It is {FLOWER}.",
            blocks=(
                ThinkingBlock(text=f"It is {FLOWER}.", signature="s1"),
                ThinkingBlock(text="Well.", signature="s2"),
                RedactedBlock(data=f"sealed {KEY}"),
                OpaqueBlock(data={"id": f"of {TOKEN}"}),
                TextBlock(text=text),
                WantedCall("read_file", {"path": "leak.txt"}, extra={"signature": TOKEN}),
                WantedCall("search_text", {"pattern": REDIS}, extra={"signature": "s3"}),
                WantedCall(f"no_{TOKEN}", {TOKEN: [KEY]}),
                WantedCall("read_file", f"not JSON: {TOKEN}"),
            ),
        )
    return Line(text=f"The key is {KEY}, backwards {TOKEN[::-1]}.", pieces=("The key is sk-li", "ve/key+of=a-model 9."))


PROMPT = f"Look around; my login is {FLOWER}."


class Leaky(Bench):
    """A real crew on a database whose model says what it knows; `asked` is what it was asked."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.settings = settings_in(folder)
        self.model = model
        self.url = f"sqlite:///{folder / 'mcc.db'}"
        upgrade(self.url)
        known: Any = OneModel(model)
        crew = Crew(self.settings, Definitions.load(self.settings.prompts_dir), known)
        redactor = self.settings.redactor
        super().__init__(open_store(self.url), crew=crew, redactor=lambda: redactor)
        self.folder = folder


@dataclass
class Told:
    """All that is kept and told of one order."""

    database: str
    record: str
    events: str
    hints: str
    log: str
    asked: str

    def everything(self) -> dict[str, str]:
        return vars(self)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The drone's log, as it is set up with these secrets."""
    told = io.StringIO()
    before, level = logging.getLogger().handlers[:], logging.getLogger().level
    redactor = Redactor(SECRETS)
    set_up_logs("debug", lambda: redactor)
    for handler in logging.getLogger().handlers:
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(told)
    yield told
    logging.getLogger().handlers[:] = before
    logging.getLogger().setLevel(level)


async def summary_of(bench: Leaky, order_id: str, log: io.StringIO) -> Told:
    await bench.broadcaster.flush()
    with sqlite3.connect(bench.folder / "mcc.db") as database:
        # The order's own row keeps the prompt as its person wrote it, to be retried and compared, and so does the title
        # that its session has of it; nothing else does.
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [
            str(row)
            for name in tables
            if name not in ("orders", "sessions")
            for row in database.execute(f'SELECT * FROM "{name}"')
        ]
    with Served(bench.store, bench.folder / "served") as served:
        address = f"{served.url}/api/v1/orders/{order_id}"
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}) as client:
            record = (await client.get(f"{address}/record")).text
            events = (await client.get(f"{address}/events")).text
            journal = (await client.get(f"{address}/journal")).text
    return Told(
        database="\n".join(rows),
        record=record,
        events=events + journal,
        hints="".join(delta.text for delta in bench.publisher.deltas) + "".join(map(str, bench.publisher.published)),
        log=log.getvalue(),
        asked="\n".join(map(repr, bench.model.asks)),
    )


async def test_nothing_of_a_secret_is_kept_or_told(tmp_path: Path, log: io.StringIO) -> None:
    async with Leaky(tmp_path, ScriptedModel(reading)) as bench:
        order = bench.place(PROMPT, workspace=str(tmp_path / "workspace"))
        done = await bench.runner.work(order.id)
        logging.getLogger("somebody").error("it met %s", KEY)
        try:
            raise RuntimeError(TOKEN)
        except RuntimeError:
            logging.getLogger("somebody").exception("it broke on %s", {"header": FLOWER})
        told = await summary_of(bench, order.id, log)
        stored = bench.store.orders.get(order.id)
    assert done is not None and stored.status is OrderStatus.SUCCEEDED
    assert stored.answer == f"The key is {MARK}, backwards {MARK}."
    assert stored.prompt == PROMPT
    assert {name: leaks(text) for name, text in told.everything().items()} == {name: [] for name in vars(told)}
    assert all(MARK in text for text in told.everything().values())
    contents = [step["content"] for step in json.loads(told.record)["steps"] if step["kind"] == "tool"]
    assert len(EVERY_FORM) in [content.count(MARK) for content in contents]


async def test_the_words_of_an_error_and_of_people_have_no_secret_either(tmp_path: Path, log: io.StringIO) -> None:
    """A provider may say the key that it refuses, and people write what they like."""
    refused = ModelError(f"The provider says: incorrect key {KEY}.")
    async with Leaky(tmp_path, ScriptedModel([Line(error=refused)])) as bench:
        order = bench.place("go")
        message = NewControl(message=f"use {FLOWER}", reason=f"since {TOKEN}")
        bench.store.controls.request(order.id, ControlKind.STEER, message, by=Actor("test"))
        assert await bench.runner.work(order.id) is not None
        asked = [message.text for message in bench.model.asks[0].messages if isinstance(message, UserMessage)]
        kept = bench.store.orders.get(order.id)
        entries = b"\n".join(map(to_json, bench.journal(order.id))).decode()
    assert asked[0] == "go" and asked[1].endswith(f"Z] use {MARK}") and len(asked) == 2
    assert kept.status is OrderStatus.FAILED and f"incorrect key {MARK}" in str(kept.detail)
    assert leaks(entries) == [] and leaks(str(kept)) == [] and leaks(log.getvalue()) == []


async def test_a_run_that_goes_on_asks_what_the_first_one_asked(tmp_path: Path) -> None:
    """What was redacted stands in the journal as the model was told it, byte for byte."""
    settings = settings_in(tmp_path)
    order = order_from(PROMPT, tmp_path / "workspace", "master", None, [])
    first, again = ScriptedModel(reading), ScriptedModel(reading)
    whole = MemoryJournal(order.id)
    await crew(settings, first).run(order, OrderContext(whole))
    last = [entry.seq for entry in whole.entries if isinstance(entry.data, ModelReplied)][-1]
    kept = whole.entries[: last - 1]
    rest = MemoryJournal(order.id, entries=kept)
    rest.texts.update(whole.texts)
    await crew(settings, again).run(order, OrderContext(rest, tree=Tree.of(kept)))
    assert again.asks[0].system == first.asks[1].system
    assert again.asks[0].messages == first.asks[1].messages
    assert MARK in repr(again.asks[0].messages)


async def test_the_turns_before_are_shown_without_secrets(tmp_path: Path) -> None:
    end = TurnEnd(fresh_id(), 1, f"It is {TOKEN}", OrderStatus.SUCCEEDED, f"Yes, {KEY}.")
    before = SessionOpening(prompt_and_answer(end, (), 9))
    model, order = ScriptedModel(["Well."]), order_from("go", tmp_path / "workspace", "master", None, [])
    await crew(settings_in(tmp_path), model).run(order, OrderContext(MemoryJournal(order.id), session=before))
    assert leaks(repr(model.asks)) == [] and f"It is {MARK}" in repr(model.asks)


async def test_an_error_of_ours_is_told_without_secrets() -> None:
    async with Bench(redactor=lambda: Redactor(["the crew is broken"])) as bench:
        order = bench.place("break")
        await bench.runner.work(order.id)
        finished = bench.journal(order.id)[-1].data
        kept = bench.store.orders.get(order.id)
    assert kept.detail is not None and kept.detail.endswith(f"RuntimeError: {MARK}")
    assert kept.detail in to_json(finished).decode()


def test_celery_is_told_of_an_error_without_secrets() -> None:
    """Flower shows the words and the traceback of a task that failed."""

    class Breaking:
        def work(self, order_id: str) -> None:
            raise RuntimeError(f"the address is {KEY}")

    app = SimpleNamespace(drone=Breaking(), settings=SimpleNamespace(redactor=Redactor([KEY])))
    with pytest.raises(TaskBroke) as broke:
        run_order(SimpleNamespace(app=app), fresh_id())
    assert leaks("".join(traceback.format_exception(broke.value))) == []
    assert str(broke.value) == f"RuntimeError: the address is {MARK}"


async def test_what_people_ask_of_an_order_that_nobody_runs_has_no_secret(tmp_path: Path) -> None:
    store = temporary_store()
    order = store.orders.place(NewOrder(prompt="go"), by=Actor("operator")).order
    settings = load({"MCC_TOKEN": TOKEN}, data_dir=tmp_path)
    with Served(store, tmp_path, settings=settings) as served:
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {served.token}"}) as client:
            await client.post(f"{served.url}/api/v1/orders/{order.id}/cancel", json={"reason": f"not {TOKEN}"})
            told = (await client.get(f"{served.url}/api/v1/orders/{order.id}/events")).text
    assert f"not {MARK}" in told and leaks(told) == []
    assert store.orders.get(order.id).detail == f"not {MARK}"


def crew(settings: Settings, model: ScriptedModel) -> Crew:
    known: Any = OneModel(model)
    return Crew(settings, Definitions.load(settings.prompts_dir), known)


async def test_thinking_that_was_signed_is_left_out_when_it_has_a_secret(tmp_path: Path) -> None:
    order = order_from("go", tmp_path / "workspace", "master", None, [])
    journal = MemoryJournal(order.id)
    await crew(settings_in(tmp_path), ScriptedModel(reading)).run(order, OrderContext(journal))
    reply = next(entry.data for entry in journal.entries if isinstance(entry.data, ModelReplied))
    assert reply.thinking == f"It is {MARK}.Well."
    first, second, text, *calls = reply.blocks
    assert (first, second) == (ThinkingBlock(text=f"It is {MARK}."), ThinkingBlock(text="Well.", signature="s2"))
    assert isinstance(text, TextBlock)
    assert [call.extra for call in calls if isinstance(call, ToolCallBlock)] == [None, {"signature": "s3"}, None, None]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 13, 21])
async def test_no_secret_is_told_while_its_text_is_on_its_way(tmp_path: Path, size: int) -> None:
    text = " and ".join(EVERY_FORM)
    line = Line(text=text, pieces=tuple(text[at : at + size] for at in range(0, len(text), size)))
    heard: list[str] = []
    order = order_from("go", tmp_path / "workspace", "master", None, [])
    journal = MemoryJournal(order.id, hear=lambda _, __, piece: heard.append(piece))
    outcome = await crew(settings_in(tmp_path), ScriptedModel([line])).run(order, OrderContext(journal))
    assert outcome.answer == "".join(heard)
    assert "".join(heard).count(MARK) == len(EVERY_FORM) and leaks("".join(heard)) == []


async def test_a_token_that_is_made_later_is_known_then(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    later = "Made-Later_8sKq2LpWz0RtYv6BnHx4JcMd"
    order = order_from("go", tmp_path / "workspace", "master", None, [])
    known = crew(settings, ScriptedModel(lambda _: f"It is {later}."))
    assert (await known.run(order, OrderContext(MemoryJournal(order.id)))).answer == f"It is {later}."
    await asyncio.to_thread((settings.data_dir / "token").write_text, later)
    assert (await known.run(order, OrderContext(MemoryJournal(order.id)))).answer == f"It is {MARK}."
    assert settings.redactor.text(f"{TOKEN} and {later}") == f"{MARK} and {MARK}", "the one before stays secret"
