"""The ports of a process under test, wrapped so that calls of theirs hit failpoints.

Each wrapper passes on what it does not name, so that a port may grow without it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from drone.agent.ports.journal import DeltaKind, Journal, RedactedJournal
from drone.agent.ports.model import Ask, Listener, Model, Reply
from drone.agent.state.tree import TreeJournal
from drone.agent.turns.toolset import Output, StartedCall, ToolSet
from drone.models.registry import Models, Unusable
from drone.sandbox.places.paths import Workspace
from drone.settings import Settings
from drone.tools.catalog import Toolbox
from drone.tools.frame.tool import FunctionTools, Joined
from mcc.contracts.entry import Entry
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.dispatch.nudge import Nudger
from mcc.store.database.errors import StoreError
from mcc.store.rows.values import Appended, Batch, Claim, ClaimingDrone, ClaimRequest, EndedOrder, Ending, Placed, Swept
from mcc.store.store import Store
from mcc.store.work.claiming import ClaimAnswer
from mcc.transcript.messages import ToolSpec, UserMessage
from tests.faults.failpoints import Failpoints
from tests.faults.ledger import Ledger, ledger_tools
from tests.faults.poison import poison_tools
from tests.faults.script import Play


class Passing:
    """Everything of `port` that a subclass does not define."""

    def __init__(self, port: Any, points: Failpoints) -> None:
        self._port = port
        self._points = points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class Noted:
    """A port that tells when one of its calls is in the database, and its parts as well."""

    def __init__(self, port: Any, points: Failpoints) -> None:
        self._port = port
        self._points = points

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return Noted(found, self._points)

        def called(*arguments: Any, **named: Any) -> Any:
            with self._points.in_store():
                return found(*arguments, **named)

        return called


def failing(store: Store, points: Failpoints) -> Store:
    """The store with failpoints around its writes."""
    return cast("Store", _Store(Noted(store, points), points))


class _Store(Passing):
    def __init__(self, store: Any, points: Failpoints) -> None:
        super().__init__(store, points)
        self.orders = _Orders(store.orders, points)
        self.claims = _Claims(store.claims, points)
        self.journal = _Journal(store.journal, points)
        self.texts = _Texts(store.texts, points)
        self.leases = _Leases(store.leases, points)
        self.sweeper = _Sweeper(store.sweeper, points)


class _Orders(Passing):
    def place(self, new: Any, **more: Any) -> Placed:
        play = Play.of(new.prompt)
        key = play.key if play else None
        placed: Placed = self._points.before("F1", key, lambda: self._port.place(new, **more))
        self._points.know(placed.order.id, new.prompt)
        self._points.hit("F2", placed.order.id)
        return placed


class _Claims(Passing):
    def claim_together(self, asked: Sequence[ClaimRequest], by: ClaimingDrone) -> Sequence[ClaimAnswer]:
        def claim() -> Sequence[ClaimAnswer]:
            answers: Sequence[ClaimAnswer] = self._port.claim_together(asked, by)
            return answers

        for one in asked:
            claim = partial(self._points.before, "F4", one.order_id, claim)
        answers = claim()
        for answer in answers:
            if isinstance(answer, Claim):
                self._points.know(answer.order.id, answer.order.prompt)
                self._points.hit("F5", answer.order.id)
        return answers

    def finish_together(self, endings: Sequence[Ending]) -> Sequence[EndedOrder | StoreError]:
        def finish() -> Sequence[EndedOrder | StoreError]:
            answers: Sequence[EndedOrder | StoreError] = self._port.finish_together(endings)
            return answers

        for one in endings:
            finish = partial(self._points.before, "F18", one.order_id, finish)
        answers = finish()
        for one, answer in zip(endings, answers, strict=True):
            if isinstance(answer, EndedOrder):
                self._points.hit("F19", one.order_id)
        return answers

    def hand_back(self, held: Sequence[tuple[str, int]], **more: Any) -> Sequence[str]:
        first = held[0][0] if held else None
        returned: Sequence[str] = self._points.before("F21", first, lambda: self._port.hand_back(held, **more))
        return returned


class _Journal(Passing):
    def __init__(self, port: Any, points: Failpoints) -> None:
        super().__init__(port, points)
        self._open_calls: defaultdict[tuple[str, str | None], set[str]] = defaultdict(set)

    def append(self, batches: Sequence[Batch]) -> Appended:
        for batch in batches:
            if any(_is_childs(entry, "agent.started") for entry in batch.entries):
                self._points.hit("F14", batch.order_id)
        appended: Appended = self._port.append(batches)
        for batch in batches:
            if batch.order_id not in appended.fenced and batch.order_id not in appended.culprits:
                for name in self._places(batch):
                    self._points.hit(name, batch.order_id)
        return appended

    def _places(self, batch: Batch) -> Iterator[str]:
        """The places that a process is at after the commit of these entries."""
        kinds = {entry.kind for entry in batch.entries}
        fanned_out = [self._leaves_calls_open(entry) for entry in batch.entries]
        if "model.replied" in kinds:
            yield "F9"
        if "tool.started" in kinds:
            yield "F10"
        if "tool.finished" in kinds:
            yield "F13"
        if any(_is_childs(entry, "agent.started") for entry in batch.entries):
            yield "F15"
        if any(_is_childs(entry, "agent.finished") for entry in batch.entries):
            yield "F16"
        if any(fanned_out):
            yield "F17"

    def _leaves_calls_open(self, entry: Entry) -> bool:
        """Whether this is the result of a call beside which others of its record are still open."""
        there = self._open_calls[(entry.order_id, entry.record_id)]
        match entry.data:
            case ToolStarted(call_id=call_id):
                there.add(call_id)
            case ToolFinished(call_id=call_id):
                there.discard(call_id)
                return bool(there)
        return False


def _is_childs(entry: Entry, kind: str) -> bool:
    return entry.kind == kind and entry.parent_id is not None


class _Texts(Passing):
    def keep(self, text: str, **more: Any) -> str:
        digest: str = self._port.keep(text, **more)
        self._points.hit("F24")
        return digest


class _Leases(Passing):
    def renew(self, incarnation: str, **more: Any) -> bool:
        renewed: bool = self._port.renew(incarnation, **more)
        self._points.hit("F23")
        return renewed


class _Sweeper(Passing):
    def sweep(self, **more: Any) -> Swept:
        swept: Swept = self._port.sweep(**more)
        if swept.requeued:
            self._points.hit("F22", swept.requeued[0])
        return swept


class FailingNudger(Nudger):
    """Hits F3 when the nudge of a new order was sent."""

    points: Failpoints | None = None

    def nudge(self, order_id: str, *, queue: str = "default", priority: int = 5, last_seq: int = 1) -> bool:
        sent = super().nudge(order_id, queue=queue, priority=priority, last_seq=last_seq)
        if self.points is not None:
            self.points.hit("F3", order_id)
        return sent


@dataclass(frozen=True, slots=True)
class FailingModel:
    """A model with failpoints before, in the midst of, and after its reply."""

    model: Model
    points: Failpoints

    @property
    def name(self) -> str:
        return self.model.name

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        key = key_of(ask)
        await self.points.hit_async("F6", key)
        reply = await self.model.ask(ask, cast("Listener", _Ear(listener, self.points, key)))
        await self.points.hit_async("F8", key)
        return reply


class _Ear(Passing):
    def __init__(self, listener: Listener, points: Failpoints, key: str | None) -> None:
        super().__init__(listener, points)
        self._key = key

    def delta(self, kind: DeltaKind, text: str, call: object = None) -> None:
        self._port.delta(kind, text, call)
        self._points.hit("F7", self._key)


def key_of(ask: Ask) -> str | None:
    """The key of the order that asks, by its prompts."""
    texts = [message.text for message in ask.messages if isinstance(message, UserMessage)]
    play = next((play for text in reversed(texts) if (play := Play.of(text))), None)
    return play.key if play else None


class FailingModels(Models):
    """The models of a drone, each with failpoints."""

    def __init__(self, settings: Settings, points: Failpoints) -> None:
        super().__init__(settings)
        self._points = points

    def get(self, name: str) -> Model:
        model = super().get(name)
        return model if isinstance(model, Unusable) else FailingModel(model, self._points)


@dataclass(frozen=True, slots=True)
class FailingTools:
    """A tool set that hits F12 when a tool has done its work."""

    tools: ToolSet
    points: Failpoints

    def specs(self) -> Sequence[ToolSpec]:
        return self.tools.specs()

    async def call(self, call: StartedCall) -> Output:
        output = await self.tools.call(call)
        journal: Journal | None = call.turn.journal if call.turn else None
        while isinstance(journal, RedactedJournal | TreeJournal):
            journal = journal.journal
        await self.points.hit_async("F12", getattr(journal, "order_id", None))
        return output


class LedgerToolbox(Toolbox):
    """The tools of this package, and those of the ledger."""

    ledger: Ledger
    points: Failpoints

    @classmethod
    def around(cls, ledger: Ledger, points: Failpoints, prompts_dir: Path | None) -> "LedgerToolbox":
        found = Toolbox.found(prompts_dir)
        made = cls(found.ripgrep, found.git, found.skills, shell=found.shell)
        object.__setattr__(made, "ledger", ledger)
        object.__setattr__(made, "points", points)
        return made

    def tools(self, workspace: Workspace | Path | None, *given: Any, **named: Any) -> ToolSet:
        async def midway(order_id: str) -> None:
            await self.points.hit_async("F11", order_id)

        there = Workspace(workspace) if isinstance(workspace, Path) else workspace
        own = FunctionTools((*ledger_tools(self.ledger, midway), *poison_tools()), workspace=there)
        return FailingTools(Joined(super().tools(there, *given, **named), own), self.points)
