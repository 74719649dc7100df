"""Simulated worlds keep every promise, whatever their seeds do to drones; the simulation itself can be trusted."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from random import Random

import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.testing import FakeClock, temporary_store
from mcc.testing.hand_drone import HandDrone
from tests.faults.simulation.background import faults_in, play
from tests.faults.simulation.loop import PROCESS, Process, SimulatedLoop, Stalled
from tests.faults.simulation.watch import Watch
from tests.faults.simulation.world import simulate

SEEDS, GROUPS = 40, 2
HAPPENED = ("kills", "freezes", "drains", "takeovers", "succeeded", "cancelled")
IN_WORKSPACES = ("kept out of a workspace", "side by side in a workspace")


@pytest.mark.parametrize("group", range(GROUPS))
def test_whatever_a_seed_does_every_promise_is_kept_while_drones_are_killed_and_frozen(group: int) -> None:
    total = Counter[str]()
    failed = {}
    for seed in range(group, SEEDS, GROUPS):
        world = simulate(seed)
        total.update(world.counts)
        if world.violations:
            failed[seed] = [str(one) for one in world.violations]
    assert not failed, f"replay with: python -m tests.faults.simulation {' '.join(map(str, failed))}"
    assert all(total[what] for what in (*HAPPENED, *IN_WORKSPACES)), total


def test_the_same_seed_plays_the_same_story() -> None:
    first, second = simulate(17), simulate(17)
    assert first.story == second.story
    assert (first.entries, first.steps, first.counts) == (second.entries, second.steps, second.counts)


@pytest.mark.parametrize("seed", [3, 4, 529])
async def test_every_subagent_in_the_background_is_delivered_once_though_drones_lose_the_order(seed: int) -> None:
    entries, lost = await play(seed)
    assert faults_in(entries) == [] and lost > 0


class Stage:
    """A simulated loop with one process in it."""

    def __init__(self) -> None:
        self.loop = SimulatedLoop(FakeClock(), Random(0))
        self.process = Process("one")
        self.done: list[str] = []

    def begin(self) -> "asyncio.Task[None]":
        """Three steps, a second apart, in the process."""
        context = copy_context()
        context.run(PROCESS.set, self.process)
        return self.loop.create_task(self._work(), context=context)

    async def _work(self) -> None:
        try:
            for number in range(3):
                await asyncio.sleep(1.0)
                self.done.append(f"step {number}")
        finally:
            self.done.append("end")

    def play(self, main: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            self.loop.run_until_complete(main())
        finally:
            self.loop.close()


def test_time_leaps_and_nobody_waits_for_it() -> None:
    stage = Stage()
    began = stage.loop.time()
    stage.play(lambda: asyncio.sleep(3_600.5))
    assert stage.loop.time() - began == pytest.approx(3_600.5)


def test_a_process_that_is_frozen_does_its_steps_when_it_goes_on() -> None:
    stage = Stage()

    async def main() -> None:
        task = stage.begin()
        await asyncio.sleep(1.5)
        stage.process.freeze()
        await asyncio.sleep(10.0)
        assert stage.done == ["step 0"]
        stage.process.thaw(stage.loop)
        await task

    stage.play(main)
    assert stage.done == ["step 0", "step 1", "step 2", "end"]


def test_a_process_that_is_killed_does_nothing_more_and_cleans_nothing_up() -> None:
    stage = Stage()

    async def main() -> None:
        task = stage.begin()
        await asyncio.sleep(1.5)
        stage.process.kill()
        task.cancel()
        await asyncio.sleep(10.0)
        assert stage.done == ["step 0"] and not task.done()
        stage.process.unwind(stage.loop)
        await asyncio.wait({task})

    stage.play(main)


def test_a_loop_in_which_nothing_can_happen_any_more_says_so() -> None:
    loop = SimulatedLoop(FakeClock(), Random(0))
    waiting = loop.create_future()
    with pytest.raises(Stalled):
        loop.run_until_complete(waiting)
    loop.close()


def test_the_watch_notices_an_effect_without_an_intent() -> None:
    store = temporary_store()
    order = store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order
    watch = Watch(store)
    watch.placed(order)
    HandDrone(store).claim(order.id)
    watch.look(order.id)
    watch.effect(order.id, "master", "a-call", "ledger_once", 1)
    assert [one.invariant for one in watch.violations] == ["I4"]
