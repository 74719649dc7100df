"""Finds the drones that hold what an order needs from earlier ones: checkpoints to revert to, a session's checkout."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from drone.checkpoints.store import StoreBroken
from drone.crew import Crew
from drone.sandbox.places.paths import Workspace
from drone.worker.keeper import Keeper
from drone.worker.loop import AsyncStore
from mcc.contracts.git_facts import WorktreeMade
from mcc.contracts.journal import WorkspaceCheckpointed
from mcc.contracts.order import OrderKind, WorkOrder
from mcc.contracts.order_facts import OrderClaimed

PAGE = 100
_TURNS = 50
_NOWHERE = (
    "There is no checkpoint of order {} on this host ({}): it changed nothing, or what it changed is not kept any more."
)
_NOT_UP = (
    "Checkpoints of order {} were taken by drone {}, which is not up, or has lost them; this host ({}) has none. Start "
    "that drone with its data directory, and revert once more."
)
_SEVERAL = (
    "Order {} was worked on by several drones, and this host ({}) does not have the checkpoints that {} took: nothing "
    "was done. What the last of them did is taken back where it was kept, with the entry before which it began as `to`."
)
_ONLY_THERE = (
    "This session works in a checkout of {} that drone {} has, which is not up. Start that drone, or place the order "
    "in a session of its own."
)


@dataclass(slots=True)
class DronePart:
    """One drone's part of an order: the number of its `last` entry, and the checkpoints that the drone took."""

    drone: str
    last: int = 0
    checkpoints: set[str] = field(default_factory=set)


class Holders:
    """Looks up the holders for one drone."""

    def __init__(self, store: AsyncStore, crew: Crew, lease: Keeper) -> None:
        self._store = store
        self._crew = crew
        self._lease = lease

    async def session_of(self, order: WorkOrder) -> str:
        """The session in whose checkout the order works. A revert works in the checkout of the order that it
        reverts."""
        if order.kind is not OrderKind.REVERT or order.origin is None:
            return order.session_id
        source = order.origin.order_id
        return (await self._store.patiently(lambda store: store.orders.get(source))).session_id

    async def of_checkpoints(self, order: WorkOrder, known: Collection[str]) -> tuple[list[str], str]:
        """For a revert: names of the drones that took the checkpoints it needs, latest first, and why the `known`
        checkpoints of this host do not suffice. No names and an empty reason where they suffice."""
        assert order.origin is not None
        source, host, back_to = order.origin.order_id, os.uname().nodename, order.origin.after or 0
        parts = [part for part in await self._parts(source) if part.last > back_to]
        missing = [part for part in parts if not part.checkpoints.issubset(known)]
        if known and not missing:
            return [], ""
        names = list(dict.fromkeys(part.drone for part in reversed(parts)))
        if not known:
            return names, _NOT_UP.format(source, ", ".join(names), host) if names else _NOWHERE.format(source, host)
        others = ", ".join(dict.fromkeys(part.drone for part in missing))
        return names, _SEVERAL.format(source, host, others)

    async def of_checkout(self, order: WorkOrder) -> tuple[list[str], str]:
        """Names of the drones that have the checkout of the session's earlier turns, latest first, and why this drone
        cannot make one. No names and an empty reason where this drone may make it."""
        if order.session_seq == 1:
            return [], ""
        page = await self._store.patiently(lambda store: store.orders.list(session_id=order.session_id, limit=_TURNS))
        began = (one for one in page.items if one.session_seq < order.session_seq and one.started_at is not None)
        earlier = sorted(
            (one.session_seq, one.drone) for one in began if one.drone and one.workspace == order.workspace
        )
        names = list(dict.fromkeys(drone for _, drone in reversed(earlier)))
        if not names or (await self._registered())[0] in names:
            return [], ""
        return names, _ONLY_THERE.format(order.workspace, names[0])

    async def another_is_up(self, names: Sequence[str]) -> bool:
        """Whether the first of these drones that is up is a drone other than this."""
        me, others = await self._registered()
        up = next((name for name in names if name == me or name in others), None)
        return up is not None and up != me

    def known(self, order: WorkOrder, workspace: Workspace) -> frozenset[str]:
        """The checkpoints on this host of the order that is reverted. Blocks. Raises OSError."""
        assert order.origin is not None
        try:
            return self._crew.checkpoints.known(order.origin.order_id, workspace)
        except StoreBroken as problem:
            raise OSError(str(problem)) from problem

    async def _registered(self) -> tuple[str | None, list[str]]:
        """The name of this drone, and the names of the other drones that are up."""
        found = await self._store.patiently(lambda store: store.leases.registrations())
        me = next((one.name for one in found if one.incarnation == self._lease.incarnation), None)
        return me, [one.name for one in found if one.incarnation != self._lease.incarnation]

    async def _parts(self, order_id: str) -> list[DronePart]:
        """The parts of the order in which a drone took checkpoints."""
        parts: list[DronePart] = []
        worktrees: set[str | None] = set()
        last = 0
        while page := await self._store.page(order_id, after=last, limit=PAGE):
            for entry in page:
                if isinstance(entry.data, OrderClaimed):
                    parts.append(DronePart(entry.data.drone))
                elif isinstance(entry.data, WorktreeMade):
                    worktrees.add(entry.data.child_id)
                elif entry.record_id in worktrees or entry.parent_id in worktrees:
                    worktrees.add(entry.record_id)  # its checkpoints are those of its worktree
                elif isinstance(entry.data, WorkspaceCheckpointed) and parts:
                    parts[-1].checkpoints.add(entry.data.checkpoint_id)
                if parts:
                    parts[-1].last = entry.seq
            last = page[-1].seq
        if not parts:  # the journal was deleted already
            order = await self._store.patiently(lambda store: store.orders.get(order_id))
            return [DronePart(order.drone, order.last_seq)] if order.drone else []
        return [part for part in parts if part.checkpoints]
