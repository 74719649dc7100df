"""A supervised child process: started, restarted and stopped, watched by its heartbeat; and its log, kept small."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from mcc.local import launch

LOOK_SECONDS = 0.5
VARIABLE = "DRONE_HEARTBEAT"
"""The environment variable that holds the descriptor to which a child writes its heartbeats."""


class Silence:
    """Measures for how long a child has sent no heartbeat, in time during which the supervisor itself ran.

    Time before the first heartbeat does not count, nor time in which the child is stopped. Of the time between two
    looks at most `most_gap_seconds` count: if it was longer, the supervisor itself was held up.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_gap_seconds: float = 2 * LOOK_SECONDS) -> None:
        self._clock = clock
        self._most_gap_seconds = most_gap_seconds
        self._looked_at = clock()
        self._begun = False
        self._seconds = 0.0

    def look(self, *, heard: bool, stopped: bool) -> float:
        """The seconds of silence by now. `heard`: a heartbeat came since the last look; `stopped`: see `is_stopped`."""
        now = self._clock()
        gap, self._looked_at = min(now - self._looked_at, self._most_gap_seconds), now
        self._begun = self._begun or heard
        self._seconds = 0.0 if heard or stopped or not self._begun else self._seconds + gap
        return self._seconds


class ChildHeartbeat:
    """The pipe of one child's heartbeats; the child writes to `descriptor`."""

    def __init__(self, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self._read, self.descriptor = os.pipe()
        os.set_blocking(self._read, False)
        # Non-blocking on the child's side too: a supervisor that reads nothing must not stop the child.
        os.set_blocking(self.descriptor, False)

    async def lost(self, pid: int) -> float:
        """Wait until the child has been silent for `most_seconds`. Answers for how many seconds it was."""
        silence, seconds = Silence(), 0.0
        while seconds < self._most_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            seconds = silence.look(heard=self._heard(), stopped=is_stopped(pid))
        return seconds

    def close(self) -> None:
        os.close(self._read)
        os.close(self.descriptor)

    def _heard(self) -> bool:
        heard = False
        with suppress(BlockingIOError):
            while os.read(self._read, 65_536):
                heard = True
        return heard


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped, by a signal or a debugger."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in (b"T", b"t")


Notify = Callable[[str], None]
"""Prints one line for people."""

LARGEST_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """What to run. `environment` is complete: nothing is inherited. `descriptors` stay open in the child.

    `umask` -1: that of this process. `silent_seconds`: a child that sent a heartbeat and then none for so long is
    killed; None: the child sends no heartbeats.
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
    """Waits between starts: `first_seconds`, doubled with each failure in a row up to `most_seconds`. A run of
    `steady_seconds` ends the row."""

    first_seconds: float = 0.5
    most_seconds: float = 30.0
    steady_seconds: float = 20.0

    def seconds(self, failures: int) -> float:
        return float(min(self.first_seconds * 2 ** min(failures - 1, 30), self.most_seconds))


@dataclass(frozen=True, slots=True)
class LogFile:
    """The log of a child: at most about `largest` bytes at `path`, with older lines at `path`.1."""

    path: Path
    largest: int = LARGEST_BYTES

    @property
    def older(self) -> Path:
        return self.path.with_name(self.path.name + ".1")

    def rotate(self) -> None:
        """Move what an earlier family wrote to `older`."""
        if self.path.exists():
            self.path.replace(self.older)

    def open(self) -> int:
        """A descriptor for appending, which the caller closes. A new file is private to its owner."""
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, line: str) -> None:
        """Append a line; dropped without an error when the disk is full or the directory is gone."""
        with contextlib.suppress(OSError):
            descriptor = self.open()
            try:
                os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
            finally:
                os.close(descriptor)

    def bound(self) -> None:
        """Copy a file that is larger than `largest` to `older`, then empty it. Its writer appends, and so need not
        reopen it. Where there is no room for the copy, the lines are lost.
        """
        if not self.path.exists() or self.path.stat().st_size <= self.largest:
            return
        try:
            shutil.copyfile(self.path, self.older)
            self.older.chmod(0o600)
        except OSError:
            self.older.unlink(missing_ok=True)
        # Emptied in place and not renamed, because the child keeps its descriptor open and would go on writing into the
        # old file.
        os.truncate(self.path, 0)

    def tail(self, lines: int = 8) -> str:
        """The last lines, as text."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                return "".join(deque(file, maxlen=lines)).rstrip()
        except OSError:
            return ""


@dataclass(slots=True)
class Child:
    """A program that is kept running from `start` to `stop`. `command` is called before every start, so that it can
    choose another port."""

    name: str
    command: Callable[[], ChildCommand]
    log: LogFile
    notify: Notify
    backoff: Backoff = Backoff()
    pid: int | None = None
    failures: int = 0
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name=self.name)

    async def stop(self, grace_seconds: float) -> None:
        """End the program with SIGTERM, after `grace_seconds` with SIGKILL; then kill its whole process group."""
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
        """Kill the program and its process group now; it is not started again."""
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
            self.notify(
                f"{self.name} ended ({_ending(status)}); starting it again in {wait:g} s. Its log: {self.log.path}"
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _run_once(self) -> int:
        command = self.command()
        if command.silent_seconds is None:
            return await self._run(command)
        with contextlib.closing(ChildHeartbeat(command.silent_seconds)) as heartbeat:
            environment = {**command.environment, VARIABLE: str(heartbeat.descriptor)}
            beating = replace(
                command, environment=environment, descriptors=(*command.descriptors, heartbeat.descriptor)
            )
            return await self._run(beating, heartbeat)

    async def _run(self, command: ChildCommand, heartbeat: ChildHeartbeat | None = None) -> int:
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

    async def _watch(self, heartbeat: ChildHeartbeat, pid: int) -> None:
        seconds = await heartbeat.lost(pid)
        self.notify(f"{self.name} gave no sign of life for {seconds:.0f} s and is killed.")
        self._kill_group()

    async def _spawn(self, command: ChildCommand) -> asyncio.subprocess.Process:
        self.log.note(f"--- {self.name} starts")
        output = self.log.open()
        try:
            # -I and -S: the launcher needs only the standard library, and starts faster without `site`.
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", launch.__file__, str(os.getpid())),
                *command.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(command.environment),
                cwd=command.directory,
                pass_fds=tuple(command.descriptors),
                umask=command.umask,
                # A group of its own, which can be killed as a whole; Ctrl-C in the terminal then reaches only the
                # supervisor.
                start_new_session=True,
            )
        finally:
            os.close(output)

    def _kill_group(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-status).name}"
    return f"killed by signal {-status}"
