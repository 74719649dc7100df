"""This room is for the journal of a held order, as the agent loop sees it and as its holder closes it."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from drone.agent.ports import DeltaKind, Fenced
from mcc.contracts.fold import Fold
from mcc.contracts.journal import Draft, Fact, Origin
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now
from mcc.contracts.wire import Delta


class Committer(Protocol):
    """Whoever commits entries of many orders."""

    async def append(self, journal: "OrderJournal", drafts: Sequence[Draft]) -> int: ...

    async def keep(self, text: str) -> str: ...

    async def kept(self, digest: str) -> str | None: ...

    async def quiet(self, journal: "OrderJournal") -> None: ...

    def believes(self, journal: "OrderJournal") -> bool: ...

    async def believing(self, journal: "OrderJournal") -> None: ...

    def delta(self, delta: Delta) -> None: ...


class OrderJournal:
    """One order under one epoch. Keeps the fold of what was committed; conforms to `drone.agent.ports.Journal`."""

    def __init__(self, committer: Committer, order_id: str, epoch: int, fold: Fold, incarnation: str = "") -> None:
        self._committer = committer
        self.order_id = order_id
        self.epoch = epoch
        self.incarnation = incarnation
        self.fold = fold
        self.sealed = False
        self._keeping = asyncio.Semaphore()
        self.weight = 0
        """About as many bytes as its entries take in memory; what was read of it is added by the reader."""

    @property
    def last_seq(self) -> int:
        """Number of the last committed entry."""
        return self.fold.last_seq

    async def write(self, origin: Origin, *facts: Fact) -> int:
        at = now()
        return await self.append([Draft(at=at, origin=origin, data=fact) for fact in facts])

    async def append(self, drafts: Sequence[Draft]) -> int:
        """Commit these entries, in this order; answers the number of the last. Raises `Fenced`, `Unwritable`."""
        self.check_open()
        return await self._committer.append(self, drafts) if drafts else self.last_seq

    async def keep(self, text: str) -> str:
        """One at a time, so that an order with many long texts leaves threads to its neighbours."""
        async with self._keeping:
            return await self._committer.keep(text)

    async def kept(self, digest: str) -> str | None:
        return await self._committer.kept(digest)

    async def cleared(self) -> None:
        self.check_open()
        if not self._committer.believes(self):
            await self._committer.believing(self)

    async def close(self, status: AgentEnd, error: str, under: str | None = None) -> None:
        await self.quiet()
        await self.append(self.fold.closing(now(), status, error, under))

    def delta(self, origin: Origin, kind: DeltaKind, round_number: int, attempt: int, offset: int, text: str) -> None:
        if self.sealed or origin.record_id is None:
            return
        self._committer.delta(
            Delta.model_construct(
                type="delta",
                kind=kind,
                order_id=self.order_id,
                epoch=self.epoch,
                record_id=origin.record_id,
                parent_id=origin.parent_id,
                agent=origin.agent,
                depth=origin.depth,
                round=round_number,
                attempt=attempt,
                offset=offset,
                text=text,
            )
        )

    def check_open(self) -> None:
        """Raises `Fenced` once the journal is sealed."""
        if self.sealed:
            raise Fenced(f"order {self.order_id} is no longer this run's to write")

    def seal(self) -> None:
        """Nothing is written or told from here on; what waits to be committed still is."""
        self.sealed = True

    async def quiet(self) -> None:
        """Return when nothing of this order waits to be committed."""
        await self._committer.quiet(self)
