"""This room is for a tool set whose calls end in time."""

import asyncio
from collections.abc import Sequence

from drone.agent.messages import ToolSpec
from drone.agent.ports import Call, Output, ToolSet
from drone.tools.tool import failure
from mcc.contracts.journal import Outcome


class Timed:
    """A call may take its tool's own `seconds`, or `default_seconds` when the tool names none."""

    def __init__(self, toolset: ToolSet, default_seconds: float) -> None:
        self._toolset = toolset
        self._default_seconds = default_seconds

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        seconds = self._seconds(call.name)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self._toolset.call(call)
        except TimeoutError:
            if not limit.expired():
                raise
        return failure(
            f"{call.name} did not finish within {seconds:g} s and was given up; whether it had an effect is not known. "
            "Ask for less at once, or go another way.",
            Outcome.TIMEOUT,
        )

    def _seconds(self, name: str) -> float:
        own = next((spec.seconds for spec in self._toolset.specs() if spec.name == name), None)
        return self._default_seconds if own is None else own
