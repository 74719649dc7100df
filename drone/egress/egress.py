"""The egress of a drone: its proxy process, started when first needed, and the networks that it gives to programs."""

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import certifi

from drone.egress.joiner import PORT
from drone.egress.plan import MESSAGE_BYTES, EgressGrant, EgressPlan, decoded, encoded
from drone.sandbox.custody import Custody, TermOver
from mcc.contracts.ids import fresh_id
from mcc.processors import PROCESSORS
from mcc.side_process import import_path, isolated_interpreter

ANSWER_SECONDS = 30.0
"""How long to wait for the proxy. It is stopped while the drone may not act, and answers only after that."""

BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
"""Path in the sandbox of the certificate authorities that programs trust."""

_BUNDLE_NAMES = (
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
)
_PROXY = f"http://127.0.0.1:{PORT}"
_ENVIRONMENT: Mapping[str, str] = {
    **{name: _PROXY for plain in ("http_proxy", "https_proxy") for name in (plain, plain.upper())},
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost"),
    "NODE_USE_ENV_PROXY": "1",
    **dict.fromkeys(_BUNDLE_NAMES, BUNDLE),
}
_BEGIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from drone.egress.proxy import main; main()"


class EgressError(OSError):
    """The network cannot be provided; the message is a sentence that says why."""


class Egress:
    """Gives programs their network, by the operator's plan. Use on one event loop; close it."""

    def __init__(self, plan: EgressPlan, custody: Custody) -> None:
        self._plan = plan
        self._custody = custody
        self._proxy: ProxyProcess | None = None
        self._opened: dict[str, EgressGrant] = {}
        self._starting = asyncio.Lock()

    def network(self, order_id: str, only: Sequence[Sequence[str]] = ()) -> "ProxiedNetwork | None":
        """The network for one program of this order. `only`: lists of hosts, each of which further restricts what the
        operator allows. None when the program may reach nothing."""
        return ProxiedNetwork(self, order_id, self._plan, only) if self._plan.allow and all(only) else None

    def network_to(self, hosts: Sequence[str], private: Sequence[str] = ()) -> "ProxiedNetwork":
        """The network for a program of the operator's own, which may reach these hosts and gets no secrets. `private`:
        those that may have private addresses, besides the configured ones."""
        allowed = (*self._plan.allow_private, *private)
        plan = replace(self._plan, allow=tuple(hosts), allow_private=allowed, secrets=())
        return ProxiedNetwork(self, f"hosts {' '.join(hosts)}", plan, ())

    async def open_order(self, name: str, plan: EgressPlan) -> "tuple[ProxyProcess, EgressGrant]":
        """The proxy, started if need be and told what this order may reach, and the order's grant. Raises
        `EgressError`."""
        # Two programs that start together must not start two proxies, nor open the order twice.
        async with self._starting:
            if self._proxy is None or not self._proxy.runs:
                self._forget()
                self._proxy = await ProxyProcess.started(self._custody)
            if name not in self._opened:
                request = {"do": "open", "order": name, "plan": plan.as_dict}
                self._opened[name] = EgressGrant(**(await self._proxy.ask(request))["given"])
            return self._proxy, self._opened[name]

    async def forget_order(self, order_id: str) -> None:
        """The order is over: forget its authority and stand-ins, and close all its connections."""
        if self._opened.pop(order_id, None) is not None and self._proxy is not None:
            # A proxy that is gone has no connections left.
            with suppress(EgressError):
                await self._proxy.ask({"do": "close", "order": order_id})

    def close(self) -> None:
        """End the proxy."""
        self._forget()

    def _forget(self) -> None:
        gone, self._proxy = self._proxy, None
        self._opened.clear()
        if gone is not None:
            gone.end()


@asynccontextmanager
async def egress_for_order(egress: Egress | None, order_id: str) -> AsyncIterator[None]:
    """Use for as long as an order lasts: afterwards its connections are closed. `egress` None = nothing to do."""
    try:
        yield
    finally:
        if egress is not None:
            await egress.forget_order(order_id)


class ProxiedNetwork:
    """The network of one program (`drone.sandbox.profile.Network`): only a proxy on its loopback interface."""

    def __init__(self, egress: Egress, name: str, plan: EgressPlan, only: Sequence[Sequence[str]]) -> None:
        self._egress = egress
        self._name = name
        self._plan = plan
        self._proxy: ProxyProcess | None = None
        self._grant = EgressGrant()
        self._only = [list(names) for names in only]
        self._access_id = fresh_id()
        self._denied: tuple[str, ...] = ()

    async def prepare(self) -> None:
        self._proxy, self._grant = await self._egress.open_order(self._name, self._plan)

    @property
    def environment(self) -> Mapping[str, str]:
        return {**_ENVIRONMENT, **self._grant.stand_ins}

    @property
    def files(self) -> Mapping[str, bytes]:
        # The public authorities, and those that OpenSSL trusts in this process: of the file that SSL_CERT_FILE names.
        files = filter(None, (certifi.where(), ssl.get_default_verify_paths().cafile))
        trusted = b"\n".join(Path(file).read_bytes() for file in files)
        return {BUNDLE: trusted + b"\n" + self._grant.certificate.encode()}

    @property
    def denied(self) -> Sequence[str]:
        return self._denied

    @property
    def problem(self) -> str:
        """The parts of the operator's plan that do not work here, and why; empty where all of it works."""
        return self._grant.problem

    async def attach(self, first: int) -> None:
        if self._proxy is None:
            raise EgressError("The way out was not prepared.")
        await self._proxy.ask({"do": "attach", "order": self._name, "way": self._access_id, "only": self._only}, first)

    async def detach(self) -> None:
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            with suppress(EgressError):
                self._denied = tuple((await proxy.ask({"do": "detach", "way": self._access_id}))["denied"])


class ProxyProcess:
    """The proxy's process, with the requests that it has not answered yet."""

    def __init__(self, process: "subprocess.Popen[bytes]", control: socket.socket, custody: Custody) -> None:
        self._process = process
        self._control = control
        self._custody = custody
        self._asked: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._read)

    @classmethod
    async def started(cls, custody: Custody) -> "ProxyProcess":
        """Start a proxy, once the drone may act. Raises `EgressError`."""
        try:
            await custody.wait_until_trusted(custody.term)
        except TermOver as error:
            raise EgressError("The proxy for programs was not started: this drone lost its lease.") from error
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            try:
                process = _spawn(theirs.fileno())
            except OSError as error:
                ours.close()
                raise EgressError(f"The proxy for programs cannot be started: {error.strerror}") from error
        custody.watch(process.pid)
        return cls(process, ours, custody)

    @property
    def runs(self) -> bool:
        return self._control.fileno() >= 0 and self._process.poll() is None

    async def ask(self, message: Mapping[str, Any], *descriptors: int) -> Mapping[str, Any]:
        """Send a request with descriptors, and wait for its answer. Raises `EgressError`."""
        self._count += 1
        number = self._count
        answer: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        try:
            socket.send_fds(self._control, [encoded({"id": number, **message})], descriptors)
        except OSError as error:
            raise EgressError("The proxy for programs is not there any more; try again.") from error
        self._asked[number] = answer
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await answer
        except TimeoutError as error:
            raise EgressError("The proxy for programs does not answer; try again.") from error
        finally:
            self._asked.pop(number, None)
        if "problem" in reply:
            raise EgressError(f"There is no way out for this program: {reply['problem']}")
        return reply

    def end(self) -> None:
        """Kill the process, wait until it is gone, and fail the open requests."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        self._process.kill()
        self._process.wait()
        self._custody.release(self._process.pid)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(EgressError("The proxy for programs is not there any more; try again."))

    def _read(self) -> None:
        try:
            data = self._control.recv(MESSAGE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.end()
            return
        message = decoded(data)
        answer = self._asked.get(message.pop("id"))
        if answer is not None and not answer.done():
            answer.set_result(message)


def _spawn(control: int) -> "subprocess.Popen[bytes]":
    """Start the proxy as a fresh isolated interpreter, without environment: nothing around it decides what it imports,
    and none of the drone's keys are in its memory, as they would be after a fork."""
    with PROCESSORS.all_available():
        return subprocess.Popen(
            (*isolated_interpreter(), "-c", _BEGIN, json.dumps(import_path()), str(control)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            pass_fds=(control,),
            start_new_session=True,
        )
