"""A scripted tree whose model calls are refused by the provider, and functions that wait until a tree is idle."""

import asyncio
import time
from collections.abc import Callable, Sequence

from drone.agent.ports.model import Ask, AskLater
from drone.models.scripted import Line, Said
from mcc.contracts.limits import Limits
from tests.drone.agent.steered_tree import TWO, SteeredTree, asked_by

BUSY = "It is busy. It wants to be asked again later."


class Refusing:
    """A model that refuses agents in `refused`, once per occurrence there; they may ask again after `seconds`."""

    def __init__(
        self,
        seconds: float,
        *,
        refused: Sequence[str] = ("north",),
        script: dict[str, list[Line | str]] | None = None,
        parks: bool = True,
        limits: Limits | None = None,
        named: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._named = named
        self._refused = list(refused)
        self.tree = SteeredTree(dict(script or TWO), limits=limits, clock=clock)
        self.tree.turn.idle.parks = parks
        self.tree.model._author = self._author

    async def _author(self, ask: Ask) -> Said:
        said = await self.tree._author(ask)
        prompt = asked_by(ask)
        if prompt not in self._refused:
            return said
        self._refused.remove(prompt)
        return AskLater(BUSY, self._seconds, named=self._named, status=429)


async def settled() -> None:
    """Wait until every task that can proceed has done so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def standing(tree: SteeredTree) -> None:
    """Wait until the tree is idle and stays idle once pending tasks have run."""
    stood, idle = asyncio.Event(), tree.turn.idle
    async with asyncio.timeout(10):
        with idle.watched(lambda stands: stood.set() if stands else stood.clear()):
            while True:
                if not idle.is_idle:
                    await stood.wait()
                await settled()
                if idle.is_idle:
                    return
