"""This room is for a store in memory with a registered drone, and for the loop-side parts that work on it."""

import asyncio
from collections.abc import Callable, Iterable

from drone.worker.runner import Crew, Runner
from drone.worker.runs import Runs
from drone.worker.suspects import Suspects
from drone.worker.told import Teller
from drone.worker.workspaces import Workspaces
from drone.worker.writer import Writer
from mcc.contracts.drones import Registration
from mcc.contracts.fold import Fold
from mcc.contracts.ids import fresh_id
from mcc.contracts.journal import Entry
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.wire import Delta, Hint
from mcc.dispatch.hints import Told
from mcc.redaction import Redactor
from mcc.store.offload import Offload
from mcc.store.ports import Store
from mcc.store.values import Claim
from mcc.testing import MemoryStore
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


class Ears:
    """A publisher that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    async def tell(self, told: Iterable[Told]) -> bool:
        self.told.extend(told)
        return True

    @property
    def hints(self) -> list[Hint]:
        return [item for item in self.told if isinstance(item, Hint)]

    @property
    def deltas(self) -> list[Delta]:
        return [item for item in self.told if isinstance(item, Delta)]


class Trust:
    """A lease that is believed as long as the test says so."""

    def __init__(self, incarnation: str | None = None) -> None:
        self.trusted = True
        self.incarnation = incarnation


class Bench:
    """A store, a drone that is registered there, and a runner with a crew of fakes. Use inside `async with`."""

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
    ) -> None:
        self.store: Store = store or MemoryStore()
        self.trust = Trust(fresh_id())
        self.ears = Ears()
        self.teller = Teller(self.ears)
        self.offload = Offload(2)
        self.runs = Runs(redactor)
        self.crew = FakeCrew()
        self.fallen: list[BaseException] = []
        self.grown: list[int] = []
        self.writer = Writer(self.store, self.trust, self.teller, grew=self.grown.append)
        self.runner = Runner(
            self.store,
            self.offload,
            crew or self.crew,
            self.trust,
            self.runs,
            self.writer,
            self.teller,
            workspaces=workspaces and workspaces(self),
            suspects=suspects,
            unwind_seconds=unwind_seconds,
            park_after_seconds=park_after_seconds,
            fall=self.fallen.append,
        )
        self._loops: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Bench":
        self.store.leases.register(a_registration(self.trust.incarnation or ""), lease_seconds=60)
        self._loops = [asyncio.create_task(self.writer.run()), asyncio.create_task(self.teller.run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self.writer.close()
        self.offload.close()

    def place(self, prompt: str, **fields: object) -> WorkOrder:
        return self.store.orders.place(NewOrder.model_validate({"prompt": prompt, **fields}), principal="test").order

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
