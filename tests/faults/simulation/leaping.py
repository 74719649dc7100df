"""Tests of what takes long, in no time: each runs on a loop whose time leaps to the next timer."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from random import Random
from typing import Any, ParamSpec

from mcc.testing import FakeClock
from tests.faults.simulation.loop import SimulatedLoop

P = ParamSpec("P")


def simulated(main: Callable[[asyncio.AbstractEventLoop], Awaitable[None]]) -> None:
    """Run with time that leaps to the next timer."""
    loop = SimulatedLoop(FakeClock(), Random(0))
    try:
        loop.run_until_complete(asyncio.wait_for(main(loop), None))
    finally:
        loop.close()


def leaping(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test, with time that leaps: a limit that it waits for strikes when nothing else is left to be done, however
    busy the machine is."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        simulated(lambda _: test(*args, **kwargs))

    return run
