"""This room is for one supervised child: started, watched, started again, and gone when asked."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from mcc.local import launch
from mcc.local.heartbeat import VARIABLE, Heartbeat
from mcc.local.logfile import LogFile

Tell = Callable[[str], None]
"""Takes one line for people."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: `environment` is complete, nothing is inherited; `descriptors` stay open in the child.

    `umask`: what its files let nobody do; -1 leaves that as it is here. `silent_seconds`: a child that was heard of and
    then gives no sign of life for so long is killed; None: it gives none.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path
    descriptors: Sequence[int] = ()
    _: KW_ONLY
    silent_seconds: float | None = None
    umask: int = -1


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between starts: `first_seconds`, doubled by each failure in a row; `steady_seconds` at work end the row."""

    first_seconds: float = 0.5
    most_seconds: float = 30.0
    steady_seconds: float = 20.0

    def seconds(self, failures: int) -> float:
        return float(min(self.first_seconds * 2 ** min(failures - 1, 30), self.most_seconds))


@dataclass(slots=True)
class Child:
    """A program that runs from `start` to `stop`. `command` is asked before every start, so that a port may change."""

    name: str
    command: Callable[[], Command]
    log: LogFile
    tell: Tell
    backoff: Backoff = Backoff()
    pid: int | None = None
    failures: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=self.name)

    async def stop(self, grace_seconds: float) -> None:
        """Ask the program to end, kill it after `grace_seconds`, and leave nothing of its process group."""
        self._stopping.set()
        if self._task is None:
            return
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
        _, running = await asyncio.wait({self._task}, timeout=grace_seconds)
        if running:
            self.kill()
        await asyncio.wait({self._task})

    def kill(self) -> None:
        """End the program and its process group now, and for good."""
        self._stopping.set()
        self._kill_group()

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            status = await self._run_once()
            if self._stopping.is_set():
                return
            steady = time.monotonic() - began >= self.backoff.steady_seconds
            self.failures = 1 if steady else self.failures + 1
            wait = self.backoff.seconds(self.failures)
            self.tell(
                f"{self.name} ended ({_ending(status)}); starting it again in {wait:g} s. Its log: {self.log.path}"
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _run_once(self) -> int:
        command = self.command()
        if command.silent_seconds is None:
            return await self._run(command)
        with contextlib.closing(Heartbeat(command.silent_seconds)) as heartbeat:
            told = {**command.environment, VARIABLE: str(heartbeat.descriptor)}
            beating = replace(command, environment=told, descriptors=(*command.descriptors, heartbeat.descriptor))
            return await self._run(beating, heartbeat)

    async def _run(self, command: Command, heartbeat: Heartbeat | None = None) -> int:
        process = await self._spawn(command)
        self.pid = process.pid
        watching = None if heartbeat is None else asyncio.create_task(self._watch(heartbeat, process.pid))
        try:
            if self._stopping.is_set():
                self._kill_group()
            return await process.wait()
        finally:
            if watching is not None:
                watching.cancel()
            self._kill_group()
            self.pid = None

    async def _watch(self, heartbeat: Heartbeat, pid: int) -> None:
        seconds = await heartbeat.lost(pid)
        self.tell(f"{self.name} gave no sign of life for {seconds:.0f} s and is killed.")
        self._kill_group()

    async def _spawn(self, command: Command) -> asyncio.subprocess.Process:
        self.log.note(f"--- {self.name} starts")
        output = self.log.open()
        try:
            return await asyncio.create_subprocess_exec(
                *_launching(command.arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(command.environment),
                cwd=command.directory,
                pass_fds=tuple(command.descriptors),
                umask=command.umask,
                start_new_session=True,
            )
        finally:
            os.close(output)

    def _kill_group(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def _launching(arguments: Sequence[str]) -> Sequence[str]:
    return [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *arguments]


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
