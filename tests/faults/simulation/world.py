"""A simulated world: drones that die, freeze or are told to stop, clients that ask, a seed behind all.

`simulate(seed)` plays it to the end and answers what was broken. Same seed, same code: same steps.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from drone.tools.frame.tool import ToolContext
from drone.worker.journal import OrderJournal
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder
from mcc.contracts.status import FINAL, FailureReason
from mcc.store.database.errors import OrderIsFinal, SessionBusy, StoreUnavailable
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from tests.faults.checker import violations
from tests.faults.invariants.evidence import Order, Post, Violation
from tests.faults.invariants.spending import receipts_settled
from tests.faults.script import MASTER, READER, Asked, prompt_of
from tests.faults.simulation.cast import INPUT_TOKENS, OUTPUT_TOKENS, WITNESS, crew
from tests.faults.simulation.drone import SWEEP_SECONDS, Disks, Silent, SimulatedDrone, sweeping
from tests.faults.simulation.links import Link, Weather
from tests.faults.simulation.loop import PROCESS, Process, SimulatedLoop, Stalled, State
from tests.faults.simulation.remains import remains
from tests.faults.simulation.spending import CLIENT, unsettled, with_budget
from tests.faults.simulation.surroundings import global_dice, quiet
from tests.faults.simulation.watch import Watch

JUDGED = ("I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10")
"""What is looked at in the end, beside what was watched at every step."""

PATIENCE_SECONDS = 900.0
"""By then (in simulated time) every order has ended; faults come in the first minute only."""

FAULTS_SECONDS = 12.0
WORKSPACES = ("harbour", "quay")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a seed. `story` is what was done to the drones and by the clients, in simulated seconds."""

    seed: int
    violations: tuple[Violation, ...]
    story: tuple[str, ...]
    orders: int
    entries: int
    steps: int
    seconds: float
    counts: Counter[str]


def simulate(seed: int) -> Result:
    """Play one seed."""
    clock = FakeClock(datetime.now(UTC))
    store = with_budget(temporary_store(clock))
    loop = SimulatedLoop(clock, Random(f"threads {seed}"))
    with quiet(), global_dice(seed), TemporaryDirectory(prefix="simulated-") as place:
        world = World(seed, store, loop, Path(place))
        try:
            loop.run_until_complete(world.play())
            return world.result()
        finally:
            store.close()
            loop.close()


class World:
    def __init__(self, seed: int, store: Store, loop: SimulatedLoop, place: Path) -> None:
        self.seed = seed
        self.store = store
        self.loop = loop
        self.dice = Random(f"world {seed}")
        self.watch = Watch(store)
        self.weather = Weather(Random(f"weather {seed}"), loop.time)
        self.began = loop.time()
        self.story: list[str] = []
        self.counts: Counter[str] = Counter()
        self.drones: list[SimulatedDrone] = []
        self.posts: list[Post] = []
        self.keys: dict[str, str] = {}
        self.faults_over = False
        self.steps = 0
        self.disks = Disks(place / "workspaces", place / "drones")
        for name in WORKSPACES:
            (self.disks.workspaces / name).mkdir(parents=True)

    def tell(self, what: str) -> None:
        self.story.append(f"{self.loop.time() - self.began:7.2f} {what}")

    async def play(self) -> None:
        WITNESS.set(self)
        if self.dice.random() < 0.3:
            self.weather.lost_before = self.weather.lost_after = self.dice.choice([0.01, 0.05])
        for _ in range(self.dice.randint(2, 3)):
            self.enter()
        playing = [
            self.loop.create_task(work) for work in (self._sweep(), self._clients(), self._misfortune(), self._mail())
        ]
        try:
            await self._until_done(playing[1:3])
        except TimeoutError:
            left = {one.id: one.status.value for one in self.watch.orders.values() if one.status not in FINAL}
            for order_id, status in left.items():
                said = f"after {PATIENCE_SECONDS:g} s it is still {status}"
                self.watch.violations.append(Violation("I2", order_id, said))
        finally:
            # Before it comes apart: asyncio cancels the tasks that are left in no order that a seed decides.
            self.steps = sum(drone.process.steps for drone in self.drones)
            for drone in self.drones:
                drone.bury()
            await _all_cancelled()
        for task in playing:
            if not task.cancelled() and (problem := task.exception()) is not None:
                raise problem

    async def _until_done(self, planned: list["asyncio.Task[None]"]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait(planned)
            while any(order.status not in FINAL for order in self.watch.orders.values()):  # noqa: ASYNC110 - simulated time
                await asyncio.sleep(1.0)

    def enter(self) -> None:
        """A drone process starts."""
        number = len(self.drones) + 1
        process = Process(f"drone-{number}")
        link = Link(self.store, process, self.weather, self.watch.seen)
        dice = Random(f"drone {self.seed} {number}")
        drone = SimulatedDrone(process, link, crew(), self.loop, dice, self.watch.hinted, self.disks)
        if not self.faults_over:
            self._doom(process)
        self.drones.append(drone)
        drone.start()
        self.tell(f"{process.name} starts")

    def _doom(self, process: Process) -> None:
        """At some step, between any two, it is killed or stopped; many processes are spared."""
        if self.dice.random() < 0.45:
            return
        at = int(self.dice.expovariate(1 / 150)) + 1
        seconds = self.dice.choice([None, None, 2.0, 8.0, 15.0])

        def before(one: Process) -> None:
            if one.steps >= at and not self.faults_over:
                one.before = None
                self._kill(one) if seconds is None else self._freeze(one, seconds)

        process.before = before

    def _kill(self, process: Process) -> None:
        if process.state is State.DEAD:
            return
        process.kill()
        self.counts["kills"] += 1
        self.tell(f"{process.name} is killed at its step {process.steps}")
        self._outside(self.dice.uniform(0.2, 4.0), self.enter)

    def _freeze(self, process: Process, seconds: float) -> None:
        if process.state is not State.RUNNING:
            return
        process.freeze()
        self.counts["freezes"] += 1
        self.tell(f"{process.name} is stopped for {seconds:g} s at its step {process.steps}")
        self._outside(seconds, lambda: self._thaw(process))

    def _thaw(self, process: Process) -> None:
        self.tell(f"{process.name} goes on")
        process.thaw(self.loop)

    def _outside(self, seconds: float, act: Callable[[], None]) -> None:
        """Later, and in no process."""
        context = self._context_of_world()
        self.loop.call_later(seconds, act, context=context)

    def _context_of_world(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(PROCESS.set, None)
        return context

    async def _misfortune(self) -> None:
        """Faults that hit by the clock: kills, stops, orders to drain, a database that is away."""
        until = self.loop.time() + FAULTS_SECONDS
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / 2.5))
            if self.loop.time() > until:
                break
            alive = [drone for drone in self.drones if drone.process.state is State.RUNNING]
            if not alive:
                continue
            self._hit(self.dice.choice(alive))
        self.faults_over = True
        self.weather.lost_before = self.weather.lost_after = 0.0

    def _hit(self, drone: SimulatedDrone) -> None:
        match self.dice.choice(["kill", "freeze", "freeze", "drain", "outage"]):
            case "kill":
                self._kill(drone.process)
            case "freeze":
                self._freeze(drone.process, self.dice.choice([1.0, 3.0, 7.0, 10.0, 20.0]))
            case "drain":
                self.counts["drains"] += 1
                self.tell(f"{drone.process.name} is told to stop")
                drone.drain()
                self._outside(self.dice.uniform(0.2, 4.0), self.enter)
            case "outage":
                seconds = self.dice.choice([0.3, 2.0, 8.0])
                self.counts["outages"] += 1
                self.tell(f"the database is away for {seconds:g} s")
                self.weather.away_until = self.loop.time() + seconds

    async def _clients(self) -> None:
        for number in range(self.dice.randint(2, 4)):
            await asyncio.sleep(self.dice.uniform(0.0, 2.0))
            await self._accept(number)
            if self.dice.random() < 0.5:
                await asyncio.sleep(self.dice.uniform(0.0, 3.0))
                await self._ask()

    async def _accept(self, number: int) -> None:
        """A client posts an order under a key, and posts it again until there is an answer."""
        sessions = [None, None, *dict.fromkeys(order.session_id for order in self.watch.orders.values())]
        key = f"order-{number}"
        workspace = self.dice.choice([None, *[WORKSPACES[0]] * 3, *WORKSPACES])
        agent, background = self.dice.choice([MASTER, READER]), self.dice.random() < 0.4
        prompt = prompt_of(
            key,
            self.seed * 10 + number,
            children=self.dice.choice([1, 2, 3] if background else [0, 0, 1, 2]),
            steps=self.dice.randint(1, 4),
            keeps=agent == MASTER and workspace is not None,
            background=background,
        )
        tokens = self.dice.choice([None, None, 1_000])
        fields = {
            "prompt": prompt,
            "session_id": self.dice.choice(sessions),
            "when_busy": self.dice.choice(["enqueue", "enqueue", "reject", "interrupt", "rollback"]),
            "limits": None if tokens is None else {"total_tokens": tokens},
            "workspace": workspace and str(self.disks.workspaces / workspace),
            "agent": agent,
            "write": workspace is not None and self.dice.random() < 0.7,
        }
        new = NewOrder.model_validate(fields)
        link = Link(self.store, Process("client"), self.weather, lambda *_: None)
        for lost in (self.dice.random() < 0.2, False):
            while True:
                try:
                    placed = link.orders.place(new, by=CLIENT, idempotency_key=key)
                    break
                except StoreUnavailable:
                    await asyncio.sleep(0.3)
                except SessionBusy:
                    self.tell(f"a client is refused: {key}")
                    return
            self.keys[key] = placed.order.id
            self.watch.placed(placed.order)
            for order_id in list(self.watch.orders):
                self.watch.look(order_id)
            status = 0 if lost else 201
            self.posts.append(Post(self.watch.now(), key, status, None if lost else placed.order.id, prompt))
            if not lost:
                break
        again = " twice" if len(self.posts) > 1 and lost else ""
        self.tell(f"a client posts {key}{again}: {new.when_busy.value}, {agent} in {workspace}")

    async def _ask(self) -> None:
        """A client asks something of an order that has not ended, if there is one."""
        there = [order.id for order in self.watch.orders.values() if order.status not in FINAL]
        if not there:
            return
        order_id = self.dice.choice(there)
        kind = self.dice.choice([ControlKind.CANCEL, ControlKind.PAUSE, ControlKind.STEER])
        await self._control(order_id, kind)
        if kind is ControlKind.PAUSE:
            await asyncio.sleep(self.dice.uniform(0.1, 6.0))
            await self._control(order_id, ControlKind.RESUME)

    async def _control(self, order_id: str, kind: ControlKind) -> None:
        message = "Mind the gulls." if kind is ControlKind.STEER else None
        link = Link(self.store, Process("client"), self.weather, self.watch.seen)
        while True:
            try:
                link.controls.request(order_id, kind, NewControl(message=message), by=Actor("client"))
                self.counts[kind.value] += 1
                self.tell(f"a client asks: {kind.value} {self._name(order_id)}")
                return
            except StoreUnavailable:
                await asyncio.sleep(0.3)
            except OrderIsFinal:
                return

    def _name(self, order_id: str) -> str:
        return next((key for key, known in self.keys.items() if known == order_id), order_id)

    async def _sweep(self) -> None:
        """An MCC that sweeps and nudges."""
        link = Link(self.store, Process("mcc"), self.weather, self.watch.seen)
        sweep = sweeping(link, Silent(self._nudge), sweeper="mcc", clock=self.loop.time)
        while True:
            await asyncio.sleep(SWEEP_SECONDS * self.dice.uniform(0.8, 1.2))
            try:
                sweep.once()
            except StoreUnavailable:
                continue

    def _nudge(self, store: Store) -> int:
        """Messages for what can be claimed: some are lost, some come twice, all reach any drone that is there."""
        waiting = store.claims.claimable(("default",), 10)
        for item in waiting:
            for _ in range(self.dice.choice([0, 1, 1, 2])):
                self._deliver(item.order_id)
        return len(waiting)

    async def _mail(self) -> None:
        """Stale and senseless messages."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / 3))
            known = [*self.watch.orders, "no order", "01a1f8df-de02-7c97-a483-df713377677c"]
            self._deliver(self.dice.choice(known))

    def _deliver(self, order_id: str) -> None:
        there = [drone for drone in self.drones if drone.alive]
        if there:
            drone = self.dice.choice(there)
            self._outside(self.dice.uniform(0.0, 0.3), lambda: drone.deliver(order_id))

    async def requested(self, wanted: Asked) -> None:
        self.watch.requested(self.keys[wanted.play.key], wanted.play.path, wanted.step, (INPUT_TOKENS, OUTPUT_TOKENS))
        await asyncio.sleep(self.dice.uniform(0.05, 0.6))

    def effect(self, tool: str, path: str, context: ToolContext, journal: OrderJournal) -> None:
        self.watch.effect(journal.order_id, path, context.call_id, tool, journal.epoch)

    async def pause(self) -> None:
        if self.dice.random() < 0.5:
            await asyncio.sleep(self.dice.uniform(0.0, 0.3))

    def result(self) -> Result:
        evidence = remains(self.store, self.watch, self.posts)
        found = [*self.watch.violations, *violations(evidence, JUDGED), *receipts_settled(evidence)]
        found += [_of_ours(order) for order in evidence.orders.values() if order.reason == FailureReason.INTERNAL]
        found += unsettled(self.store)
        self.counts["fenced"] = self.watch.fenced
        self.counts["kept out of a workspace"] = self.watch.kept_out
        self.counts["side by side in a workspace"] = self.watch.side_by_side
        entries = [entry for order in evidence.orders.values() for entry in order.entries]
        self.counts["background children"] = sum(len(entry.data.get("background", ())) for entry in entries)
        for order in evidence.orders.values():
            self.counts[f"{order.status} {order.reason or ''}".strip()] += 1
        self.counts["takeovers"] = sum(
            entry.kind == "order.requeued" for order in evidence.orders.values() for entry in order.entries
        )
        return Result(
            seed=self.seed,
            violations=tuple(dict.fromkeys(found)),
            story=tuple(self.story),
            orders=len(evidence.orders),
            entries=sum(len(order.entries) for order in evidence.orders.values()),
            steps=self.steps,
            seconds=self.loop.time() - self.began,
            counts=self.counts,
        )


def _of_ours(order: Order) -> Violation:
    """Nothing that happens here is a reason for an order to fail so."""
    return Violation("I1", order.id, f"it failed for an error of ours: {(order.outcome or {}).get('detail')}")


async def _all_cancelled() -> None:
    """Nothing is left running, and nobody is left waiting."""
    for _ in range(20):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if not left:
            break
        await asyncio.wait(left, timeout=10.0)


__all__ = ["Result", "Stalled", "World", "simulate"]
