"""This room is for the hold on a sandbox's first process: limits before anything runs in it, and one blow ends all."""

import asyncio
import contextlib
import json
import os
import resource
import signal
from collections.abc import Mapping

LIMITS: Mapping[int, int] = {
    resource.RLIMIT_AS: 2 << 30,
    resource.RLIMIT_NPROC: 256,
    resource.RLIMIT_FSIZE: 1 << 30,
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_CORE: 0,
}
"""Address space and file size in bytes; processes, open files and core dumps as the kernel counts them."""

_INFO_BYTES = 65_536


class Leash:
    """Two pipes to bubblewrap: it names the first process of its sandbox there, and starts the command when told to.

    That process is number 1 of its own process namespace: when it dies, the kernel kills every other one in there, and
    bubblewrap itself ends only after that. So whoever waits for bubblewrap has waited for all of them.
    """

    def __init__(self) -> None:
        self._info, self._their_info = os.pipe()
        self._their_go, self._go = os.pipe()
        self._first: int | None = None

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

    async def ready(self) -> bool:
        """Put the limits on the first process, which waits to be let go; False when bubblewrap gave up before."""
        told = b""
        while not told.endswith(b"}\n"):
            await _readable(self._info)
            piece = os.read(self._info, _INFO_BYTES)
            if not piece:
                return False
            told += piece
        pid = int(json.loads(told)["child-pid"])
        with contextlib.suppress(ProcessLookupError):
            self._first = os.pidfd_open(pid)
            put_limits(pid, LIMITS)
            return True
        return False

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
