"""The proxy: a process beside a drone through which programs in sandboxes go out, and the only one that reaches both.

It is told by its drone, over a socket that it inherits, what orders may reach. It has neither the drone's environment,
database, broker nor keys, but the secrets of the orders, and ends with the drone. One message each:

    {"id": 1, "do": "open", "order": O, "plan": {…}}          → {"id": 1, "given": {…}}
    {"id": 2, "do": "attach", "order": O, "way": W, "only": [[…]]}  with a pidfd → {"id": 2}
    {"id": 3, "do": "detach", "way": W}                       → {"id": 3, "denied": […]}
    {"id": 4, "do": "close", "order": O}                      → {"id": 4}

What cannot be done is answered with {"id": …, "problem": "…"}.
"""

import asyncio
import os
import resource
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import certifi

from drone.egress.forwarding import Connection
from drone.egress.http1 import HEAD_BYTES
from drone.egress.joining import Joiner
from drone.egress.plan import MESSAGE_BYTES, Plan, decoded, encoded
from drone.egress.ways import Order, Way, rule_of
from mcc.addresses import Refused, Resolve, look_up

MOST_CONNECTIONS = 128
"""Of one program at once."""

_JOIN_SECONDS = 10.0
_AT_ONCE = 16


class Proxy:
    """Answers one drone until that is gone."""

    def __init__(self, control: socket.socket, joiner: Joiner) -> None:
        self._control = control
        self._joiner = joiner
        self._joining = asyncio.Lock()
        self._resolve = _LookUps()
        self._orders: dict[str, Order] = {}
        self._trust: dict[str, ssl.SSLContext] = {}
        self._open: dict[str, _Door] = {}

    async def run(self) -> None:
        """Return when the drone is gone."""
        async with asyncio.TaskGroup() as group:
            while True:
                await _readable(self._control)
                data, descriptors, *_ = socket.recv_fds(self._control, MESSAGE_BYTES, 4)
                if not data:
                    os._exit(0)
                group.create_task(self._answer(decoded(data), descriptors))

    async def _answer(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        try:
            answer = await self._done(message, descriptors)
        except (OSError, Refused, KeyError, TypeError, ValueError) as error:
            answer = {"problem": str(error) or type(error).__name__}
        finally:
            for one in descriptors:
                os.close(one)
        self._control.send(encoded({"id": message["id"], **answer}))

    async def _done(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> Mapping[str, Any]:
        match message["do"]:
            case "open":
                return {"given": asdict(self._opened(message["order"], Plan.of(message["plan"])).given)}
            case "attach":
                await self._attach(message, descriptors[0])
            case "detach":
                door = self._open.pop(message["way"], None)
                return {"denied": [] if door is None else await door.shut()}
            case "close":
                order = self._orders.pop(message["order"], None)
                for name in [name for name, door in self._open.items() if door.order is order]:
                    await self._open.pop(name).shut()
        return {}

    def _opened(self, name: str, plan: Plan) -> Order:
        if name not in self._orders:
            self._orders[name] = Order(plan, rule_of(plan, _Known(plan.names, self._resolve)))
        return self._orders[name]

    def _trusting(self, order: Order) -> ssl.SSLContext | None:
        """How servers are known; making it takes 30 ms, which only orders with secrets need."""
        if not order.secrets:
            return None
        if order.trusted not in self._trust:
            self._trust[order.trusted] = _trust(order.trusted)
        return self._trust[order.trusted]

    async def _attach(self, message: Mapping[str, Any], first: int) -> None:
        """Raises OSError, KeyError."""
        order = self._orders[message["order"]]
        door = _Door(Way(order, message["only"]), self._trusting(order))
        async with self._joining, asyncio.timeout(_JOIN_SECONDS):
            self._joiner.ask(first)
            await _readable(self._joiner.pipe)
            listener = self._joiner.answer()
        await door.open(listener)
        self._open[message["way"]] = door


class _Door:
    """Where the connections of one program come in."""

    def __init__(self, way: Way, trust: ssl.SSLContext | None) -> None:
        self.order = way.order
        self._way = way
        self._trust = trust
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    async def open(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=HEAD_BYTES)

    async def shut(self) -> Sequence[str]:
        """End all of it; what was asked for in vain."""
        assert self._server is not None
        self._server.close()
        for one in self._connections:
            one.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        return self._way.denied

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            await Connection(self._way, self._trust, reader, writer).serve()
        except asyncio.CancelledError:
            # Of the program's end: asyncio would log it as a mistake of the server's.
            writer.transport.abort()
        finally:
            self._connections.discard(task)


class _LookUps:
    """Names are looked up in threads of this process, a few at a time."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, "look-up")

    async def __call__(self, host: str) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up, host)


class _Known:
    """Names with addresses of their own, and all others."""

    def __init__(self, names: Mapping[str, Sequence[str]], others: Resolve) -> None:
        self._names = names
        self._others = others

    async def __call__(self, host: str) -> Sequence[str]:
        known = self._names.get(host)
        return await self._others(host) if known is None else known


def _trust(more: str) -> ssl.SSLContext:
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())
    if more:
        trusted.load_verify_locations(cadata=more)
    trusted.set_alpn_protocols(["http/1.1"])
    return trusted


async def _readable(pipe: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(pipe, tell)
    try:
        await ready
    finally:
        loop.remove_reader(pipe)


def main() -> None:
    """`argv`: where modules are looked for, and the number of the socket that the drone is at the other end of."""
    control = socket.socket(fileno=int(sys.argv[2]))
    joiner = Joiner()
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    control.setblocking(False)
    joiner.pipe.setblocking(False)
    asyncio.run(Proxy(control, joiner).run())
