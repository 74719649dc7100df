"""The independent witness: a file, apart from database and Redis, that knows each effect that was.

The test tools write into it: `ledger_once` (running it twice is harm) and `ledger_idem` (declared idempotent). Two more
do not: `linger` takes time with a child process alive, `keep_file` writes into the order's workspace. There is one line
per effect, written with O_APPEND and fsync, so that neither a kill nor another process can spoil it: order id, agent
path, call id, tool, epoch, pid, seconds since 1970.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from drone import tool
from drone.agent.ports.journal import Journal, RedactedJournal
from drone.agent.state.tree import TreeJournal
from drone.tools.frame.tool import ToolContext, ToolFailed
from drone.worker.journal import OrderJournal
from mcc.local import launch
from tests.faults.script import IDEM, KEEP, LINGER, ONCE, lingered, wrote

LAUNCHING = (sys.executable, "-I", "-S", launch.__file__)
"""A child that dies with its drone, however that dies."""

KEPT_TIMES = 1_000
"""So often a file says its mark: some pages."""

Midway = Callable[[str], Awaitable[None]]
"""Called with the order's id in the midst of a tool: its effect has happened, its result is not there yet."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One line of the ledger."""

    order_id: str
    agent_path: str
    call_id: str
    tool: str
    epoch: int
    pid: int
    t: float


class Ledger:
    """Appends effects; any number of processes may have the same file open."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, effect: Effect) -> None:
        line = "\t".join(map(str, astuple(effect))) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def effects(path: Path) -> list[Effect]:
    """Everything that a ledger says, in the order in which it happened."""
    if not path.exists():
        return []
    return [_read(line) for line in path.read_text().splitlines()]


def _read(line: str) -> Effect:
    order_id, agent_path, call_id, name, epoch, pid, t = line.split("\t")
    return Effect(order_id, agent_path, call_id, name, int(epoch), int(pid), float(t))


async def _nothing(order_id: str) -> None:
    """No failpoint."""


def ledger_tools(ledger: Ledger, midway: Midway = _nothing) -> Sequence[Callable[..., object]]:
    """The test tools of a drone."""

    async def happen(name: str, path: str, mark: str, context: ToolContext) -> str:
        order_id, epoch = held(context)
        ledger.write(Effect(order_id, path, context.call_id, name, epoch, os.getpid(), time.time()))
        await midway(order_id)
        return wrote(name, mark)

    @tool(name=ONCE, effects="irreversible")
    async def ledger_once(path: str, mark: str, context: ToolContext) -> str:
        """Write a line that must never be written twice.

        Args:
            path: Who calls.
            mark: Which call this is.
        """
        return await happen(ONCE, path, mark, context)

    @tool(name=IDEM, idempotent=True)
    async def ledger_idem(path: str, mark: str, context: ToolContext) -> str:
        """Write a line that may be written again.

        Args:
            path: Who calls.
            mark: Which call this is.
        """
        return await happen(IDEM, path, mark, context)

    @tool(name=LINGER, idempotent=True, effects="none")
    async def linger(seconds: float, mark: str, context: ToolContext) -> str:
        """Take some time, with a child process that takes it.

        Args:
            seconds: How long.
            mark: Which call this is.
        """
        child = await asyncio.create_subprocess_exec(*LAUNCHING, str(os.getpid()), "sleep", f"{seconds:g}")
        try:
            await midway(held(context)[0])
            await child.wait()
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return lingered(mark)

    @tool(name=KEEP, group="workspace_write", idempotent=True)
    async def keep_file(path: str, mark: str, context: ToolContext) -> str:
        """Write a file into the workspace.

        Args:
            path: Who calls.
            mark: Which call this is, and what the file says.
        """
        if context.workspace is None:
            raise ToolFailed("There is no workspace to write in.")
        kept_file(context.workspace.root, context.call_id).write_text(mark * KEPT_TIMES)
        return wrote(KEEP, mark)

    return (ledger_once, ledger_idem, linger, keep_file)


def kept_file(workspace: Path, call_id: str) -> Path:
    """Where this call of `keep_file` writes its mark, as often as `KEPT_TIMES`."""
    return workspace / f"{call_id}.kept"


def held(context: ToolContext) -> tuple[str, int]:
    """Order id and epoch of the run that a tool is called in; of one without an order, its record's id and 0."""
    journal: Journal | None = context.turn.journal if context.turn else None
    while isinstance(journal, RedactedJournal | TreeJournal):
        journal = journal.journal
    if isinstance(journal, OrderJournal):
        return journal.order_id, journal.epoch
    return context.origin.record_id or "", 0
