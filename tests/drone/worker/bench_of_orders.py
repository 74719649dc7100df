"""A temporary store with a registered drone, and the loop-side parts that work on it."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

from drone.crew import Crew
from drone.worker.broadcaster import Broadcaster
from drone.worker.claiming import Claimant, Claiming, Slots
from drone.worker.ending import Finisher, Suspects
from drone.worker.executions import Executions, ExecutionTimes
from drone.worker.journal import Writer
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from drone.worker.runner import Runner
from drone.worker.sessions.idle import IdleCompaction
from drone.worker.workspaces import Workspaces
from mcc.contracts.callers import Actor
from mcc.contracts.drones import Registration
from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.wire import Delta, Hint
from mcc.dispatch.publisher import AsyncPublisher, Message
from mcc.redaction import Redactor
from mcc.store.rows.values import Claim
from mcc.store.store import Store
from mcc.testing import temporary_store
from tests.drone.worker.fake_crew import FakeCrew


def a_registration(incarnation: str = "", *, name: str = "d1", slots: int = 4) -> Registration:
    return Registration(
        incarnation=incarnation or fresh_id(),
        name=name,
        pid=1,
        host="here",
        version="0",
        queues=("default",),
        slots=slots,
    )


class RecordingPublisher(AsyncPublisher):
    """A publisher that records its messages."""

    def __init__(self) -> None:
        self.published: list[Message] = []

    def report_status(self, order: WorkOrder, why: str = "") -> None:
        """Does nothing: no monitor listens."""

    async def publish(self, messages: Iterable[Message]) -> bool:
        self.published.extend(messages)
        return True

    @property
    def hints(self) -> list[Hint]:
        return [item for item in self.published if isinstance(item, Hint)]

    @property
    def deltas(self) -> list[Delta]:
        return [item for item in self.published if isinstance(item, Delta)]


class Trust(Keeper):
    """A lease that is trusted for as long as the test says so."""

    trusted = True
    incarnation: str | None = None

    def __init__(self, incarnation: str | None = None) -> None:
        self.incarnation = incarnation


class Bench:
    """A store, a drone registered there, and a runner with a fake crew. Use inside `async with`."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        unwind_seconds: float = 5.0,
        park_after_seconds: float = 20.0,
        crew: Crew | None = None,
        redactor: Callable[[], Redactor] = Redactor,
        workspaces: "Callable[[Bench], Workspaces] | None" = None,
        suspects: Suspects | None = None,
        idle: IdleCompaction | None = None,
        name: str = "d1",
    ) -> None:
        self.name = name
        self.store: Store = store or temporary_store()
        self.trust = Trust(fresh_id())
        self.publisher = RecordingPublisher()
        self.broadcaster = Broadcaster(self.publisher)
        self.async_store = AsyncStore(self.store, 2)
        self.executions = Executions(redactor, ExecutionTimes(park_after_seconds, unwind_seconds))
        self.crew = FakeCrew()
        self.grown: list[int] = []
        self.writer = Writer(self.store, self.trust, self.broadcaster, grew=self.grown.append)
        self.claimant = Claimant(name, self.trust, Slots(4))
        self.runner = Runner(
            self.async_store,
            Claiming(self.async_store, self.claimant, self.broadcaster, workspaces and workspaces(self)),
            crew or self.crew,
            self.executions,
            self.writer,
            Finisher(self.async_store, self.broadcaster, suspects, idle),
        )
        self._loops: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.store.leases.register(a_registration(self.trust.incarnation or "", name=self.name), lease_seconds=60)
        self._loops = [asyncio.create_task(self.writer.run()), asyncio.create_task(self.broadcaster.run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self.writer.close()
        self.async_store.close()

    def with_parts(self, **parts: Any) -> None:
        """Replace these parts of the store for the drone's claims, controls and reads from here on."""
        self.async_store.store = replace(self.async_store.store, **parts)

    def place(self, prompt: str, **fields: object) -> WorkOrder:
        return self.store.orders.place(NewOrder.model_validate({"prompt": prompt, **fields}), by=Actor("test")).order

    def claim(self, order: WorkOrder) -> Claim:
        assert self.trust.incarnation is not None
        claim = self.store.claims.claim(
            order.id, incarnation=self.trust.incarnation, claim_token=fresh_id(), drone="d1"
        )
        assert claim is not None
        return claim

    def journal(self, order_id: str) -> list[Entry]:
        return list(self.store.journal.read(order_id))

    def kinds(self, order_id: str) -> list[str]:
        return [entry.kind for entry in self.journal(order_id)]

    def fold(self, order_id: str) -> Fold:
        return Fold.of(order_id, self.journal(order_id))
