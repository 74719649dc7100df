"""Two drones with separate data directories and one workspace: a drone can revert only from its own checkpoints."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Event

from drone.agent.turns.toolset import StartedCall
from drone.agent.turns.writing import hold_workspace
from drone.checkpoints.directory import CheckpointDirectory
from drone.checkpoints.recording import CallCheckpoints
from drone.order_context import OrderContext
from drone.sandbox.places.paths import Roots
from drone.worker.executions import Stop
from drone.worker.site import Site
from drone.worker.workspaces import Workspaces, WorkspaceTimes
from mcc.contracts.callers import Actor
from mcc.contracts.changes import NewRevert
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.order import OrderKind, OrderOutcome, WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.redaction import Redactor
from mcc.store.store import Store
from mcc.testing import temporary_store
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import FakeCrew, started


class KeepingCrew(FakeCrew):
    """Writes the drone's name into the file `by`, after a checkpoint; carries out reverts."""

    def __init__(self, name: str, data: Path) -> None:
        super().__init__()
        self.name = name
        self.checkpoints = CheckpointDirectory.within(data)

    async def run(self, order: WorkOrder, context: OrderContext) -> OrderOutcome:
        workspace = context.workspace
        assert workspace is not None
        turn = context.turn(order, self.pools.of(order.id), Redactor())
        if order.kind is OrderKind.REVERT:
            return await self.checkpoints.revert(order, workspace, turn, context.reached)
        who = Origin(record_id=root_record_id(order.id), agent=order.agent)
        if turn.tree.root is None:
            await turn.journal.write(who, started(order.prompt))
        await hold_workspace(turn, "a call", who)
        call = StartedCall(f"call of {self.name}", "write", {}, who, turn)
        taken = CallCheckpoints(self.checkpoints.of(order, workspace), call, turn, Event())
        await taken.before(call.call_id)
        await turn.journal.confirm_held()
        (workspace.root / "by").write_text(self.name)
        await taken.changed()
        self.began.set()
        if order.prompt == f"until {self.name}":
            await asyncio.Event().wait()
        return OrderOutcome(status=OrderStatus.SUCCEEDED, answer=self.name)


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Drones:
    """Drones with separate data directories, on one workspace and one store."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.place = folder / "roots" / "place"
        self.place.mkdir(parents=True)
        (self.place / "by").write_text("a person")
        self.store: Store = temporary_store()
        self.clock = Clock()
        self.crews: dict[str, KeepingCrew] = {}
        self._stack = stack

    async def up(self, name: str) -> Bench:
        data = self.folder / name

        def workspaces(bench: Bench) -> Workspaces:
            times = WorkspaceTimes(grace_seconds=0.0, clock=self.clock)
            site = Site(Roots((self.place.parent,)), data / "run", name)
            return Workspaces(bench.async_store, crew, bench.trust, site, times)

        crew = self.crews[name] = KeepingCrew(name, data)
        bench = Bench(self.store, crew=crew, workspaces=workspaces, name=name)
        return await self._stack.enter_async_context(bench)

    def reverted(self, order: WorkOrder, to: int | None = None) -> WorkOrder:
        return self.store.orders.revert(order.id, NewRevert(to=to), by=Actor("test")).order

    def by(self) -> str:
        return (self.place / "by").read_text()


async def test_a_revert_is_left_to_the_drone_that_has_the_checkpoints(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        drones = Drones(tmp_path, stack)
        one, two = await drones.up("one"), await drones.up("two")
        left = await one.runner.work(one.place("write", workspace=str(drones.place)).id)
        assert left is not None and drones.by() == "one"
        revert = drones.reverted(left.order)
        for _ in range(3):
            assert await two.runner.work(revert.id) is None
            drones.clock.now += 60
        assert drones.store.orders.get(revert.id).status is OrderStatus.QUEUED and drones.by() == "one"
        assert await one.runner.work(revert.id) is not None
        assert drones.store.orders.get(revert.id).status is OrderStatus.SUCCEEDED and drones.by() == "a person"


async def test_a_revert_fails_with_a_reason_when_the_drone_with_the_checkpoints_is_down(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        drones = Drones(tmp_path, stack)
        one, two = await drones.up("one"), await drones.up("two")
        left = await one.runner.work(one.place("write", workspace=str(drones.place)).id)
        assert left is not None
        drones.store.leases.leave(one.trust.incarnation or "")
        revert = drones.reverted(left.order)
        assert await two.runner.work(revert.id) is None
        drones.clock.now += 6
        assert await two.runner.work(revert.id) is not None
        ended = drones.store.orders.get(revert.id)
        assert (ended.status, ended.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
        assert "taken by drone one, which is not up" in str(ended.detail) and drones.by() == "one"


async def test_the_part_of_another_drone_cannot_be_reverted_but_what_came_after_it_can(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        drones = Drones(tmp_path, stack)
        one, two = await drones.up("one"), await drones.up("two")
        order = one.place("until one", workspace=str(drones.place))
        working = asyncio.create_task(one.runner.work(order.id))
        await drones.crews["one"].began.wait()
        for execution in one.executions:
            execution.halt(Stop.HAND_BACK)
        assert await working is None
        held = [(claim.order.id, claim.epoch) for claim in one.executions.to_hand_back()]
        drones.store.claims.hand_back(held, drone="one", message="bye")
        last = len(one.journal(order.id))
        assert await two.runner.work(order.id) is not None and drones.by() == "two"

        whole = drones.reverted(order)
        for drone in (one, two, one, two):
            drones.clock.now += 6
            await drone.runner.work(whole.id)
        ended = drones.store.orders.get(whole.id)
        assert (ended.status, ended.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
        assert "the checkpoints that one took" in str(ended.detail) and drones.by() == "two"

        part = drones.reverted(order, to=last)
        assert await one.runner.work(part.id) is None
        await two.runner.work(part.id)
        assert drones.store.orders.get(part.id).status is OrderStatus.SUCCEEDED and drones.by() == "one"


async def test_drones_of_one_host_with_directories_of_their_own_keep_out_of_a_workspace_and_what_it_lies_in(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        drones = Drones(tmp_path, stack)
        one, two = await drones.up("one"), await drones.up("two")
        working = asyncio.create_task(one.runner.work(one.place("until one", workspace=str(drones.place)).id))
        await drones.crews["one"].began.wait()
        (drones.place / "sub").mkdir()
        for there in (drones.place, drones.place.parent, drones.place / "sub"):
            order = two.place("write", workspace=str(there), write=True)
            assert await two.runner.work(order.id) is None
            waits = drones.store.orders.get(order.id)
            assert (waits.status, waits.reason) == (OrderStatus.WAITING, WaitingReason.WORKSPACE)
        for execution in one.executions:
            execution.halt(Stop.FENCED)
        await working
        assert drones.by() == "one"
