"""Slow programs delay the programs of their own order only."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from drone.sandbox.bubblewrap import ProgramSlots


async def waits(slots: ProgramSlots, holder: int) -> bool:
    """Whether this holder has to wait for a slot."""
    try:
        async with asyncio.timeout(0.02), slots.taken(holder):
            return False
    except TimeoutError:
        return True


async def test_an_order_takes_no_more_than_its_share() -> None:
    slots = ProgramSlots(each=2, in_all=8)
    async with slots.taken(1), slots.taken(1):
        assert await waits(slots, 1)
        assert not await waits(slots, 2)


async def test_an_order_always_has_one_slot() -> None:
    slots = ProgramSlots(each=2, in_all=4)
    async with AsyncExitStack() as taken:
        for holder in (1, 1, 2, 2):
            await taken.enter_async_context(slots.taken(holder))
        async with slots.taken(3):
            assert await waits(slots, 3), "a second one only where there is room"


async def test_a_waiting_program_gets_the_slot_of_one_that_failed() -> None:
    slots = ProgramSlots(each=1, in_all=1)
    begun = asyncio.Event()

    async def later() -> None:
        async with slots.taken(1):
            begun.set()

    with pytest.raises(ValueError):
        async with slots.taken(1):
            waiting = asyncio.create_task(later())
            await asyncio.sleep(0)
            assert not begun.is_set()
            raise ValueError
    await waiting
    assert begun.is_set() and not await waits(slots, 1)
