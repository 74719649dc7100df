"""A TCP proxy on loopback that ends connections at a random byte of either side, or kills somebody at that byte.

Where a connection is cut is drawn among as many bytes as whole connections had before it, so that each byte is as
likely as any other. All methods may be called from any thread; connections run on the loop that `start` was awaited on.
"""

import asyncio
import contextlib
import random
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.faults.tcp import LINGER_OFF, PIECE

Side = Literal["client", "server"]
SIDES: tuple[Side, Side] = ("client", "server")


@dataclass(frozen=True, slots=True)
class Harm:
    """What happens once `side` has sent `at` bytes. `kills`: somebody is killed; else the connection ends, by a RST or
    in good order."""

    side: Side
    at: int
    resets: bool
    kills: bool = False


@dataclass
class Passed:
    """One connection: how many bytes each side has sent, and whether it was harmed."""

    harm: Harm | None
    bytes: Counter[Side] = field(default_factory=Counter)
    harmed: bool = False


class CuttingProxy:
    """Passes on to `target`. While `share` is above 0, that part of new connections is harmed until `cuts` are cut, and
    at `kills` somebody is killed."""

    def __init__(
        self,
        target: tuple[str, int],
        seed: str,
        kill: Callable[[], bool] = lambda: False,
        *,
        port: int = 0,
        lengths: tuple[int, int] = (0, 0),
    ) -> None:
        """`kill` answers whether there was somebody to be killed. `port` 0: any free one. `lengths`: how many bytes of
        client and server are drawn from at least."""
        self.target = target
        self.port = port
        self.share = 0.0
        self.cuts = 0
        self.kills = 0
        self.cut = 0
        self.killed = 0
        self.accepted = 0
        self.lengths: Counter[Side] = Counter(dict(zip(SIDES, lengths, strict=True)))
        self._dice = random.Random(seed)
        self._kill = kill
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.drop()

    async def drop(self) -> None:
        """End the connections that are there."""
        for task in list(self._running):
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running), timeout=5.0)

    def _drawn(self) -> Harm | None:
        if self._dice.random() >= self.share or self.is_over:
            return None
        side = self._dice.choice(SIDES)
        at = self._dice.randint(0, self.lengths[side])
        cuts, kills = max(0, self.cuts - self.cut), max(0, self.kills - self.killed)
        # Kills are spread over the whole of it.
        return Harm(side, at, resets=self._dice.random() < 0.5, kills=self._dice.random() * (cuts + kills) < kills)

    @property
    def is_over(self) -> bool:
        """Whether as many connections were harmed as were wished."""
        return self.cut >= self.cuts and self.killed >= self.kills

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self.accepted += 1
        passed, far_writer = Passed(self._drawn()), None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, far_writer, writer, passed, "client"))
                both.create_task(self._pass(far_reader, writer, far_writer, passed, "server"))
        except* (OSError, asyncio.CancelledError):
            pass  # It was harmed, or the proxy stops.
        finally:
            self._running.discard(task)
            for each in (writer, far_writer):
                if each is not None:
                    each.transport.abort() if passed.harmed else each.close()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other: asyncio.StreamWriter,
        passed: Passed,
        side: Side,
    ) -> None:
        harm = passed.harm
        while data := await reader.read(PIECE):
            left = harm.at - passed.bytes[side] if harm is not None and harm.side == side else len(data) + 1
            writer.write(data[: max(0, left)])
            passed.bytes[side] += min(len(data), max(0, left))
            self.lengths[side] = max(self.lengths[side], passed.bytes[side])
            await writer.drain()
            if harm is not None and left <= len(data):
                await self._harm(harm, passed, writer, other)
                raise ConnectionResetError("cut")
        with contextlib.suppress(OSError):
            writer.write_eof()

    def _count_kill(self) -> None:
        """In a thread: what is awaited for this may end meanwhile, as the other side does."""
        self.killed += self._kill()

    async def _harm(
        self, harm: Harm, passed: Passed, writer: asyncio.StreamWriter, other: asyncio.StreamWriter
    ) -> None:
        passed.harmed = True
        if harm.kills:
            await asyncio.get_running_loop().run_in_executor(None, self._count_kill)
            return
        self.cut += 1
        for each in (writer, other):
            if harm.resets and (sock := each.get_extra_info("socket")) is not None:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_OFF)
            each.close()
