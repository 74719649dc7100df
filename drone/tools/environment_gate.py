"""The environment gate: git and shell wait until environment_detect has succeeded once in the workspace."""

import asyncio
from collections.abc import Sequence

from drone.agent.messages import ToolSpec
from drone.agent.toolset import Call, Output, ToolSet
from drone.tools.tool import failure
from mcc.contracts.journal import Outcome

DETECTION = "environment_detect"
GATED = frozenset({"diff_read", "git_read", "git_write", "shell_read", "shell_write"})
"""Groups whose tools run programs."""


class Detected:
    """Whether `environment_detect` has succeeded in an order's workspace: once, by anybody in the tree, for all.

    `already`: a `tool.finished` of that name without an error stands in the order's journal.
    """

    def __init__(self, *, already: bool = False) -> None:
        self.done = already
        self._running: set[asyncio.Future[None]] = set()

    async def settled(self) -> bool:
        """Whether it has succeeded, those under way now included: they are waited for."""
        while not self.done and self._running:
            await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
        return self.done

    async def by(self, toolset: ToolSet, call: Call) -> Output:
        """Run a detection, and remember it when it succeeds."""
        running = asyncio.get_running_loop().create_future()
        self._running.add(running)
        try:
            output = await toolset.call(call)
            self.done = self.done or not output.is_error
            return output
        finally:
            self._running.discard(running)
            running.set_result(None)


class EnvironmentGate:
    """Refuses the tools of `GATED` until `detected`. Wrap the workspace's tools once; all agents of a tree share it."""

    def __init__(self, toolset: ToolSet, detected: Detected) -> None:
        self._toolset = toolset
        self._detected = detected

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        if call.name == DETECTION:
            return await self._detected.by(self._toolset, call)
        if self._is_gated(call.name) and not await self._detected.settled():
            return failure(
                f"{call.name} waits until {DETECTION} has succeeded once in this workspace. Call {DETECTION} first, "
                f"and then {call.name} again.",
                Outcome.DENIED,
            )
        return await self._toolset.call(call)

    def _is_gated(self, name: str) -> bool:
        return any(spec.name == name and spec.group in GATED for spec in self._toolset.specs())
