"""Servers on loopback in place of internet hosts, and clients of the proxy in between."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from drone.egress.access import OrderAccess, ProgramAccess, rule_of
from drone.egress.authority import Authority
from drone.egress.forwarding import ClientConnection
from drone.egress.http1 import HEAD_BYTES, BadMessage, MessageHead, read_body, read_request
from drone.egress.plan import EgressPlan
from mcc.addresses import Endpoint

PUBLIC = "93.184.216.34"
"""Where names of these tests lead to; connections go to loopback instead."""

Answer = Callable[[MessageHead, bytes], bytes]


@dataclass
class Host:
    """A server that records its requests."""

    port: int = 0
    asked: list[tuple[MessageHead, bytes]] = field(default_factory=list)
    connections: int = 0


def echo(head: MessageHead, body: bytes) -> bytes:
    said = b"\n".join(b"%b: %b" % one for one in head.headers) + b"\n\n" + body
    return b"HTTP/1.1 200 OK\r\nX-First: %b\r\nContent-Length: %d\r\n\r\n%b" % (head.start_line[1], len(said), said)


@asynccontextmanager
async def host(answer: Answer = echo, secure: ssl.SSLContext | None = None) -> AsyncIterator[Host]:
    known = Host()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        known.connections += 1
        try:
            while (head := await read_request(reader)) is not None:
                body = b"".join([piece async for piece in read_body(reader, head.request_framing)])
                known.asked.append((head, body))
                writer.write(answer(head, body))
                await writer.drain()
        except (OSError, BadMessage):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=secure)
    known.port = server.sockets[0].getsockname()[1]
    async with server:
        yield known


@dataclass
class Served:
    """The proxy for one program: its port, its access, and the endpoints that it connected to."""

    port: int
    access: ProgramAccess
    dialled: list[Endpoint]

    async def say(self, data: bytes) -> bytes:
        """Send data, and answer everything received until the connection is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        said = await reader.read()
        writer.close()
        return said


Resolve = Callable[[str], Awaitable[Sequence[str]]]


async def public(name: str) -> Sequence[str]:
    return [PUBLIC]


@asynccontextmanager
async def proxy(
    plan: EgressPlan, to: Host, *, resolve: Resolve = public, only: Sequence[Sequence[str]] = (), trust: str = ""
) -> AsyncIterator[Served]:
    """A proxy whose connections all go to the server `to`, whatever address was checked."""
    dialled: list[Endpoint] = []

    def dial(endpoint: Endpoint) -> Endpoint:
        dialled.append(endpoint)
        return Endpoint("127.0.0.1", to.port)

    access = ProgramAccess(OrderAccess(plan, rule_of(plan, resolve, dial)), only)
    trusted = ssl.create_default_context(cadata=trust or None)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ClientConnection(access, trusted, reader, writer).serve()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEAD_BYTES)
    async with server:
        yield Served(server.sockets[0].getsockname()[1], access, dialled)


async def secured(served: Served, name: str, authority: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A TLS connection through the proxy to port 443 of this name, verified with this authority (PEM)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"CONNECT {name}:443 HTTP/1.1\r\nHost: {name}:443\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    await writer.start_tls(ssl.create_default_context(cadata=authority), server_hostname=name)
    return reader, writer


def authority_of(name: str) -> tuple[str, ssl.SSLContext]:
    """A certificate authority as PEM, and the context of a server of this name that it signed."""
    made = Authority([name])
    return made.certificate.decode(), made.context(name)
