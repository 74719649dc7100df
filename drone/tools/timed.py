"""This room is for a tool set whose calls end in time."""

import asyncio
from collections.abc import Sequence

from drone.agent.messages import ToolSpec
from drone.agent.ports import Call, Output, ToolSet
from drone.tools.tool import failure
from mcc.contracts.journal import Outcome

GRACE_SECONDS = 5.0
"""For a call that was told to stop. One that does not is left behind: nobody waits for it any longer."""


class Timed:
    """A call may take its tool's own `seconds`, or `default_seconds` when the tool names none."""

    def __init__(self, toolset: ToolSet, default_seconds: float, grace_seconds: float = GRACE_SECONDS) -> None:
        self._toolset = toolset
        self._default_seconds = default_seconds
        self._grace_seconds = grace_seconds

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        seconds = self._seconds(call.name)
        work = asyncio.create_task(self._worked(call))
        try:
            await asyncio.wait((work,), timeout=seconds)
        finally:
            in_time = work.done()
            if not in_time:
                work.cancel()
                await asyncio.wait((work,), timeout=self._grace_seconds)
        if in_time or (work.done() and not work.cancelled()):
            brought = work.result()
            if isinstance(brought, Output):
                return brought
            raise brought
        return failure(
            f"{call.name} did not finish within {seconds:g} s and was given up; whether it had an effect is not known. "
            "Ask for less at once, or go another way.",
            Outcome.TIMEOUT,
        )

    async def _worked(self, call: Call) -> Output | BaseException:
        """What the call brought or raised: it never ends the loop, also when nobody waits any more."""
        try:
            return await self._toolset.call(call)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return error

    def _seconds(self, name: str) -> float:
        own = next((spec.seconds for spec in self._toolset.specs() if spec.name == name), None)
        return self._default_seconds if own is None else own
