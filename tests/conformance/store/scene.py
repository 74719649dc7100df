"""Helpers around a store under test: drones, orders and entries in one line each."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any, TypeVar
from uuid import uuid4

from mcc.contracts.blocks import blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.entry import ORDER, Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.fold import Fold
from mcc.contracts.ids import call_id, root_record_id
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.order import NewOrder, OrderOutcome, WorkOrder
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.rows.values import Appended, Batch, Claim, Ending, Placed
from mcc.store.store import Store
from mcc.testing import FakeClock

T = TypeVar("T")
LEASE_SECONDS = 12.0


@dataclass
class Held:
    """A held order with the numbers that its holder knows; `write` keeps them up to date."""

    scene: "Scene"
    order_id: str
    epoch: int
    attempt: int
    last_seq: int
    control_seq: int

    @property
    def origin(self) -> Origin:
        return Origin(record_id=root_record_id(self.order_id), agent="master")

    def batch(self, *facts: Fact, origin: Origin | None = None) -> Batch:
        at = self.scene.clock.now()
        drafts = [Draft(at=at, origin=origin or self.origin, data=fact) for fact in facts]
        entries = [draft.numbered(self.order_id, self.last_seq + index) for index, draft in enumerate(drafts, start=1)]
        return Batch(self.order_id, self.epoch, self.last_seq, entries)

    def write(self, *facts: Fact, origin: Origin | None = None) -> Appended:
        """Append these facts, and advance `last_seq` if they were committed."""
        batch = self.batch(*facts, origin=origin)
        answer = self.scene.store.journal.append([batch])
        if not answer.fenced and not answer.culprits:
            self.last_seq += len(batch.entries)
        return answer

    def ending(
        self, status: OrderStatus = OrderStatus.SUCCEEDED, *before: Fact, reason: FailureReason | None = None
    ) -> Ending:
        """An ending with `before`, entries that close open calls, and `order.finished`."""
        at = self.scene.clock.now()
        fold = Fold.of(self.order_id, self.scene.store.journal.read(self.order_id, limit=self.last_seq))
        drafts = [Draft(at=at, origin=self.origin, data=fact) for fact in before]
        seq = self.last_seq
        for draft in drafts:
            fold.add(draft.numbered(self.order_id, seq := seq + 1))
        for draft in fold.closing(at, RecordStatus.CANCELLED, "closed"):
            drafts.append(draft)
            fold.add(draft.numbered(self.order_id, seq := seq + 1))
        ended = OrderFinished.model_validate({"status": status, "reason": reason, "usage": fold.spent})
        drafts.append(Draft(at=at, origin=ORDER, data=ended))
        outcome = OrderOutcome.model_validate(
            {"status": status, "reason": reason, "answer": "the answer", "usage": fold.spent}
        )
        record = fold.record()
        return Ending(self.order_id, self.epoch, self.last_seq, self.control_seq, drafts, outcome, record)

    def finish(self, status: OrderStatus = OrderStatus.SUCCEEDED, *before: Fact) -> int:
        return self.scene.store.claims.finish(self.ending(status, *before))


@dataclass
class Scene:
    """A store under test with its clock; `kind` names the database behind it."""

    store: Store
    clock: FakeClock
    kind: str

    def place(self, prompt: str = "do it", **fields: Any) -> WorkOrder:
        return self.placed(prompt, **fields).order

    def placed(self, prompt: str = "do it", *, key: str | None = None, **fields: Any) -> Placed:
        new = NewOrder.model_validate({"prompt": prompt, **fields})
        return self.store.orders.place(new, by=Actor("someone"), idempotency_key=key)

    def drone(self, name: str = "drone-1", lease_seconds: float = LEASE_SECONDS, **fields: object) -> str:
        """Register a drone; answers its incarnation."""
        incarnation = str(uuid4())
        said = {"incarnation": incarnation, "name": name, "pid": 7, "host": "here", "version": "1", "slots": 4}
        registration = Registration.model_validate({**said, "queues": ("default",), **fields})
        self.store.leases.register(registration, lease_seconds=lease_seconds)
        return incarnation

    def claim(self, order_id: str, incarnation: str, token: str = "token") -> Claim | None:
        return self.store.claims.claim(order_id, incarnation=incarnation, claim_token=token, drone="drone-1")

    def hold(self, order_id: str, incarnation: str | None = None, token: str = "token") -> Held:
        claim = self.claim(order_id, incarnation or self.drone(), token)
        assert claim is not None
        return Held(self, order_id, claim.epoch, claim.attempt, claim.last_seq, claim.control_seq)

    def running(self, prompt: str = "do it", **fields: Any) -> Held:
        return self.hold(self.place(prompt, **fields).id)

    def lose(self) -> None:
        """Let every lease run out, and sweep."""
        self.clock.advance(LEASE_SECONDS + 1)
        self.store.sweeper.sweep(may_expire=True)

    def status(self, order_id: str) -> OrderStatus:
        return self.store.orders.get(order_id).status

    def kinds(self, order_id: str) -> list[str]:
        return [entry.kind for entry in self.store.journal.read(order_id)]

    def fold(self, order_id: str) -> Fold:
        """The fold of the journal. Raises ValueError when its numbers are not 1..N."""
        return Fold.of(order_id, self.store.journal.read(order_id, limit=100_000))


def started(prompt: str = "do it", call: str | None = None) -> AgentStarted:
    return AgentStarted(
        title="master",
        call_id=call,
        prompt=prompt,
        model=ModelChoice(requested="fast", effective="openai/fast"),
        tools=("read_file",),
        limits=LimitChoice(),
        definition_digest="d",
        setup_digest="s",
    )


def ended(answer: str | None = "the answer") -> AgentFinished:
    return AgentFinished(status=RecordStatus.COMPLETED, answer=answer)


def replied(text: str = "hello", *, tokens: int = 10, round_number: int = 1) -> ModelReplied:
    return ModelReplied(
        blocks=blocks_of(text=text),
        round=round_number,
        attempt=1,
        model="openai/fast",
        finish_reason="stop",
        usage=Usage(input_tokens=tokens, output_tokens=1, model_calls=1, cost_usd=0.5),
    )


def called(record_id: str, round_number: int = 1, index: int = 0, arguments: object = None) -> ToolStarted:
    return ToolStarted.model_validate(
        {
            "call_id": call_id(record_id, round_number, index),
            "round": round_number,
            "index": index,
            "name": "read_file",
            "arguments": {"path": "a"} if arguments is None else arguments,
            "idempotent": True,
        }
    )


def returned(record_id: str, round_number: int = 1, index: int = 0, content: str = "text") -> ToolFinished:
    made = call_id(record_id, round_number, index)
    return ToolFinished(call_id=made, name="read_file", content=content, is_error=False)


def at_once(*acts: Callable[[], T]) -> Sequence[T | BaseException]:
    """Run each act in a thread of its own, all started at the same moment; answers each result or exception."""
    barrier = Barrier(len(acts))

    def act(one: Callable[[], T]) -> T | BaseException:
        barrier.wait()
        try:
            return one()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act, acts))
