"""Judging each step as it happens: the journal after every commit, the cause of every effect.

Times are numbers of steps (`now`), far enough apart that no tolerance of the offline invariants covers two of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mcc.contracts.entry import Entry as JournalEntry
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import to_json
from mcc.contracts.status import FINAL, OrderStatus
from mcc.contracts.wire import Hint
from mcc.store.database.errors import StoreError
from mcc.store.rows.texts import parsed
from mcc.store.rows.values import Appended, Batch, EndedOrder, Swept
from mcc.store.store import Store
from tests.faults.invariants.evidence import Effect, Entry, ModelCall, Violation
from tests.faults.invariants.orders import RELEASES

STEP = 10.0


@dataclass(slots=True)
class Watched:
    """An order as its journal tells it so far."""

    id: str
    session_id: str
    workspace: str | None = None
    writes: bool = False
    """It is the only one that may write in its workspace."""

    entries: list[Entry] = field(default_factory=list)
    holder: int | None = None
    epoch: int = 0
    ended: int | None = None
    status: OrderStatus = OrderStatus.QUEUED
    started: dict[str, Entry] = field(default_factory=dict)
    finished: dict[str, Entry] = field(default_factory=dict)
    asked: set[tuple[str | None, int]] = field(default_factory=set)
    answered: set[tuple[str | None, int]] = field(default_factory=set)

    def shares(self, other: "Watched") -> bool:
        """Whether the other one is at work in the same workspace."""
        return other is not self and other.holder is not None and None is not self.workspace == other.workspace


class Watch:
    """Collects what happens and which promises were broken by it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.orders: dict[str, Watched] = {}
        self.violations: list[Violation] = []
        self.effects: list[Effect] = []
        self.model_calls: list[ModelCall] = []
        self.fenced = 0
        self.kept_out = 0
        """How often an order was told to wait for its workspace."""

        self.side_by_side = 0
        """Claims of a workspace in which others are at work already."""

        self._steps = 0
        self._tries: dict[tuple[str, str, int], int] = {}

    def now(self) -> float:
        self._steps += 1
        return self._steps * STEP

    def placed(self, placed: WorkOrder) -> None:
        order_id = placed.id
        if order_id not in self.orders:
            self.orders[order_id] = Watched(order_id, placed.session_id, placed.workspace)
        self.look(order_id)

    def seen(self, part: str, method: str, args: tuple[Any, ...], named: dict[str, Any], answer: Any) -> None:
        """A call to the store came through."""
        match part, method:
            case "journal", "append":
                self._appended(args[0], answer)
            case "claims", "claim_together":
                for asked, claimed in zip(args[0], answer, strict=True):
                    if claimed is not None and not isinstance(claimed, StoreError):
                        self._was_claimed(asked.order_id)
            case "workspaces", "acquire":
                self.kept_out += answer is not None
            case "workspaces", "wake":
                self._look_at(answer)
            case "claims", "finish_together":
                for ending, ended in zip(args[0], answer, strict=True):
                    if isinstance(ended, EndedOrder):
                        self.look(ending.order_id, ending.epoch)
            case "claims", "park":
                self.look(args[0].order_id, args[0].epoch)
            case "claims", "hand_back":
                self._look_at(answer)
            case "claims", "resume":
                self.look(args[0])
            case "sweeper", "sweep":
                self._swept(answer)
            case "controls", "request":
                self.look(args[0])

    def _was_claimed(self, order_id: str) -> None:
        if (order := self.orders.get(order_id)) is not None:
            self.side_by_side += any(map(order.shares, self.orders.values()))
            self.look(order_id)

    def _appended(self, batches: Iterable[Batch], answer: Appended) -> None:
        for batch in batches:
            if batch.order_id in answer.fenced:
                self.fenced += 1
                continue
            if batch.order_id in answer.culprits:
                self._broken("I7", batch.order_id, f"an entry was refused: {answer.culprits[batch.order_id]}")
                continue
            order = self.orders[batch.order_id]
            if order.holder != batch.epoch and batch.entries:
                self._broken(
                    "I8", order.id, f"entries of epoch {batch.epoch} were accepted, its holder is {order.holder}"
                )
            self.look(order.id, batch.epoch)

    def _swept(self, swept: Swept) -> None:
        self._look_at([*swept.requeued, *swept.ended, *swept.resumed])

    def _look_at(self, order_ids: Iterable[str]) -> None:
        for order_id in order_ids:
            self.look(order_id)

    def look(self, order_id: str, epoch: int | None = None) -> None:
        """Take in what is new in this journal. `epoch` None: no holder wrote it."""
        order = self.orders[order_id]
        written = order.epoch + 1 if epoch is None else epoch
        for entry in self._store.journal.read(order_id, after=len(order.entries)):
            self._take(order, entry, written)
        reached = self._store.journal.reached([order_id])[order_id]
        if reached.seq != len(order.entries):
            self._broken("I5", order_id, f"it says {reached.seq} entries and has {len(order.entries)}")
        if order.status in FINAL and reached.status is not order.status:
            self._broken("I1", order_id, f"it was {order.status.value} and is {reached.status.value}")
        order.status = reached.status

    def _take(self, order: Watched, entry: JournalEntry, epoch: int) -> None:
        made = self._entry(order, entry, epoch)
        if made.seq != len(order.entries) + 1:
            self._broken("I5", order.id, f"entry {made.seq} follows entry {len(order.entries)}")
        if order.ended is not None:
            self._broken("I6", order.id, f"entry {made.seq} ({made.kind}) follows the end, {order.ended}")
        order.entries.append(made)
        order.epoch = max(order.epoch, made.epoch)
        match made.kind:
            case "order.claimed":
                self._claimed(order, made)
            case "order.finished":
                order.ended, order.holder, order.writes = made.seq, None, False
            case kind if kind in RELEASES:
                order.holder, order.writes = None, False
            case "workspace.held":
                self._writes(order)
            case "model.started":
                order.asked.add((made.record_id, made.data["round"]))
            case "model.replied":
                order.answered.add((made.record_id, made.data["round"]))
            case "tool.started":
                order.started[made.call_id or ""] = made
            case "tool.finished":
                self._result(order, made)

    def _entry(self, order: Watched, entry: JournalEntry, epoch: int) -> Entry:
        data = parsed(to_json(entry.data))
        told = 0 if entry.kind == "order.queued" else data.get("epoch") if entry.kind.startswith("order.") else None
        return Entry(
            order_id=order.id,
            seq=entry.seq,
            epoch=epoch if told is None else told,
            at=self.now(),
            kind=entry.kind,
            record_id=entry.record_id,
            parent_id=entry.parent_id,
            agent=entry.agent,
            call_id=data.get("call_id") if entry.kind.startswith("tool.") else None,
            data=data,
        )

    def _claimed(self, order: Watched, entry: Entry) -> None:
        if order.holder is not None:
            self._broken("I9", order.id, f"entry {entry.seq} claims it while epoch {order.holder} holds it")
        order.holder = entry.epoch
        for other in self.orders.values():
            if other is not order and other.session_id == order.session_id and other.holder is not None:
                self._broken("I9", order.id, f"it was claimed while {other.id} of its session runs")

    def _writes(self, order: Watched) -> None:
        order.writes = True
        for other in self.orders.values():
            if order.shares(other) and other.writes:
                self._broken("I9", order.id, f"it writes in its workspace while {other.id} does")

    def _result(self, order: Watched, entry: Entry) -> None:
        call = entry.call_id or ""
        if call in order.finished:
            self._broken("I3", order.id, f"the call {call} has a second result, entry {entry.seq}")
        order.finished.setdefault(call, entry)

    def hinted(self, hint: Hint) -> None:
        """Viewers were told that the order reached an entry."""
        there = len(self.orders[hint.order_id].entries)
        if hint.seq > there:
            self._broken("I5", hint.order_id, f"viewers were told of entry {hint.seq} when {there} were committed")

    def effect(self, order_id: str, path: str, call: str, tool: str, epoch: int) -> None:
        """A tool had its effect just now."""
        order = self.orders[order_id]
        if call not in order.started:
            self._broken("I4", order_id, f"{tool} {call} had an effect that no entry announced")
        again = call in order.finished and epoch >= order.finished[call].epoch
        if again:
            self._broken("I3", order_id, f"{tool} {call} ran after its result was committed")
        self.effects.append(Effect(order_id, path, call, tool, epoch, 0, self.now()))

    def requested(self, order_id: str, path: str, step: int, tokens: tuple[int, int]) -> None:
        """A model was asked just now."""
        key = (order_id, path, step)
        self._tries[key] = self._tries.get(key, 0) + 1
        made = ModelCall(self.now(), order_id, path, step, self._tries[key], "answered", *tokens)
        self.model_calls.append(made)

    def _broken(self, invariant: str, order_id: str, sentence: str) -> None:
        self.violations.append(Violation(invariant, order_id, sentence))
