"""The transport over real sockets on this machine: connections, timeouts and failures."""

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from drone.agent.ports.model import ModelError
from drone.models.body import Body, body_of
from drone.models.dialects.chat import ChatCompletions
from drone.models.remote import ModelEndpoint, Remote, Timeouts
from drone.models.transport import ModelWire, Target
from tests.waiting import readable

BEGUN = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
DONE = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
LAST = b"0\r\n\r\n"

Serve = Callable[["Connection"], Awaitable[None]]


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await self.reader.readexactly(int(length.split(b":")[1]))
        return head

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def leaves(self) -> None:
        await self.reader.read()


@asynccontextmanager
async def server(serve: Serve, secure: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server on a free port of this machine; yields its address."""

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(Connection(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(welcome, "127.0.0.1", 0, backlog=1000, ssl=secure)
    async with listening:
        scheme = "http" if secure is None else "https"
        yield f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"


@asynccontextmanager
async def wire(**options: Any) -> AsyncIterator[ModelWire]:
    own = ModelWire(**options)
    try:
        yield own
    finally:
        await own.aclose()


def model(
    address: str, own: ModelWire, *, stream: bool = True, first_seconds: float = 30.0, stall_seconds: float = 5.0
) -> Remote:
    timeouts = Timeouts(first_seconds, stall_seconds)
    endpoint = ModelEndpoint("openai/m", "m", address, key="k" * 20, stream=stream, timeouts=timeouts)
    return Remote(endpoint, ChatCompletions(endpoint), own)


async def test_calls_one_after_another_share_a_connection_and_bring_no_cookies(bench: Any) -> None:
    heads: list[bytes] = []
    guests = 0

    async def serve(guest: Connection) -> None:
        nonlocal guests
        guests += 1
        while True:
            heads.append(await guest.request())
            await guest.say(HEAD + b"set-cookie: a=b\r\n\r\n" + chunked(DONE))
            await guest.say(LAST)

    async with server(serve) as address, wire() as own:
        asked = model(address, own)
        for _ in range(5):
            assert (await asked.ask(bench.asking(), bench.listener)).text == "x"
    assert (guests, len(heads)) == (1, 5)
    assert not any(b"cookie" in head.lower() for head in heads)
    assert all(b"accept-encoding: identity" in head.lower() for head in heads)


async def test_hundreds_of_calls_go_out_side_by_side(bench: Any) -> None:
    count, all_here = 300, asyncio.Event()
    here = 0

    async def serve(guest: Connection) -> None:
        nonlocal here
        await guest.request()
        here += 1
        if here == count:
            all_here.set()
        await all_here.wait()
        await guest.say(HEAD + b"\r\n" + chunked(DONE) + LAST)

    async with server(serve) as address, wire() as own:
        asked = model(address, own, stall_seconds=30)
        replies = await asyncio.gather(*(asked.ask(bench.asking(), bench.listener) for _ in range(count)))
    assert {reply.text for reply in replies} == {"x"}


@pytest.mark.parametrize("before", [b"", HEAD + b"\r\n"], ids=["status", "byte"])
async def test_a_provider_that_says_nothing_is_given_up(bench: Any, before: bytes) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(before)
        await guest.leaves()

    async with server(serve) as address, wire() as own:
        error = await bench.refused(model(address, own, first_seconds=0.05))
    assert str(error) == "openai/m said nothing for 0.05 seconds."
    assert error.retryable


async def test_a_provider_that_falls_silent_in_the_middle_is_given_up(bench: Any) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n" + chunked(BEGUN))
        await guest.leaves()

    async with server(serve) as address, wire() as own:
        error = await bench.refused(model(address, own, stall_seconds=0.05))
    assert str(error) == "openai/m fell silent for 0.05 seconds in the middle of its reply."
    assert error.retryable


async def test_signs_of_life_are_no_first_token(bench: Any) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n")
        while True:
            await guest.say(chunked(b": still here\n\n"))
            await asyncio.sleep(0.01)

    async with server(serve) as address, wire() as own:
        error = await bench.refused(model(address, own, first_seconds=0.1))
    assert str(error) == "openai/m said nothing for 0.1 seconds."


async def test_a_reply_that_flows_is_not_cut_by_the_time_of_a_whole_one(bench: Any) -> None:
    pieces = 20

    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n")
        for _ in range(pieces):
            await guest.say(chunked(BEGUN))
            await asyncio.sleep(0.01)
        await guest.say(chunked(DONE) + LAST)

    async with server(serve) as address, wire() as own:
        reply = await model(address, own, stall_seconds=2.0).ask(bench.asking(call_seconds=0.01), bench.listener)
    assert len(reply.text) > pieces


async def test_a_whole_reply_has_its_own_time(bench: Any) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.leaves()

    async with server(serve) as address, wire() as own:
        asked = model(address, own, stream=False)
        error = await bench.refused(asked, bench.asking(call_seconds=0.05))
    assert (str(error), error.retryable) == ("openai/m did not finish within 0.05 seconds.", True)


async def test_a_provider_that_drips_for_ever_meets_the_deadline(bench: Any) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n")
        while True:
            await guest.say(chunked(b": still here\n\n"))
            await asyncio.sleep(0)

    async with server(serve) as address, wire() as own:
        error = await bench.refused(model(address, own), bench.asking(seconds=0.1))
    assert (str(error), error.retryable) == ("openai/m did not finish within 0.1 seconds.", True)


async def test_a_whole_reply_whose_connection_stays_open_is_not_waited_for(bench: Any) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n" + chunked(DONE))
        await guest.leaves()

    async with server(serve) as address, wire() as own:
        assert (await model(address, own).ask(bench.asking(), bench.listener)).text == "x"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        HEAD + b"\r\n" + chunked(DONE[:30]),
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
    ],
    ids=["nothing", "half a status", "another protocol", "half a stream", "half a body"],
)
async def test_a_connection_that_breaks_may_be_tried_again(bench: Any, said: bytes, stream: bool) -> None:
    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(said)

    async with server(serve) as address, wire() as own:
        error = await bench.refused(model(address, own, stream=stream))
    assert error.retryable
    assert address.split("//")[1] not in str(error)


async def test_a_port_where_nobody_listens_is_a_sentence(bench: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        async with wire() as own:
            error = await bench.refused(model(f"http://{place}/v1", own))
    said = "the connection was refused or failed; check that it runs there, and its base_url"
    assert str(error) == f"openai/m could not be reached at {place}: {said}."
    assert error.retryable


async def test_a_certificate_that_is_not_trusted_here_is_a_sentence(bench: Any) -> None:
    authority = pytest.importorskip("drone.egress.authority").Authority(["models.test"])

    async def serve(guest: Connection) -> None:
        await guest.leaves()

    async with server(serve, authority.context("models.test")) as address, wire() as own:
        error = await bench.refused(model(address, own))
    place = address.removeprefix("https://").removesuffix("/v1")
    said = f"openai/m could not be reached at {place}: its certificate is not trusted on this machine."
    assert (str(error), error.retryable) == (said, False)


async def test_a_host_that_lets_nobody_in_is_given_up(bench: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        full = [socket.socket() for _ in range(3)]
        for guest in full:
            guest.setblocking(False)
            guest.connect_ex(listener.getsockname())
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        async with wire(connect_seconds=0.1) as own:
            error = await bench.refused(model(f"http://{place}/v1", own))
        for guest in full:
            guest.close()
    assert str(error) == f"openai/m could not be reached at {place} within 0.1 seconds."
    assert error.retryable


async def test_a_redirect_is_not_followed(bench: Any) -> None:
    visited = asyncio.Event()

    async def elsewhere(guest: Connection) -> None:
        visited.set()

    async with server(elsewhere) as other:

        async def serve(guest: Connection) -> None:
            await guest.request()
            await guest.say(b"HTTP/1.1 307 Go\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % other.encode())

        async with server(serve) as address, wire() as own:
            error = await bench.refused(model(address, own))
    assert (error.status, error.retryable, visited.is_set()) == (307, False, False)


async def test_a_cancelled_call_closes_its_connection(bench: Any) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def serve(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n" + chunked(DONE[:20]))
        asked.set()
        await guest.leaves()
        left.set()

    async with server(serve) as address, wire() as own:
        call = asyncio.create_task(model(address, own).ask(bench.asking(), bench.listener))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(5):
            await left.wait()


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
SHORT = body_of(lambda: iter((b"{}",)))
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Peer:
    """A provider's side of connections as plain sockets, which need no turn of the event loop to be read."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.target = Target.at("m", f"http://127.0.0.1:{self.listener.getsockname()[1]}/v1", {})

    async def answered(self, own: ModelWire, body: Body) -> socket.socket:
        """Answer a first request of `own`; returns its connection, which `own` may use again."""
        posting = asyncio.ensure_future(own.post(self.target, body))
        loop = asyncio.get_running_loop()
        guest, _ = await loop.sock_accept(self.listener)
        guest.setblocking(False)
        received = b""
        while not received.endswith(b"{}"):
            piece = await loop.sock_recv(guest, 1 << 20)
            assert piece, f"the connection was closed after {received!r}"
            received += piece
        await loop.sock_sendall(guest, EMPTY)
        answer = await posting
        assert await answer.at_most(10) == b""
        await answer.close()
        return guest


def received_at_once(guest: socket.socket) -> bytes:
    return guest.recv(1 << 20) if readable(guest.fileno(), 5.0) else b""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="aiohttp sends a body at once from Python 3.12 on")
@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_short_request_is_sent_before_other_tasks_run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def work() -> bytes:
        async with wire() as own:
            peer, seen = Peer(), asyncio.get_running_loop().create_future()
            guest = await peer.answered(own, SHORT)
            posting = asyncio.ensure_future(own.post(peer.target, body_of(lambda: iter((b'{"a":', b"1}")))))
            # Runs right after the first step of `posting`.
            asyncio.get_running_loop().call_soon(lambda: seen.set_result(received_at_once(guest)))
            request: bytes = await seen
            await asyncio.get_running_loop().sock_sendall(guest, EMPTY)
            await (await posting).close()
            return request

    with asyncio.Runner(loop_factory=new_loop) as runner:
        request = runner.run(asyncio.wait_for(work(), 20))
    assert request.startswith(b"POST /v1 HTTP/1.1\r\n")
    assert b"content-length: 7\r\n" in request.lower()
    assert request.endswith(b'\r\n\r\n{"a":1}')


async def test_a_request_that_asks_first_begins_with_its_head() -> None:
    async with wire() as own:
        peer, loop = Peer(), asyncio.get_running_loop()
        target = peer.target.with_headers({"expect": "100-continue"})
        posting = asyncio.ensure_future(own.post(target, SHORT))
        guest, _ = await loop.sock_accept(peer.listener)
        head = await loop.sock_recv(guest, 1 << 20)
        assert head.startswith(b"POST /v1 HTTP/1.1\r\n") and head.endswith(b"\r\n\r\n")
        await loop.sock_sendall(guest, b"HTTP/1.1 100 Continue\r\n\r\n")
        assert await loop.sock_recv(guest, 1 << 20) == b"{}"
        await loop.sock_sendall(guest, EMPTY)
        await (await posting).close()


@pytest.mark.parametrize("new_loop", LOOPS)
def test_a_connection_with_half_a_request_in_it_is_not_used_again(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def work() -> bytes:
        async with wire() as own:
            peer, loop = Peer(), asyncio.get_running_loop()
            peer.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            guest = await peer.answered(own, SHORT)
            connector: Any = own._session and own._session.connector
            [[(protocol, _)]] = connector._conns.values()
            protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            posting = asyncio.ensure_future(own.post(peer.target, body_of(lambda: iter((b"x" * 60_000,)))))
            assert (await loop.sock_recv(guest, 4)) == b"POST"
            await loop.sock_sendall(guest, EMPTY)
            await (await posting).close()
            other = await peer.answered(own, SHORT)
            return b"" if other is guest else b"another"

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(asyncio.wait_for(work(), 5)) == b"another"


def test_one_wire_serves_several_event_loops_in_turn(bench: Any) -> None:
    own = ModelWire()

    async def once() -> str:
        async def serve(guest: Connection) -> None:
            await guest.request()
            await guest.say(HEAD + b"\r\n" + chunked(DONE) + LAST)
            await guest.leaves()

        async with server(serve) as address:
            text: str = (await model(address, own).ask(bench.asking(), bench.listener)).text
            return text

    assert [asyncio.run(once()) for _ in range(2)] == ["x", "x"]
    asyncio.run(own.aclose())


@pytest.mark.parametrize(
    "address",
    [
        "http://",
        "http://[::1/v1",
        "http://127.0.0.1:99999/v1",
        "ftp://models.test/v1",
        "http://models.test/v1",
        "http://127.0.0.1.evil.test/v1",
        "http://127.0.0.1@evil.test/v1",
        "https://me:secret@models.test/v1",
        "https://models.test/v1?key=1",
        "",
    ],
)
def test_an_address_that_no_key_may_be_sent_to_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        ModelEndpoint("openai/m", "m", address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "https://models.test/v1",
        "http://127.0.0.1:8000/v1",
        "http://127.9.9.9",
        "http://localhost:1/v1",
        "http://[::1]:1/v1",
    ],
)
def test_an_address_over_https_or_on_this_machine_is_taken(address: str) -> None:
    assert ModelEndpoint("openai/m", "m", address).base_url == address


async def ask(own: ModelWire, address: str, bench: Any) -> ModelError:
    with pytest.raises(ModelError) as refused:
        await model(address, own).ask(bench.asking(), bench.listener)
    return refused.value


async def test_a_provider_elsewhere_is_asked_through_the_proxy_which_sees_its_host_and_no_key(bench: Any) -> None:
    seen: list[bytes] = []

    async def refuse(guest: Connection) -> None:
        seen.append(await guest.reader.readuntil(b"\r\n\r\n"))
        await guest.say(b"HTTP/1.1 403 Filtered\r\ncontent-length: 0\r\n\r\n")

    async with server(refuse) as address:
        own = ModelWire(proxy=address.removesuffix("/v1"))
        error = await ask(own, "https://models.example.invalid/v1", bench)
        await own.aclose()
    assert "the proxy answered 403" in str(error)
    assert seen[0].startswith(b"CONNECT models.example.invalid:443 ")
    assert all(b"authorization" not in head.lower() and b"kkkk" not in head for head in seen)


async def test_a_model_with_a_proxy_of_its_own_is_asked_through_that_also_by_http(bench: Any) -> None:
    seen: list[bytes] = []

    async def answer(guest: Connection) -> None:
        seen.append(await guest.request())
        await guest.say(HEAD + b"\r\n" + chunked(DONE) + LAST)

    async with server(answer) as address:
        own = ModelWire(proxy="http://127.0.0.1:1")
        proxy = address.removesuffix("/v1")
        far = ModelEndpoint("openai/m", "m", "http://models.example.invalid/v1", allow_http=True, proxy=proxy)
        assert (await Remote(far, ChatCompletions(far), own).ask(bench.asking(), bench.listener)).text == "x"
        await own.aclose()
    assert seen[0].startswith(b"POST http://models.example.invalid/v1/chat/completions ")


async def test_a_server_on_this_machine_is_asked_past_the_proxy(bench: Any) -> None:
    async def answer(guest: Connection) -> None:
        await guest.request()
        await guest.say(HEAD + b"\r\n" + chunked(DONE) + LAST)

    async with server(answer) as address:
        own = ModelWire(proxy="http://127.0.0.1:1")
        assert (await model(address, own).ask(bench.asking(), bench.listener)).text == "x"
        assert "the proxy does not answer" in str(await ask(own, "https://models.example.invalid/v1", bench))
        await own.aclose()
