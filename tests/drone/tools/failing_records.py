"""Doubles that fail behind a call's effect: checkpoints that cannot be closed, journals that keep no text, a sandbox
in which some programs do not start, a network that does not let go."""

from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any

from drone.agent.ports.journal import MemoryJournal
from drone.checkpoints.recording import CallChanges, OrderCheckpoints
from drone.checkpoints.store import StoreBroken
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.places.paths import Workspace

WHY = "The checkpoints of this workspace cannot be used: disk I/O error."
LINE = "not recorded: The checkpoints of this workspace cannot be used: disk I/O error."


class UnclosedCheckpoints(OrderCheckpoints):
    """Checkpoints whose store fails once a call has had its effect."""

    def close(self, call_id: str, stop: Event) -> CallChanges:
        raise StoreBroken(WHY)


class FullJournal(MemoryJournal):
    """A journal that takes entries but no long texts."""

    async def keep(self, text: str) -> str:
        raise OSError(28, "No space left on device")


class StubbornSandbox(Bubblewrap):
    """A sandbox in which programs with this argument do not start any more."""

    refused = "--stat=100"

    async def run(
        self, argv: Sequence[str], workspace: Workspace, bounds: Bounds, *, merged: bool = False, **options: Any
    ) -> EndedProgram:
        if self.refused in argv:
            raise OSError(24, "Too many open files")
        return await super().run(argv, workspace, bounds, merged=merged, **options)


class ClingingNetwork:
    """A network that cannot be closed once the program has ended."""

    environment: Mapping[str, str] = {}
    files: Mapping[str, bytes] = {}
    denied: Sequence[str] = ()

    async def prepare(self) -> None:
        """Nothing to do."""

    async def attach(self, first: int) -> None:
        """Nothing to do."""

    async def detach(self) -> None:
        raise OSError(5, "Input/output error")
