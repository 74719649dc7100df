"""A child process on any event loop that inherits no descriptor but those it is given.

The loop of a drone, uvloop, starts children that inherit every inheritable descriptor of this process: those that it
duplicated itself, and those that this process got from its own parent.
"""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO

from mcc.processors import PROCESSORS

_READ_AHEAD = 1 << 16


class PipeEnd:
    """One end of a pipe, which its transport closes.

    uvloop closes the descriptor itself, and afterwards calls `close` of what it was given. A file would close the
    number once more, and by then it may be that of another thread's file.
    """

    def __init__(self, fd: int, loop: asyncio.AbstractEventLoop) -> None:
        self._fd = fd
        self._is_closed_by_loop = type(loop).__module__.partition(".")[0] == "uvloop"

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0 and not self._is_closed_by_loop:
            os.close(fd)


def _taken(pipe: IO[bytes], loop: asyncio.AbstractEventLoop) -> PipeEnd:
    """The pipe of a `subprocess.Popen`, which closes it no more."""
    with pipe:
        return PipeEnd(os.dup(pipe.fileno()), loop)


class Spawned:
    """A started process. The streams are set where they were asked for."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self._transports: list[asyncio.BaseTransport] = []
        self.stdin: asyncio.StreamWriter | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        environment: Mapping[str, str],
        fds: Sequence[int],
        *,
        stdin: int,
        stdout: int,
        stderr: int,
        umask: int = -1,
    ) -> "Spawned":
        """Start it as the leader of a session of its own. `stdin`, `stdout`, `stderr`: as for `subprocess`, or a
        descriptor. `umask`: -1 for this process's own. Raises OSError.
        """
        made = cls(_popen(argv, environment, fds, (stdin, stdout, stderr), umask))
        try:
            await made._connect()
        except BaseException:
            made.close()
            made._popen.kill()
            made._popen.wait()
            raise
        return made

    async def _connect(self) -> None:
        popen, loop = self._popen, asyncio.get_running_loop()
        if popen.stdin is not None:
            protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
            transport, _ = await loop.connect_write_pipe(lambda: protocol, _taken(popen.stdin, loop))
            self.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
            self._transports.append(transport)
        self.stdout = await self._reader(popen.stdout)
        self.stderr = await self._reader(popen.stderr)

    async def _reader(self, pipe: IO[bytes] | None) -> asyncio.StreamReader | None:
        if pipe is None:
            return None
        reader, loop = asyncio.StreamReader(_READ_AHEAD), asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), _taken(pipe, loop))
        self._transports.append(transport)
        return reader

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """As of `subprocess`: negative for a signal; None until `wait` has seen the end."""
        return self._popen.returncode

    async def wait(self) -> int:
        """Wait for its end."""
        while self._popen.poll() is None:
            await _readable_once(self._popen.pid)
        return self._popen.returncode

    def close(self) -> None:
        """Close the streams. Somebody outside may hold the other ends of them open for ever."""
        for transport in self._transports:
            transport.close()


def _popen(
    argv: Sequence[str], environment: Mapping[str, str], fds: Sequence[int], streams: tuple[int, int, int], umask: int
) -> "subprocess.Popen[bytes]":
    """Blocks for the millisecond until the program is there, as asyncio's own start of a process does."""
    # A program may use every processor, though the threads of its drone keep to one (decision 19).
    with PROCESSORS.all_available():
        return subprocess.Popen(
            argv,
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=dict(environment),
            pass_fds=fds,
            start_new_session=True,
            umask=umask,
        )


async def _readable_once(pid: int) -> None:
    """Return when the process has ended, and is not reaped yet."""
    loop, fd = asyncio.get_running_loop(), os.pidfd_open(pid)
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    loop.add_reader(fd, end)
    try:
        await ended
    finally:
        loop.remove_reader(fd)
        os.close(fd)
