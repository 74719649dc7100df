"""One child process of the sandbox: started from an argument list, held, read within bounds, gone when nobody waits."""

import asyncio
import contextlib
import json
import math
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from drone.sandbox.custody import Custody, TermOver
from drone.sandbox.limits import DEFAULT
from mcc.processors import PROCESSORS

T = TypeVar("T")

_INFO_BYTES = 65_536

GONE_SECONDS = 5.0
"""How long a killed tree is waited for; only a process that the kernel itself holds back takes as long."""

_PIECE = 65_536


class First(NamedTuple):
    """The first process of a sandbox: its number here, and a descriptor of it (pidfd)."""

    pid: int
    fd: int


class Leash:
    """Two pipes to bubblewrap: it names the first process of its sandbox there, and starts the command when told to.

    That process is number 1 of its own process namespace: when it dies, the kernel kills every other one in there, and
    bubblewrap itself ends only after that. So whoever waits for bubblewrap has waited for all of them.
    """

    def __init__(self) -> None:
        self._info, self._their_info = os.pipe()
        reading, self._go = os.pipe()
        # Open for writing as well: bubblewrap takes the end of the pipe for leave to begin, and it must not have that
        # because its drone is killed.
        self._their_go = os.open(f"/proc/self/fd/{reading}", os.O_RDWR | os.O_CLOEXEC)
        os.close(reading)
        self._first: int | None = None
        self.first_pid: int | None = None

    @property
    def options(self) -> tuple[str, ...]:
        return ("--info-fd", str(self._their_info), "--block-fd", str(self._their_go))

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the new process inherits."""
        return (self._their_info, self._their_go)

    def handed_over(self) -> None:
        """The process has its ends now; ours of them close, so that its death is seen."""
        for fd in self.descriptors:
            os.close(fd)
        self._their_info = self._their_go = -1

    async def ready(self, limits: Mapping[int, int]) -> First | None:
        """The first process with these limits on it, which waits to be let go; None when bubblewrap gave up before."""
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
            return First(pid, self._first)
        return None

    def let_go(self) -> None:
        """Let the command start."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"1")

    def kill(self, process: asyncio.subprocess.Process) -> None:
        """End everything in the sandbox.

        Until it is let go, its first process does not die with bubblewrap, but is in one process group with it.
        """
        with contextlib.suppress(ProcessLookupError):
            if self._first is None:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    async def gone(self) -> None:
        """Return when its first process has ended, and with it all others: bubblewrap itself may end before."""
        if self._first is not None:
            await _readable(self._first)

    def close(self) -> None:
        for fd in (self._info, self._go, self._their_info, self._their_go, self._first):
            if fd is not None and fd >= 0:
                os.close(fd)


def put_limits(pid: int, limits: Mapping[int, int]) -> None:
    """Put these limits on a process, unless lower ones are there already. Raises ProcessLookupError when it is gone."""
    for limit, value in limits.items():
        resource.prlimit(pid, limit, _within(pid, limit, value))


def _within(pid: int, limit: int, value: int) -> tuple[int, int]:
    """`value` for both limits, or what is there already when that is less."""
    hard = resource.prlimit(pid, limit)[1]
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    return allowed, allowed


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, tell)
    try:
        await ready
    finally:
        loop.remove_reader(fd)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`seconds` (or `math.inf`) until the whole tree is killed; how many bytes of each output are kept of its ends."""

    seconds: float
    head_bytes: int = 128_000
    tail_bytes: int = 128_000


@dataclass(slots=True)
class Captured:
    """The beginning and the end of an output of any length; `total` counts all of its bytes, `told` hears them."""

    head_bytes: int
    tail_bytes: int
    total: int = 0
    told: Callable[[bytes], None] | None = None
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, piece: bytes) -> None:
        if self.told is not None:
            self.told(piece)
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
class Ended:
    """`status` is the exit status (128 and the signal's number for one that was killed).

    `undone`: sentences about what it made or changed of what is protected, and where that is now. `ran_out_of_memory`:
    something of it was killed because all of it together had as much as it may.
    """

    status: int
    stdout: Captured
    stderr: Captured
    timed_out: bool = False
    undone: tuple[str, ...] = ()
    ran_out_of_memory: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """A sandbox's program (never a shell): its arguments, what it inherits, and who hears of it.

    `limits`: those of each of its processes (`RLIMIT_…`). `environment`: of what starts it.

    `piped`: its input and output are streams of the caller's (`Begun`), only the error output is kept. `merged`: both
    outputs in the order in which they were written, as `stdout`. `told` hears each piece of what is kept. `before` is
    waited for when the sandbox is there and the program has not begun; what it raises ends it.
    """

    argv: Sequence[str]
    fds: Sequence[int] = ()
    limits: Mapping[int, int] = field(default_factory=DEFAULT.of_each)
    piped: bool = False
    merged: bool = False
    told: Callable[[bytes], None] | None = None
    before: Callable[["First"], Awaitable[None]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Begun:
    """A program that was let go. The streams are there when it is piped."""

    kill: Callable[[], None]
    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None


async def run(
    launch: Launch, leash: Leash, bounds: Bounds, custody: Custody, begun: "asyncio.Future[Begun] | None" = None
) -> Ended:
    """Run a program to its end, or until its time is over; `begun` is told when it begins.

    Nothing of our environment goes with it. Whether the caller is cancelled or the time is over: the whole tree is
    killed, and waited for. The program does not start while its drone may not act, nor when the drone's lease was lost
    since this call began. Raises OSError when the program cannot be started.
    """
    term = custody.term
    own = await _Stdout.made(launch.piped)
    starting = asyncio.create_task(_started(launch, leash, own))
    stdout, stderr = (Captured(bounds.head_bytes, bounds.tail_bytes, told=launch.told) for _ in range(2))
    timed_out = False
    try:
        async with asyncio.timeout(None if math.isinf(bounds.seconds) else bounds.seconds) as limit:
            # Shielded: a start that is cut off half-way leaves a process that nobody knows of.
            process = await asyncio.shield(starting)
            custody.watch(process.pid)
            # Its command has not begun yet: it does once the reaper knows it, its limits hold and the lease is trusted.
            if (first := await leash.ready(launch.limits)) is not None:
                # It leaves bubblewrap's group when it begins, and dies with it only a moment later.
                custody.watch(first.pid)
                if launch.before is not None:
                    await launch.before(first)
                await custody.cleared(term)
                leash.let_go()
            if begun is not None and not begun.done():
                begun.set_result(Begun(lambda: leash.kill(process), process.stdin, own.reader))
            await _read(process, stdout, stderr)
    except TimeoutError:
        if not limit.expired():
            raise
        timed_out = True
    except TermOver:
        pass
    finally:
        await to_the_end(_gone(starting, leash, stdout, stderr, custody))
        own.close()
    code = starting.result().returncode
    status = -signal.SIGKILL if code is None else code
    return Ended(status if status >= 0 else 128 - status, stdout, stderr, timed_out)


class _Stdout:
    """Where a program's output goes: a pipe that asyncio reads, or one of our own.

    On a pipe of its own asyncio does not see the process end before somebody read everything.
    """

    def __init__(self, theirs: int, reader: asyncio.StreamReader | None) -> None:
        self.theirs = theirs
        self.reader = reader

    @classmethod
    async def made(cls, piped: bool) -> "_Stdout":
        if not piped:
            return cls(asyncio.subprocess.PIPE, None)
        ours, theirs = os.pipe()
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb", 0)
        )
        return cls(theirs, reader)

    def close(self) -> None:
        """The program has its end; the reader comes to the end of what is written."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = asyncio.subprocess.PIPE


async def _started(launch: Launch, leash: Leash, stdout: _Stdout) -> asyncio.subprocess.Process:
    with PROCESSORS.all_available():
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            stdin=asyncio.subprocess.PIPE if launch.piped else asyncio.subprocess.DEVNULL,
            stdout=stdout.theirs,
            stderr=asyncio.subprocess.STDOUT if launch.merged else asyncio.subprocess.PIPE,
            env=dict(launch.environment),
            pass_fds=(*leash.descriptors, *launch.fds),
            start_new_session=True,
        )
    leash.handed_over()
    stdout.close()
    return process


async def _gone(
    starting: asyncio.Task[asyncio.subprocess.Process],
    leash: Leash,
    stdout: Captured,
    stderr: Captured,
    custody: Custody,
) -> None:
    """Kill what still runs, and read what it said until then."""
    await asyncio.wait({starting})
    if starting.exception() is not None:
        return
    process = starting.result()
    if process.returncode is None:
        leash.kill(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_SECONDS):
                await _read(process, stdout, stderr)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            await leash.gone()
    if process.returncode is not None:
        custody.release(process.pid)
        if leash.first_pid is not None:
            custody.release(leash.first_pid)


async def to_the_end(work: Coroutine[None, None, T]) -> T:
    """Wait for `work` even when cancelled: asyncio never gives back a start, or a wait, that was cut off half-way."""
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


async def _read(process: asyncio.subprocess.Process, stdout: Captured, stderr: Captured) -> None:
    """Read both outputs to their ends: as long as one is not, asyncio does not see the process end."""
    async with asyncio.TaskGroup() as group:
        for stream, into in ((process.stdout, stdout), (process.stderr, stderr)):
            if stream is not None:
                group.create_task(_drained(stream, into))
        group.create_task(process.wait())


async def _drained(stream: asyncio.StreamReader, into: Captured) -> None:
    while piece := await stream.read(_PIECE):
        into.add(piece)
