"""One child process of the sandbox: starting it, reading its output within bounds, and killing its whole tree."""

import asyncio
import contextlib
import json
import math
import os
import resource
import signal
import subprocess
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from drone.sandbox.custody import Custody, TermOver
from drone.sandbox.limits import DEFAULT
from drone.sandbox.spawned import PipeEnd, Spawned

T = TypeVar("T")

_INFO_BYTES = 65_536

GONE_SECONDS = 5.0
"""How long to wait for a killed tree; only a process stuck in the kernel takes this long."""

_PIECE = 65_536


class FirstProcess(NamedTuple):
    """The first process of a sandbox: its pid in the drone's namespace, and a pidfd of it."""

    pid: int
    fd: int


class Leash:
    """Two pipes to bubblewrap: on one it reports the first process of its sandbox (--info-fd), on the other it waits
    for permission to start the command (--block-fd).

    The first process is pid 1 of its own process namespace: when it dies, the kernel kills every other process in
    there, and bubblewrap itself ends only after that. Waiting for bubblewrap therefore waits for all of them.
    """

    def __init__(self) -> None:
        self._info, self._their_info = os.pipe()
        reading, self._go = os.pipe()
        # Open for writing as well: bubblewrap takes the end of the pipe for permission to start. Its own write end
        # keeps the pipe open, so a drone that is killed does not start the command.
        self._their_go = os.open(f"/proc/self/fd/{reading}", os.O_RDWR | os.O_CLOEXEC)
        os.close(reading)
        self._first: int | None = None
        self.first_pid: int | None = None

    @property
    def options(self) -> tuple[str, ...]:
        return ("--info-fd", str(self._their_info), "--block-fd", str(self._their_go))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that bubblewrap inherits."""
        return (self._their_info, self._their_go)

    def handed_over(self) -> None:
        """Close our copies of the child's ends, after it has started: only then does its death close the pipes."""
        for fd in self.descriptors:
            os.close(fd)
        self._their_info = self._their_go = -1

    async def ready(self, limits: Mapping[int, int]) -> FirstProcess | None:
        """Wait for the first process and put these limits on it; it waits for `let_go`. None when bubblewrap failed."""
        answer = b""
        while not answer.endswith(b"}\n"):
            await _readable(self._info)
            piece = os.read(self._info, _INFO_BYTES)
            if not piece:
                return None
            answer += piece
        pid = int(json.loads(answer)["child-pid"])
        with contextlib.suppress(ProcessLookupError):
            self._first, self.first_pid = os.pidfd_open(pid), pid
            put_limits(pid, limits)
            return FirstProcess(pid, self._first)
        return None

    def let_go(self) -> None:
        """Give the command permission to start."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"1")

    def kill(self, process: Spawned) -> None:
        """Kill everything in the sandbox.

        Before its pid is known, the first process does not die with bubblewrap but is in its process group, so the
        group is killed.
        """
        with contextlib.suppress(ProcessLookupError):
            if self._first is None:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    async def gone(self) -> None:
        """Wait until the first process has ended, and with it all others; bubblewrap itself may end before."""
        if self._first is not None:
            await _readable(self._first)

    def close(self) -> None:
        for fd in (self._info, self._go, self._their_info, self._their_go, self._first):
            if fd is not None and fd >= 0:
                os.close(fd)


def put_limits(pid: int, limits: Mapping[int, int]) -> None:
    """Set these limits (soft and hard) of a process; lower ones that it has already stay. Raises ProcessLookupError
    when it is gone."""
    for limit, value in limits.items():
        hard = resource.prlimit(pid, limit)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.prlimit(pid, limit, (allowed, allowed))


async def _readable(fd: int) -> None:
    """Wait until a descriptor can be read."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, wake)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`seconds` (or `math.inf`) until the whole tree is killed; how many bytes of the beginning (`head_bytes`) and of
    the end (`tail_bytes`) of each output are kept."""

    seconds: float
    head_bytes: int = 128_000
    tail_bytes: int = 128_000


@dataclass(slots=True)
class Captured:
    """The beginning and the end of an output of any length; `total` counts all its bytes, `on_output` gets them all."""

    head_bytes: int
    tail_bytes: int
    total: int = 0
    on_output: Callable[[bytes], None] | None = None
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, piece: bytes) -> None:
        if self.on_output is not None:
            self.on_output(piece)
        self.total += len(piece)
        room = self.head_bytes - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:] if room < len(piece) else b""
        if len(self._tail) > self.tail_bytes + _PIECE:
            self._trim()

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self.tail_bytes)]

    @property
    def head(self) -> bytes:
        return bytes(self._head)

    @property
    def tail(self) -> bytes:
        self._trim()
        return bytes(self._tail)

    @property
    def left_out(self) -> int:
        """Bytes between `head` and `tail` that were not kept."""
        return self.total - len(self.head) - len(self.tail)


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """How a program ended. `status` is its exit status, or 128 plus the signal's number when a signal killed it.

    `undone`: sentences about protected paths that it made or changed, and where those files are now.
    `ran_out_of_memory`: the kernel killed one of its processes because all of them together reached the memory limit.
    `unfinished`: why something that follows a program's end could not be done, one sentence each.
    """

    status: int
    stdout: Captured
    stderr: Captured
    timed_out: bool = False
    undone: tuple[str, ...] = ()
    ran_out_of_memory: bool = False
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the program that makes the sandbox (never a shell): its arguments, inherited descriptors, output.

    `limits`: limits of each process in the sandbox (`RLIMIT_…`). `environment`: of the program that makes the sandbox.
    `umask`: of all its programs, -1 for this process's own.

    `piped`: input and output are streams for the caller (`StartedProgram`), only stderr is kept. `merged`: stdout and
    stderr in the order in which they were written, as `stdout`. `on_output` is called with each kept piece. `before` is
    awaited when the sandbox exists and the program has not started; an exception that it raises ends the sandbox.
    """

    argv: Sequence[str]
    fds: Sequence[int] = ()
    limits: Mapping[int, int] = field(default_factory=DEFAULT.of_each)
    piped: bool = False
    merged: bool = False
    on_output: Callable[[bytes], None] | None = None
    before: Callable[["FirstProcess"], Awaitable[None]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int = -1


@dataclass(frozen=True, slots=True)
class StartedProgram:
    """A program that has permission to start. The streams are set when it is piped."""

    kill: Callable[[], None]
    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None


async def run(
    launch: Launch,
    leash: Leash,
    bounds: Bounds,
    custody: Custody,
    begun: "asyncio.Future[StartedProgram] | None" = None,
) -> EndedProgram:
    """Run a program to its end, or until its time is over; `begun` is resolved when it starts.

    The program inherits nothing of this process's environment. When the caller is cancelled or the time is over, the
    whole tree is killed and waited for. The program does not start while its drone may not act, nor when the drone
    lost its lease since this call began. Raises OSError when the program cannot be started.
    """
    term = custody.term
    output = await _Stdout.made(launch.piped)
    starting = asyncio.create_task(_started(launch, leash, output))
    stdout, stderr = (Captured(bounds.head_bytes, bounds.tail_bytes, on_output=launch.on_output) for _ in range(2))
    timed_out = False
    try:
        async with asyncio.timeout(None if math.isinf(bounds.seconds) else bounds.seconds) as limit:
            # Shielded: a start that is cancelled half-way leaves a process that nobody holds a handle of.
            process = await asyncio.shield(starting)
            custody.watch(process.pid)
            # The command has not started yet. It starts once the reaper watches it, its limits hold and the lease is
            # trusted.
            if (first := await leash.ready(launch.limits)) is not None:
                # Watched by itself too: it leaves bubblewrap's process group when it starts, and only a moment later
                # is it set to die with bubblewrap.
                custody.watch(first.pid)
                if launch.before is not None:
                    await launch.before(first)
                await custody.wait_until_trusted(term)
                leash.let_go()
            if begun is not None and not begun.done():
                begun.set_result(StartedProgram(lambda: leash.kill(process), process.stdin, output.reader))
            await _read(process, stdout, stderr)
    except TimeoutError:
        if not limit.expired():
            raise
        timed_out = True
    except TermOver:
        pass
    finally:
        await to_the_end(_gone(starting, leash, stdout, stderr, custody))
        output.close()
    code = starting.result().returncode
    status = -signal.SIGKILL if code is None else code
    return EndedProgram(status if status >= 0 else 128 - status, stdout, stderr, timed_out)


class _Stdout:
    """Where a program's stdout goes: a pipe of asyncio's subprocess, or, for a piped program, one made here.

    A pipe made here stays readable to its end by the caller, whatever becomes of the process.
    """

    def __init__(self, theirs: int, reader: asyncio.StreamReader | None) -> None:
        self.theirs = theirs
        self.reader = reader

    @classmethod
    async def made(cls, piped: bool) -> "_Stdout":
        if not piped:
            return cls(subprocess.PIPE, None)
        ours, theirs = os.pipe()
        reader, loop = asyncio.StreamReader(), asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), PipeEnd(ours, loop))
        return cls(theirs, reader)

    def close(self) -> None:
        """Close our copy of the program's end, so that the reader sees the end of the output."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = subprocess.PIPE


async def _started(launch: Launch, leash: Leash, stdout: _Stdout) -> Spawned:
    process = await Spawned.start(
        launch.argv,
        launch.environment,
        (*leash.descriptors, *launch.fds),
        stdin=subprocess.PIPE if launch.piped else subprocess.DEVNULL,
        stdout=stdout.theirs,
        stderr=subprocess.STDOUT if launch.merged else subprocess.PIPE,
        umask=launch.umask,
    )
    leash.handed_over()
    stdout.close()
    return process


async def _gone(
    starting: asyncio.Task[Spawned],
    leash: Leash,
    stdout: Captured,
    stderr: Captured,
    custody: Custody,
) -> None:
    """Kill the processes that still run, and read the output that they wrote until then."""
    await asyncio.wait({starting})
    if starting.exception() is not None:
        return
    process = starting.result()
    try:
        await _ended(process, leash, stdout, stderr)
    finally:
        process.close()
    if process.returncode is not None:
        custody.release(process.pid)
        if leash.first_pid is not None:
            custody.release(leash.first_pid)


async def _ended(process: Spawned, leash: Leash, stdout: Captured, stderr: Captured) -> None:
    if process.returncode is None:
        leash.kill(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_SECONDS):
                await _read(process, stdout, stderr)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            await leash.gone()


async def to_the_end(work: Coroutine[None, None, T]) -> T:
    """Await `work` to its end even when cancelled, then raise the cancellation. Cancelling a start or a wait half-way
    would lose the process."""
    task, cancelled = asyncio.create_task(work), None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


async def _read(process: Spawned, stdout: Captured, stderr: Captured) -> None:
    """Read both outputs to their ends, and wait for that of the process."""
    async with asyncio.TaskGroup() as group:
        for stream, into in ((process.stdout, stdout), (process.stderr, stderr)):
            if stream is not None:
                group.create_task(_drain(stream, into))
        group.create_task(process.wait())


async def _drain(stream: asyncio.StreamReader, into: Captured) -> None:
    while piece := await stream.read(_PIECE):
        into.add(piece)
