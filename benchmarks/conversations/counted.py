"""Bytes that a process reads from its database: from files as the kernel counts them, from a server by a forwarder."""

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from urllib.parse import urlsplit

Counter = Callable[[], int]
"""The bytes read so far."""


def read_from_files() -> int:
    """The bytes that this process has read from files, those in the kernel's cache included."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


@contextmanager
def forwarded(url: str) -> Iterator[tuple[str, Counter]]:
    """The same database through a forwarder in a process of its own, which counts what the server sends."""
    place = urlsplit(url)
    sent: Synchronized[int] = multiprocessing.Value("q", 0)
    ours, theirs = multiprocessing.Pipe()
    target = (place.hostname or "127.0.0.1", place.port or 5432)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(theirs, target, sent), daemon=True)
    process.start()
    port = ours.recv()
    account = f"{place.username}@" if place.username else ""
    try:
        yield place._replace(netloc=f"{account}127.0.0.1:{port}").geturl(), lambda: int(sent.value)
    finally:
        process.kill()
        process.join()


def _serve(port: Connection, target: tuple[str, int], sent: "Synchronized[int]") -> None:
    asyncio.run(_forward(port, target, sent))


async def _forward(port: Connection, target: tuple[str, int], sent: "Synchronized[int]") -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counts: bool) -> None:
        while data := await reader.read(65_536):
            if counts:
                sent.value += len(data)
            writer.write(data)
            await writer.drain()
        writer.close()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*target)
        await asyncio.gather(copy(reader, back, counts=False), copy(there, writer, counts=True))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()
