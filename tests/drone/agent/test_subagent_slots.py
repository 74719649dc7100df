"""`SubagentSlots`: an agent that waits for its children lends out its slot, and takes exactly one back."""

import asyncio

from drone.agent.turns.slots import SubagentSlots
from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, ToolFailed, tool
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from tests.drone.agent.lone import ORDER, Lone
from tests.drone.agent.refused_tree import settled


async def test_a_place_is_lent_while_its_agent_waits_and_taken_back_afterwards() -> None:
    places, said = SubagentSlots(1), list[str]()
    waits, goes_on = asyncio.Event(), asyncio.Event()

    async def parent() -> None:
        async with places.taken("parent"):
            async with places.lent("parent"):
                waits.set()
                await goes_on.wait()
            said.append("parent")

    async def other() -> None:
        await waits.wait()
        async with places.taken("other"):
            goes_on.set()
            await asyncio.sleep(0)
            said.append("other")

    await asyncio.gather(parent(), other())
    assert said == ["other", "parent"]


async def test_an_agent_with_two_calls_that_wait_has_one_place_and_not_two() -> None:
    places = SubagentSlots(1)

    async def call() -> None:
        async with places.lent("parent"), places.taken("child"):
            await asyncio.sleep(0)

    async with places.taken("parent"):
        for _ in range(3):
            await asyncio.gather(call(), call(), call())
    at_work = 0

    async def later(name: str) -> None:
        nonlocal at_work
        async with places.taken(name):
            at_work += 1
            assert at_work == 1
            await asyncio.sleep(0)
            at_work -= 1

    await asyncio.gather(*(later(f"{number}") for number in range(3)))


async def test_who_is_called_off_while_it_waits_leaves_its_place_to_others() -> None:
    places = SubagentSlots(1)
    waits = asyncio.Event()

    async def parent() -> None:
        async with places.taken("parent"), places.lent("parent"):
            waits.set()
            await asyncio.Event().wait()

    running = asyncio.ensure_future(parent())
    await waits.wait()
    running.cancel()
    await asyncio.wait([running])
    for name in ("one", "two"):
        async with places.taken(name):
            pass
    assert running.cancelled()


async def test_the_root_has_no_place_to_lend() -> None:
    places = SubagentSlots(1)
    async with places.lent(None), places.taken("child"):
        pass


async def test_an_agent_that_waits_for_its_place_has_committed_all_that_it_noted() -> None:
    """A drone that is lost meanwhile loses nothing of it."""
    root, other_may_end, other_has_it = root_record_id(ORDER), asyncio.Event(), asyncio.Event()

    async def other() -> None:
        async with lone.turn.slots.taken("other"):
            other_has_it.set()
            await other_may_end.wait()

    @tool()
    async def delegate() -> str:
        """Wait for another agent, in vain."""
        async with lone.turn.slots.lent(root):
            await other_has_it.wait()
            raise ToolFailed("nobody answered")

    lone = Lone([Line(calls=(call("delegate"),)), "Done."], FunctionTools([delegate]), Limits(concurrency=1))
    async with asyncio.timeout(10), asyncio.TaskGroup() as group, lone.turn.slots.taken(root):
        group.create_task(other())
        running = group.create_task(lone.run())
        await other_has_it.wait()
        await settled()
        assert not running.done() and len(lone.scripted.asks) == 1
        assert lone.kinds()[-1] == "tool.finished"
        other_may_end.set()
        assert (await running).text == "Done."
