"""An order with a workspace runs in a drone that sees it, and holds it: readers together, writers alone."""

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, ClassVar, TypeVar

import pytest

from drone.crew import Crew
from drone.sandbox.host_lock import Holder, HostLock
from drone.sandbox.places.paths import Roots, Workspace
from drone.sandbox.places.private import Private
from drone.sandbox.places.workspace_key import MARKER, workspace_key
from drone.threads import Pools, Threads
from drone.worker.entering import BUSY
from drone.worker.executions import Stop
from drone.worker.liveness import ThreadHealth
from drone.worker.site import Site, SiteVerdict, sight_of, verdict
from drone.worker.workspaces import TAKEN_BACK, UNREAD, ClaimPlan, Workspaces, WorkspaceTimes
from drone.worker.writing import WRITES
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.drones import Registration
from mcc.contracts.journal import WorkspaceHeld
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.store.store import Store
from mcc.testing import temporary_store
from tests.drone.worker.bench_of_orders import Bench, a_registration

T = TypeVar("T")
HERE = "this-machine"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def seeing(roots: Path | None, locks: Path, clock: Callable[[], float] | None = None) -> Callable[[Bench], Workspaces]:
    """Workspaces of a drone on this machine that works under `roots`."""

    def made(bench: Bench) -> Workspaces:
        return Workspaces(
            bench.async_store,
            bench.crew,
            bench.trust,
            Site(Roots(() if roots is None else (roots,)), locks, HERE),
            WorkspaceTimes(grace_seconds=0.0, clock=clock or Clock()),
        )

    return made


def another(roots: Path | str, host: str = "elsewhere") -> Registration:
    return a_registration(name="other").model_copy(update={"host": host, "workspace_roots": (str(roots),)})


def held(locks: Path) -> int:
    """How many orders hold a workspace on this machine."""
    return len(list(locks.glob("workspaces/*/*.json")))


def is_marked(place: Path) -> bool:
    return (place / MARKER).is_dir()


def waiting(bench: Bench, order: WorkOrder) -> bool:
    kept = bench.store.orders.get(order.id)
    return (kept.status, kept.reason) == (OrderStatus.WAITING, WaitingReason.WORKSPACE)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "roots" / "place"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.mark.parametrize(
    ("exists", "covered", "begun", "others", "expected"),
    [
        (True, True, False, [], SiteVerdict.HERE),
        (True, True, True, ["elsewhere"], SiteVerdict.HERE),
        (False, True, False, [], SiteVerdict.INVALID),
        (True, False, False, [], SiteVerdict.INVALID),
        (False, False, False, [], SiteVerdict.INVALID),
        (False, True, True, [], SiteVerdict.NOBODY),
        (True, False, True, [], SiteVerdict.NOBODY),
        (False, True, False, ["elsewhere"], SiteVerdict.PERHAPS),
        (True, False, True, ["elsewhere"], SiteVerdict.PERHAPS),
        (True, False, False, [HERE], SiteVerdict.ELSEWHERE),
        (True, False, False, ["elsewhere", HERE], SiteVerdict.ELSEWHERE),
        (False, True, False, [HERE], SiteVerdict.INVALID),
        (False, True, True, [HERE], SiteVerdict.NOBODY),
    ],
)
def test_what_a_drone_does_depends_on_what_it_and_the_others_see(
    tmp_path: Path, exists: bool, covered: bool, begun: bool, others: list[str], expected: SiteVerdict
) -> None:
    place = tmp_path / "place"
    if exists:
        place.mkdir()
    sight = sight_of(str(place), Roots([tmp_path] if covered else []))
    drones = [another(tmp_path, host) for host in others]
    assert verdict(sight, begun=begun, host=HERE, others=drones) is expected


@pytest.mark.parametrize("path", ["relative", "../escape", "/", "/proc/self/mem", "/no\udcffsuch"])
def test_a_path_outside_the_roots_is_not_seen(tmp_path: Path, path: str) -> None:
    assert not sight_of(path, Roots([tmp_path])).seen


def test_a_link_out_of_the_roots_is_not_seen(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "roots" / "link").symlink_to(tmp_path / "outside")
    assert not sight_of(str(tmp_path / "roots" / "link"), Roots([tmp_path / "roots"])).seen


class Counting(Store):
    """Counts the uses of the parts that an order without a workspace does not need."""

    asked: ClassVar[list[str]] = []  # the store is frozen

    def __getattribute__(self, name: str) -> object:
        if name in ("orders", "leases"):
            Counting.asked.append(name)
        return object.__getattribute__(self, name)


async def test_an_order_without_a_workspace_is_claimed_without_further_queries(place: Path, locks: Path) -> None:
    store = Counting(**vars(temporary_store()))
    async with Bench(store, workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("hello")
        store.asked.clear()
        assert await bench.runner.work(order.id) is not None
        assert store.asked == []
        assert held(locks) == 0


async def test_an_order_that_reads_marks_its_workspace_and_holds_nothing(place: Path, locks: Path) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("sleep 60", workspace=str(place))
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        assert is_marked(place) and held(locks) == 0
        (run,) = bench.executions
        run.halt(Stop.CANCEL)
        await working
        assert bench.kinds(order.id).count("order.claimed") == 1


async def test_an_order_that_writes_holds_its_workspace_until_its_claim_ends(place: Path, locks: Path) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("write for ever", workspace=str(place))
        working = asyncio.create_task(bench.runner.work(order.id))
        await bench.crew.began.wait()
        assert held(locks) == 1
        assert bench.kinds(order.id) == ["order.queued", "order.claimed", "agent.started", "workspace.held"]
        (run,) = bench.executions
        run.halt(Stop.CANCEL)
        await working
        assert held(locks) == 0


async def began(bench: Bench, *orders: WorkOrder) -> list["asyncio.Task[object]"]:
    working: list[asyncio.Task[object]] = [asyncio.create_task(bench.runner.work(order.id)) for order in orders]
    while any("agent.started" not in bench.kinds(order.id) for order in orders):
        await asyncio.to_thread(os.sched_yield)
    return working


async def test_one_writes_while_others_read_and_the_next_one_waits_for_it(place: Path, locks: Path) -> None:
    (place.parent / "copy").mkdir()
    async with Bench(workspaces=seeing(place.parent, locks), park_after_seconds=0.0) as bench:
        writer = bench.place("write for ever", workspace=str(place))
        working = await began(bench, *(bench.place("sleep 60", workspace=str(place)) for _ in range(2)), writer)
        await bench.crew.began.wait()
        elsewhere = bench.place("write", workspace=str(place.parent / "copy"))
        assert await bench.runner.work(elsewhere.id) is not None
        second = bench.place("write", workspace=str(place))
        assert await bench.runner.work(second.id) is None
        assert waiting(bench, second)
        assert bench.store.orders.get(second.id).detail == WRITES.format(place, writer.id)
        assert not bench.store.workspaces.wake()
        for run in bench.executions:
            run.halt(Stop.CANCEL)
        await asyncio.gather(*working)
        assert list(bench.store.workspaces.wake()) == [second.id]
        assert await bench.runner.work(second.id) is not None
        (fact,) = [entry.data for entry in bench.journal(second.id) if isinstance(entry.data, WorkspaceHeld)]
        assert fact.waited_seconds > 0


@pytest.mark.parametrize("how", ["asked to", "wrote before"])
async def test_an_order_that_writes_from_its_beginning_on_is_parked_at_once(place: Path, locks: Path, how: str) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("write for ever" if how == "wrote before" else "read", workspace=str(place), write=True)
        if how == "wrote before":
            await began_and_left(bench, order)
        writer = bench.place("write for ever", workspace=str(place))
        bench.crew.began.clear()
        working = await began(bench, writer)
        await bench.crew.began.wait()
        assert await bench.runner.work(order.id) is None
        assert waiting(bench, order) and held(locks) == 1
        for run in bench.executions:
            run.halt(Stop.CANCEL)
        await asyncio.gather(*working)


async def test_an_order_in_mode_plan_never_writes(place: Path, locks: Path) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("sleep 60", workspace=str(place), write=True, mode="plan")
        working = await began(bench, order)
        assert held(locks) == 0
        for run in bench.executions:
            run.halt(Stop.CANCEL)
        await asyncio.gather(*working)


async def test_an_order_on_a_path_that_no_drone_can_have_seen_is_claimed_and_fails(tmp_path: Path, locks: Path) -> None:
    async with Bench(workspaces=seeing(tmp_path, locks)) as bench:
        order = bench.place("hello", workspace=str(tmp_path / "typo"))
        assert await bench.runner.work(order.id) is not None
        assert held(locks) == 0


async def test_an_order_is_left_to_drones_that_may_see_its_workspace_and_then_waits_until_one_does(
    place: Path, locks: Path
) -> None:
    clock, store = Clock(), temporary_store()
    store.leases.register(another(place.parent), lease_seconds=60)
    async with Bench(store, workspaces=seeing(None, locks, clock)) as blind:
        order = blind.place("hello", workspace=str(place))
        assert await blind.runner.work(order.id) is None
        assert blind.kinds(order.id) == ["order.queued"]
        clock.now += 6
        assert await blind.runner.work(order.id) is None
        assert waiting(blind, order)
        assert str(place) in (store.orders.get(order.id).detail or "")
        await blind.broadcaster.flush()
        assert blind.publisher.hints[-1].status == "waiting"
        async with Bench(store, workspaces=seeing(place.parent, locks)) as seer:
            eyes = seeing(place.parent, locks)(seer)
            assert list(await seeing(None, locks)(blind).requeue_waiting()) == []
            assert list(await eyes.requeue_waiting()) == [order.id]
            assert list(await eyes.requeue_waiting()) == []
            assert await seer.runner.work(order.id) is not None
    assert store.orders.get(order.id).status is OrderStatus.SUCCEEDED


async def began_and_left(bench: Bench, order: WorkOrder) -> None:
    """An order that has begun and was handed back during its turn."""
    bench.crew.began.clear()
    working = asyncio.create_task(bench.runner.work(order.id))
    await bench.crew.began.wait()
    assert bench.store.orders.get(order.id).status is OrderStatus.RUNNING
    for run in bench.executions:
        run.halt(Stop.HAND_BACK)
    await working
    held = [(claim.order.id, claim.epoch) for claim in bench.executions.to_hand_back()]
    bench.store.claims.hand_back(held, drone="d1", message="bye")


async def test_an_order_that_had_begun_waits_until_its_workspace_is_back(place: Path, locks: Path) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("think for ever", workspace=str(place))
        await began_and_left(bench, order)
        shutil.move(place, place.parent / "away")
        assert await bench.runner.work(order.id) is None
        assert waiting(bench, order)
        eyes = seeing(place.parent, locks)(bench)
        assert list(await eyes.requeue_waiting()) == []
        shutil.move(place.parent / "away", place)
        assert list(await eyes.requeue_waiting()) == [order.id]
        assert bench.kinds(order.id)[-3:] == ["order.claimed", "order.waiting", "order.resumed"]


async def begun_elsewhere(bench: Bench, place: Path, clock: Clock) -> WorkOrder:
    """An order that began in `place`, which another directory has replaced, and that waits for the first one."""
    order = bench.place("think for ever", workspace=str(place))
    await began_and_left(bench, order)
    shutil.move(place, place.parent / "away")
    os.mkdir(place)
    for _ in range(2):
        assert await bench.runner.work(order.id) is None
        clock.now += 6
    assert waiting(bench, order)
    assert "not the directory" in (bench.store.orders.get(order.id).detail or "")
    return order


async def test_another_directory_in_the_place_of_the_workspace_is_not_worked_in(place: Path, locks: Path) -> None:
    clock = Clock()
    async with Bench(workspaces=seeing(place.parent, locks, clock)) as bench:
        order = await begun_elsewhere(bench, place, clock)
        eyes = seeing(place.parent, locks)(bench)
        assert list(await eyes.requeue_waiting()) == []
        shutil.rmtree(place)
        shutil.move(place.parent / "away", place)
        assert list(await eyes.requeue_waiting()) == [order.id]
        await began_and_left(bench, order)


async def test_an_order_continues_in_another_directory_when_a_person_resumes_it(place: Path, locks: Path) -> None:
    clock = Clock()
    async with Bench(workspaces=seeing(place.parent, locks, clock)) as bench:
        order = await begun_elsewhere(bench, place, clock)
        bench.store.controls.request(order.id, ControlKind.RESUME, NewControl(), by=Actor("test"))
        await began_and_left(bench, order)


class Stale(Threads):
    """A network file system that reports one order's workspace as stale."""

    def __init__(self, order_id: str) -> None:
        super().__init__(per_order=1, in_all=1)
        self._stale = order_id

    async def run_for(self, owner: str, order_id: str, function: Callable[..., T], *arguments: Any) -> T:
        if order_id == self._stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return await super().run_for(owner, order_id, function, *arguments)


@dataclass
class Stranded(Crew):
    """A crew that looks at workspaces through these threads."""

    pools: Pools


async def test_a_workspace_that_fails_does_not_affect_orders_in_others(place: Path, locks: Path) -> None:
    clock, store = Clock(), temporary_store()
    store.leases.register(another(place.parent), lease_seconds=60)
    async with Bench(store, workspaces=seeing(None, locks, clock)) as bench:
        orders = [bench.place("hello", workspace=str(place)) for _ in range(2)]
        stranded = Stranded(Pools(looks=Stale(orders[0].id)))
        eyes = Workspaces(bench.async_store, stranded, bench.trust, Site(Roots([place.parent]), locks, HERE))
        assert await eyes.plan(orders[0], begun=False) is None
        assert await eyes.plan(orders[1], begun=False) is not None
        for _ in range(2):
            for order in orders:
                await bench.runner.work(order.id)
            clock.now += 6
        assert all(waiting(bench, order) for order in orders)
        assert list(await eyes.requeue_waiting()) == [orders[1].id]


class Mounts(Roots):
    """Two roots; calls for one of them hang while its mount is away."""

    def __init__(self, hung: Path, well: Path) -> None:
        super().__init__([hung, well])
        self._hung = hung
        self.back = Event()

    def opened(self, asked: str) -> Workspace:
        if Path(asked).is_relative_to(self._hung):
            self.back.wait()
        return super().opened(asked)


class Mounted:
    """A drone with a root on a mount that hangs, one order in it and in another root each for every look there may be.

    Its looks are given up when they are `hasty` before they could be answered.
    """

    def __init__(self, bench: Bench, tmp_path: Path) -> None:
        for name in ("hung/place", "well/place"):
            (tmp_path / name).mkdir(parents=True)
        self.bench = bench
        self.mounts = Mounts(tmp_path / "hung", tmp_path / "well")
        self.pools = Pools(looks=Threads(per_order=3, in_all=16, grace_seconds=0.0))
        self.clock = Clock()
        self.locks = tmp_path / "locks"
        self.hung = [bench.place("hello", workspace=str(tmp_path / "hung" / "place")) for _ in range(20)]
        self.well = bench.place("hello", workspace=str(tmp_path / "well" / "place"))

    def eyes(self, *, hasty: bool = False) -> Workspaces:
        return Workspaces(
            self.bench.async_store,
            Stranded(self.pools),
            self.bench.trust,
            Site(self.mounts, self.locks, HERE),
            WorkspaceTimes(answer_seconds=0.0 if hasty else 60.0, clock=self.clock),
        )

    async def hang(self) -> None:
        """Look at every order under the mount, and give up."""
        for order in self.hung:
            assert await self.eyes(hasty=True).plan(order, begun=False) is None


@pytest.fixture
async def mounted(tmp_path: Path) -> AsyncIterator[Mounted]:
    async with Bench() as bench:
        made = Mounted(bench, tmp_path)
        yield made
        made.mounts.back.set()


async def test_a_mount_that_hangs_occupies_three_threads_and_restarts_no_drone(mounted: Mounted) -> None:
    await mounted.hang()
    assert mounted.pools.looks.left_behind().total() == 3
    assert mounted.pools.left_behind() == 0
    assert ThreadHealth(mounted.pools, wedged_seconds=0.0).trouble() is None


async def test_orders_under_a_root_that_does_not_answer_wait_with_the_reason(mounted: Mounted) -> None:
    await mounted.hang()
    eyes, order = mounted.eyes(), mounted.hung[0]
    assert await eyes.plan(order, begun=False) is None, "drones elsewhere have their chance"
    mounted.clock.now += 6
    plan = await eyes.plan(order, begun=False)
    assert plan is not None
    assert plan.waits == f"The file system of {order.workspace} does not answer; it goes on when that does"


async def test_orders_under_other_roots_go_on_while_a_root_does_not_answer(mounted: Mounted) -> None:
    await mounted.hang()
    plan = await mounted.eyes().plan(mounted.well, begun=False)
    assert plan is not None and plan.hold is not None


async def test_waiting_orders_of_other_roots_are_requeued_beside_a_root_that_does_not_answer(mounted: Mounted) -> None:
    eyes, plan = mounted.eyes(), ClaimPlan(waits="It waits")
    for order in (*mounted.hung, mounted.well):
        await eyes.park(mounted.bench.claim(order), plan, drone="d1")
    await mounted.hang()
    assert list(await eyes.requeue_waiting()) == [mounted.well.id]
    mounted.mounts.back.set()
    while mounted.pools.looks.left_behind():  # noqa: ASYNC110 - threads tell nobody that they have ended
        await asyncio.sleep(0)
    assert set(await eyes.requeue_waiting()) == {order.id for order in mounted.hung}


class NoMemory(Threads):
    """A process without memory to look at a workspace."""

    async def run_for(self, owner: str, order_id: str, function: Callable[..., T], *arguments: Any) -> T:
        raise MemoryError


@dataclass
class Exhausted(Crew):
    """A crew with those threads."""

    pools: Pools = field(default_factory=lambda: Pools(looks=NoMemory(per_order=1, in_all=1)))


async def test_a_process_that_is_exhausted_before_it_has_claimed_does_not_claim(place: Path, locks: Path) -> None:
    def made(bench: Bench) -> Workspaces:
        return Workspaces(bench.async_store, Exhausted(), bench.trust, Site(Roots([place.parent]), locks, HERE))

    async with Bench(workspaces=made) as bench:
        order = bench.place("hello", workspace=str(place))
        with pytest.raises(MemoryError):
            await bench.runner.work(order.id)
        assert bench.kinds(order.id) == ["order.queued"]


async def test_an_order_whose_workspace_another_drone_of_this_machine_sees_is_left_to_it(
    place: Path, locks: Path
) -> None:
    clock, store = Clock(), temporary_store()
    store.leases.register(another(place.parent, HERE), lease_seconds=60)
    async with Bench(store, workspaces=seeing(None, locks, clock)) as bench:
        order = bench.place("hello", workspace=str(place))
        for _ in range(2):
            assert await bench.runner.work(order.id) is None
            clock.now += 60
        assert bench.kinds(order.id) == ["order.queued"]


async def test_a_pause_and_a_later_resume_cancel_each_other_while_an_order_waits(tmp_path: Path, locks: Path) -> None:
    clock, store = Clock(), temporary_store()
    store.leases.register(another(tmp_path), lease_seconds=60)
    async with Bench(store, workspaces=seeing(None, locks, clock)) as bench:
        order = bench.place("hello", workspace=str(tmp_path / "place"))
        for kind in (ControlKind.PAUSE, ControlKind.RESUME):
            store.controls.request(order.id, kind, NewControl(), by=Actor("test"))
        await bench.runner.work(order.id)
        clock.now += 6
        await bench.runner.work(order.id)
        assert waiting(bench, order)
        pause, resume = store.controls.of_order(order.id)
        assert (pause.refused, resume.refused) == (TAKEN_BACK, UNREAD)


async def test_a_pause_that_was_asked_for_before_an_order_waits_is_not_lost(tmp_path: Path, locks: Path) -> None:
    clock, store = Clock(), temporary_store()
    store.leases.register(another(tmp_path), lease_seconds=60)
    async with Bench(store, workspaces=seeing(None, locks, clock)) as bench:
        order = bench.place("hello", workspace=str(tmp_path / "place"))
        store.controls.request(order.id, ControlKind.PAUSE, NewControl(), by=Actor("test"))
        await bench.runner.work(order.id)
        clock.now += 6
        await bench.runner.work(order.id)
        (pause,) = store.controls.of_order(order.id)
        assert waiting(bench, order) and pause.open


async def test_an_order_waits_while_an_unfenced_process_of_this_machine_is_in_its_workspace(
    place: Path, locks: Path
) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        incarnation = bench.trust.incarnation or ""
        inside = HostLock(
            locks / "workspaces",
            workspace_key(Workspace(place)).text,
            Holder.here("another order", 1, incarnation, locks / "children"),
            exclusive=True,
            live=lambda: {incarnation},
        )
        assert inside.take()
        order = bench.place("write", workspace=str(place))
        assert await bench.runner.work(order.id) is None
        assert waiting(bench, order)
        assert bench.store.orders.get(order.id).detail == BUSY
        inside.release()
        assert list(await seeing(place.parent, locks)(bench).requeue_waiting()) == [order.id]
        assert await bench.runner.work(order.id) is not None


@pytest.mark.parametrize("begun", [False, True])
async def test_a_workspace_that_must_not_be_opened_is_refused_although_another_drone_covers_it(
    place: Path, locks: Path, begun: bool
) -> None:
    roots = Roots([place.parent], Private([place.parent]))
    sight = sight_of(str(place), roots)
    assert sight.refused and "inside MCC's own data" in str(sight.problem)
    found = verdict(sight, begun=begun, host=HERE, others=[another(place.parent, HERE)])
    assert found is (SiteVerdict.NOBODY if begun else SiteVerdict.INVALID)


async def test_an_order_ends_with_the_reason_why_its_workspace_cannot_be_opened(place: Path, locks: Path) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("hello", workspace=str(place / "file"))
        (place / "file").write_text("no directory")
        assert await bench.runner.work(order.id) is not None
        kept = bench.store.orders.get(order.id)
        assert (kept.status, kept.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
        assert "is not a directory" in str(kept.detail)


async def test_placeholders_of_a_killed_drones_programs_are_deleted_before_the_order_continues(
    place: Path, locks: Path
) -> None:
    async with Bench(workspaces=seeing(place.parent, locks)) as bench:
        order = bench.place("write for ever", workspace=str(place))
        await began_and_left(bench, order)
        (place / "sub" / ".git").mkdir(parents=True)
        (place / "mcc.toml").write_text("mine")
        for left in (place / ".env", place / "sub" / ".git" / "hooks"):
            os.mknod(left, stat.S_IFSOCK)
        await began_and_left(bench, order)
        assert not (place / ".env").exists() and os.listdir(place / "sub" / ".git") == []
        assert (place / "mcc.toml").read_text() == "mine"
