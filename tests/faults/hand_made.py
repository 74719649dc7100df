"""Evidence made by hand: a small run whose every line is written here, as the harness would write it.

Three orders: one played in one go, one that went through a lost drone and a hand-back, one that was cancelled.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.blocks import ToolCall, blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import call_id, child_record_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.usage import Usage
from mcc.store.store import Store, open_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.faults.script import IDEM, ONCE, Part, Step, Wanted, expected, prompt_of

Change = Callable[["Run"], None]


@dataclass
class Run:
    """The directory of a run and its database, both still open to tampering."""

    directory: Path
    url: str
    plain: str = ""
    taken: str = ""
    cancelled: str = ""

    def add(self, name: str, /, **line: object) -> None:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / name).read_text().splitlines()]

    def rewrite(self, name: str, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        kept = change(self.lines(name))
        (self.directory / name).write_text("".join(json.dumps(line) + "\n" for line in kept))

    def effects(self) -> list[str]:
        return (self.directory / "ledger.log").read_text().splitlines()

    def effect(self, *parts: object) -> None:
        with (self.directory / "ledger.log").open("a") as file:
            file.write("\t".join(map(str, parts)) + "\n")

    def say(self, **said: object) -> None:
        """Change `run.json`."""
        path = self.directory / "run.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **said}))

    def sql(self, *statements: str, **values: object) -> None:
        with self._connected() as connection:
            connection.execute(sa.text("DROP TRIGGER IF EXISTS journal_is_append_only"))
            for statement in statements:
                connection.execute(sa.text(statement), values)

    def value(self, statement: str, **values: object) -> Any:
        with self._connected() as connection:
            return connection.execute(sa.text(statement), values).scalar()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        engine = sa.create_engine(self.url)
        with engine.begin() as connection:
            yield connection
        engine.dispose()


@dataclass
class Player:
    """Plays an order's script by hand: every entry, every effect, every request, in their order."""

    run: Run
    held: HeldOrder
    done: set[str] = field(default_factory=set)

    @property
    def epoch(self) -> int:
        return self.held.claim.epoch

    def play(self, part: Part, origin: Origin, call: str | None = None, steps: slice = slice(None)) -> None:
        if steps.start in (None, 0):
            self._write(origin, _started(part, call))
        for index in range(*steps.indices(len(part.steps))):
            self._step(part, index, origin)
        if steps.stop is None and origin.parent_id is not None:
            result = dict(part.report) if part.report else None
            end = AgentFinished(status=RecordStatus.COMPLETED, answer=part.answer, result=result)
            self._write(origin, end)

    def _step(self, part: Part, index: int, origin: Origin) -> None:
        step = part.steps[index]
        record = origin.record_id or ""
        self._write(origin, ModelStarted(round=index + 1, attempt=1, model="fake", reserved_tokens=100))
        self.request(part, index)
        calls = tuple(_tool_call(record, index, place, wanted) for place, wanted in enumerate(step.calls))
        self._write(origin, _replied(step, index, calls))
        if calls:
            self._write(origin, *(_intent(one, index, place) for place, one in enumerate(calls)))
        for wanted, one in zip(step.calls, calls, strict=True):
            self._write(origin, self._called(part, origin, wanted, one))

    def request(self, part: Part, index: int) -> None:
        self.run.add(
            "llm.jsonl",
            t=time.time(),
            order=self.held.id,
            agent=part.path,
            step=index,
            n=1,
            digest="",
            fault=None,
            outcome="answered",
            input_tokens=10,
            output_tokens=5,
        )

    def _called(self, part: Part, origin: Origin, wanted: Wanted, one: ToolCall) -> ToolFinished:
        if wanted.name in (ONCE, IDEM):
            self.run.effect(
                self.held.id, part.path, one.call_id, wanted.name, self.epoch, os.getpid(), repr(time.time())
            )
        children = []
        for place, child in enumerate(part.children if wanted.result is None else ()):
            below = Origin(
                record_id=child_record_id(one.call_id, place),
                parent_id=origin.record_id,
                agent=child.agent,
                depth=origin.depth + 1,
            )
            children.append(below.record_id or "")
            self.play(child, below, one.call_id)
        content = wanted.result if wanted.result is not None else "reports"
        return ToolFinished(
            call_id=one.call_id, name=one.name, content=content, is_error=False, subagent_ids=tuple(children)
        )

    def _write(self, origin: Origin, *facts: Fact) -> None:
        self.held.write(*facts, origin=origin)


def _started(part: Part, call: str | None) -> AgentStarted:
    return AgentStarted(
        title=part.path,
        call_id=call,
        prompt=part.prompt,
        model=ModelChoice(requested="fake", effective="fake"),
        tools=(),
        limits=LimitChoice(),
        definition_digest="",
        setup_digest="",
    )


def _tool_call(record: str, index: int, place: int, wanted: Wanted) -> ToolCall:
    return ToolCall(call_id=call_id(record, index + 1, place), name=wanted.name, arguments=dict(wanted.arguments))


def _replied(step: Step, index: int, calls: tuple[ToolCall, ...]) -> ModelReplied:
    return ModelReplied(
        blocks=blocks_of(text=step.text, tool_calls=calls),
        round=index + 1,
        attempt=1,
        model="fake",
        finish_reason="tool_calls" if calls else "stop",
        usage=Usage(input_tokens=10, output_tokens=5, model_calls=1),
    )


def _intent(call: ToolCall, index: int, place: int) -> ToolStarted:
    return ToolStarted(
        call_id=call.call_id,
        round=index + 1,
        index=place,
        name=call.name,
        arguments=call.arguments,
        idempotent=call.name == IDEM,
    )


def make_run(directory: Path, url: str) -> Run:
    """A clean run. `url` names an empty database of this version."""
    run = Run(directory, url)
    (directory / "logs").mkdir(parents=True)
    (directory / "ledger.log").touch()
    (directory / "run.json").write_text(
        json.dumps({"seed": 1, "campaign": "hand", "database_url": url, "lease_seconds": 12.0, "limits": {}})
    )
    (directory / "processes.json").write_text("[]")
    (directory / "logs" / "drone-1.log").write_text("order claimed\n")
    store = open_store(url)
    try:
        run.plain = _played_in_one_go(run, store)
        run.taken = _taken_over(run, store, _session_of(store, run.plain))
        run.cancelled = _cancelled(run, store)
        _view(run, store)
    finally:
        store.close()
    return run


def _session_of(store: Store, order_id: str) -> str:
    return store.orders.get(order_id).session_id


def _placed(run: Run, store: Store, prompt: str, key: str, session_id: str | None = None) -> str:
    new = NewOrder.model_validate({"prompt": prompt, "session_id": session_id, "limits": {"total_tokens": 10_000}})
    order = store.orders.place(new, by=Actor("hand"), idempotency_key=key).order
    for _ in range(2):
        run.add(
            "orders.jsonl",
            t=time.time(),
            key=key,
            status=201,
            order_id=order.id,
            prompt=prompt,
            session_id=order.session_id,
            body_digest="",
        )
    return order.id


def _master(held: HeldOrder) -> Origin:
    return Origin(record_id=root_record_id(held.id), agent="master")


def _played_in_one_go(run: Run, store: Store) -> str:
    prompt = prompt_of("plain", 7, children=2, steps=4)
    order_id = _placed(run, store, prompt, "plain")
    held = HandDrone(store).claim(order_id)
    root = expected(prompt).root
    Player(run, held).play(root, _master(held))
    _finish(held, root.answer)
    return order_id


def _finish(held: HeldOrder, answer: str) -> None:
    held.write(AgentFinished(status=RecordStatus.COMPLETED, answer=answer), origin=_master(held))
    held.finish_without_start(answer)


def _taken_over(run: Run, store: Store, session_id: str) -> str:
    prompt = prompt_of("taken", 8, children=0, steps=6)
    order_id = _placed(run, store, prompt, "taken", session_id)
    root = expected(prompt).root
    first, second = HandDrone(store, name="drone-1"), HandDrone(store, name="drone-2")
    held = second.claim(order_id)
    store.claims.hand_back([(order_id, held.claim.epoch)], drone="drone-2", message="bye")
    held = first.claim(order_id)
    Player(run, held).play(root, _master(held), steps=slice(0, 3))
    run.add("faults.jsonl", t=time.time(), fault="kill9", target="drone-1", detail=None)
    store.leases.leave(first.incarnation)
    store.sweeper.sweep(may_expire=True)
    held = second.claim(order_id)
    run.add("leases.jsonl", t=time.time(), order_id=order_id, epoch=held.claim.epoch, incarnation=second.incarnation)
    Player(run, held).play(root, _master(held), steps=slice(3, len(root.steps)))
    _finish(held, root.answer)
    return order_id


def _cancelled(run: Run, store: Store) -> str:
    prompt = prompt_of("cancelled", 9, children=0, steps=2)
    order_id = _placed(run, store, prompt, "cancelled")
    control = store.controls.request(order_id, ControlKind.CANCEL, NewControl(), by=Actor("hand"))
    run.add(
        "controls.jsonl",
        t=time.time(),
        order_id=order_id,
        kind="cancel",
        record_id=None,
        status=202,
        receipt_id=control.id,
    )
    return order_id


def _view(run: Run, store: Store) -> None:
    """One viewer of everything, cut off once in the middle of each order."""
    for order_id in (run.plain, run.taken, run.cancelled):
        for entry in store.journal.read(order_id, limit=10_000):
            run.add(
                "viewers/viewer-1.jsonl",
                t=time.time(),
                order_id=order_id,
                seq=entry.seq,
                kind=entry.kind,
                connection=int(entry.seq > 5),
            )
