"""The proxy: a process beside a drone that connects programs in sandboxes with the hosts that they may reach.

Its drone tells it over an inherited socket what orders may reach. It has none of the drone's environment, database,
broker or keys, only the secrets of the orders, and it ends with the drone. Requests and answers, one message each:

    {"id": 1, "do": "open", "order": O, "plan": {…}}          → {"id": 1, "given": {…}}
    {"id": 2, "do": "attach", "order": O, "way": W, "only": [[…]]}  with a pidfd → {"id": 2}
    {"id": 3, "do": "detach", "way": W}                       → {"id": 3, "denied": […]}
    {"id": 4, "do": "close", "order": O}                      → {"id": 4}

W names the access of one program. A request that fails is answered with {"id": …, "problem": "…"}.
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

from drone.egress.access import OrderAccess, ProgramAccess, rule_of
from drone.egress.forwarding import ClientConnection
from drone.egress.http1 import HEAD_BYTES
from drone.egress.joiner import Joiner
from drone.egress.plan import MESSAGE_BYTES, EgressPlan, decoded, encoded
from mcc.addresses import AddressRefused, Resolve, look_up

MOST_CONNECTIONS = 128
"""Simultaneous connections of one program."""

_JOIN_SECONDS = 10.0
_AT_ONCE = 16


class Proxy:
    """Answers the requests of one drone until the drone is gone."""

    def __init__(self, control: socket.socket, joiner: Joiner) -> None:
        self._control = control
        self._joiner = joiner
        self._joining = asyncio.Lock()
        self._resolve = _Resolver()
        self._orders: dict[str, OrderAccess] = {}
        self._trust: dict[str, ssl.SSLContext] = {}
        self._open: dict[str, _Listener] = {}

    async def run(self) -> None:
        """Answer requests; ends the process when the drone is gone."""
        async with asyncio.TaskGroup() as group:
            while True:
                await _readable(self._control)
                data, descriptors, *_ = socket.recv_fds(self._control, MESSAGE_BYTES, 4)
                if not data:
                    # Not a return: open tasks, and look-ups in threads, would delay the end of this process.
                    os._exit(0)
                group.create_task(self._answer(decoded(data), descriptors))

    async def _answer(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        try:
            answer = await self._execute(message, descriptors)
        except (OSError, AddressRefused, KeyError, TypeError, ValueError) as error:
            answer = {"problem": str(error) or type(error).__name__}
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._control.send(encoded({"id": message["id"], **answer}))

    async def _execute(self, message: Mapping[str, Any], descriptors: Sequence[int]) -> Mapping[str, Any]:
        match message["do"]:
            case "open":
                return {"given": asdict(self._order(message["order"], EgressPlan.of(message["plan"])).grant)}
            case "attach":
                await self._attach(message, descriptors[0])
            case "detach":
                listener = self._open.pop(message["way"], None)
                return {"denied": [] if listener is None else await listener.shut()}
            case "close":
                order = self._orders.pop(message["order"], None)
                for name in [name for name, listener in self._open.items() if listener.order is order]:
                    await self._open.pop(name).shut()
        return {}

    def _order(self, name: str, plan: EgressPlan) -> OrderAccess:
        if name not in self._orders:
            self._orders[name] = OrderAccess(plan, rule_of(plan, _FixedNames(plan.names, self._resolve)))
        return self._orders[name]

    def _trust_of(self, order: OrderAccess) -> ssl.SSLContext | None:
        """The context that verifies servers; only orders with secrets need it, and making it takes 30 ms."""
        if not order.secrets:
            return None
        if order.trusted not in self._trust:
            self._trust[order.trusted] = _trust(order.trusted)
        return self._trust[order.trusted]

    async def _attach(self, message: Mapping[str, Any], first: int) -> None:
        """Open a listener in the network of the sandbox whose first process the pidfd names. Raises OSError,
        KeyError."""
        order = self._orders[message["order"]]
        listener = _Listener(ProgramAccess(order, message["only"]), self._trust_of(order))
        # One at a time: the answers of the joiner name no request.
        async with self._joining, asyncio.timeout(_JOIN_SECONDS):
            self._joiner.ask(first)
            await _readable(self._joiner.pipe)
            listening = self._joiner.answer()
        await listener.open(listening)
        self._open[message["way"]] = listener


class _Listener:
    """Accepts the connections of one program."""

    def __init__(self, access: ProgramAccess, trust: ssl.SSLContext | None) -> None:
        self.order = access.order
        self._access = access
        self._trust = trust
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[Any]] = set()

    async def open(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._server = await asyncio.start_server(self._serve, sock=listener, limit=HEAD_BYTES)

    async def shut(self) -> Sequence[str]:
        """Close the listener and all connections; answers the hosts that were denied."""
        assert self._server is not None
        self._server.close()
        for one in self._connections:
            one.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        return self._access.denied

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            await ClientConnection(self._access, self._trust, reader, writer).serve()
        except asyncio.CancelledError:
            # Cancelled by `shut`. Re-raised, asyncio would log it as an error of the server.
            writer.transport.abort()
        finally:
            self._connections.discard(task)


class _Resolver:
    """Looks names up in threads of this process, a bounded number at once."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_AT_ONCE, "look-up")

    async def __call__(self, host: str) -> Sequence[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up, host)


class _FixedNames:
    """Answers the fixed addresses of these names, and resolves all others."""

    def __init__(self, names: Mapping[str, Sequence[str]], others: Resolve) -> None:
        self._names = names
        self._others = others

    async def __call__(self, host: str) -> Sequence[str]:
        known = self._names.get(host)
        return await self._others(host) if known is None else known


def _trust(more: str) -> ssl.SSLContext:
    """A client context that trusts the public authorities, and `more` (PEM)."""
    trusted = ssl.create_default_context()
    trusted.load_verify_locations(certifi.where())
    if more:
        trusted.load_verify_locations(cadata=more)
    trusted.set_alpn_protocols(["http/1.1"])
    return trusted


async def _readable(pipe: socket.socket) -> None:
    """Wait until a socket can be read."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(pipe, wake)
    try:
        await ready
    finally:
        loop.remove_reader(pipe)


def main() -> None:
    """The proxy's process. `argv`: its `sys.path` as JSON, and the descriptor of the socket to the drone."""
    control = socket.socket(fileno=int(sys.argv[2]))
    joiner = Joiner()
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    control.setblocking(False)
    joiner.pipe.setblocking(False)
    asyncio.run(Proxy(control, joiner).run())
