"""A fake model server: it says what scripts say, in both wire formats, and fails where it is told to.

    python -m tests.faults.llm LOG [--port 0] [--control FILE]     # prints "ready PORT" when it listens

Requests that belong to no script get 400. Every request is one line of LOG (JSON): `t` when it came, `order` (the key
in its prompt), `agent` (path), `step`, `n` (how often this step of it was asked so far), `digest` (SHA-256 of messages
and tools as canonical JSON), `fault` or null, `outcome` ("answered", "cut", "refused", "hung"), the tokens.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.bad_calls import bad_step
from tests.faults.llm_faults import ControlFile, Fault, disturbed, worded
from tests.faults.repositories import deed_step
from tests.faults.script import Asked, Step, asked, reply
from tests.faults.wire import Tokens, chat_events, message_events

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
ENDLESS_SECONDS = 3_600.0
SLICE_BYTES = 7
GONE = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)


@dataclass(slots=True)
class Request:
    path: str
    body: bytes

    @property
    def is_chat(self) -> bool:
        return self.path.endswith("/chat/completions")


class CutOff(Exception):
    """The reply ends here, on purpose. `reset`: with a RST instead of a FIN."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self.reset = reset


@dataclass(frozen=True, slots=True)
class Client:
    """One connection. `write` and `silence` raise ConnectionError when nobody listens any more."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.check()

    async def silence(self, seconds: float | None) -> None:
        """Say nothing for so long (None: for ever), or until the client goes."""
        end = time.monotonic() + (ENDLESS_SECONDS if seconds is None else seconds)
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.1))
            self.check()

    def check(self) -> None:
        if self.reader.at_eof() or self.writer.is_closing():
            raise ConnectionResetError("the client has gone")


class Log:
    """A file of JSON lines; each is written with one call, so that lines stay whole."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, line: Mapping[str, object]) -> None:
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")


class Server:
    """Answers by script; `asked_before` counts the requests of each step."""

    def __init__(self, log: Log, control: ControlFile) -> None:
        self._log = log
        self._control = control
        self._asked_before: Counter[tuple[str, str, int]] = Counter()
        self._without_a_play = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: its requests in turn, until it ends."""
        try:
            while (request := await read_request(reader)) is not None:
                await self._answer(request, Client(reader, writer))
        except CutOff as cut:
            if cut.reset:
                writer.transport.abort()
        except GONE:
            pass
        finally:
            writer.close()
            with contextlib.suppress(*GONE):
                await writer.wait_closed()

    async def _answer(self, request: Request, client: Client) -> None:
        came = time.time()
        wanted, value = _understood(request.body)
        if wanted is None and (step := bad_step(value) or deed_step(value)) is not None:
            await self._answer_without_a_play(request, step, client)
            return
        if wanted is None:
            await _plain(client, 400, {"error": {"message": "This request belongs to no script."}})
            return
        key = (wanted.play.key, wanted.play.path, wanted.step)
        self._asked_before[key] += 1
        orders = self._control.orders()
        fault = orders.fault(wanted, self._asked_before[key])
        step = worded(reply(wanted), fault)
        tokens = Tokens.of(request.body, step)
        line: dict[str, object] = {
            "t": came,
            "order": key[0],
            "agent": key[1],
            "step": key[2],
            "n": self._asked_before[key],
            "digest": digest(value),
            "fault": fault.kind if fault else None,
            "outcome": "cut",
            "input_tokens": tokens.input,
            "output_tokens": tokens.output,
        }
        try:
            if fault and fault.kind in ("refuse", "status", "stall_first"):
                line["outcome"] = "hung" if fault.kind == "stall_first" else "refused"
                if await _refused(fault, client):
                    return
                line["outcome"] = "cut"
            stream = chat_events if request.is_chat else message_events
            reply_id = f"{key[0]}-{key[1]}-{key[2]}-{self._asked_before[key]}"
            body = b"".join(disturbed(stream(step, reply_id, tokens), fault))
            await _streamed(body, fault, orders.gap_seconds, client)
            line["outcome"] = "answered"
        finally:
            self._log.write(line)

    async def _answer_without_a_play(self, request: Request, step: Step, client: Client) -> None:
        self._without_a_play += 1
        stream = chat_events if request.is_chat else message_events
        body = b"".join(stream(step, f"reply-{self._without_a_play}", Tokens.of(request.body, step)))
        await _streamed(body, None, 0.0, client)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None at its end."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Request(lines[0].split(" ")[1], body)
    return None


def digest(request: Mapping[str, Any]) -> str:
    """SHA-256 of what was asked: messages and tools, whatever order their keys came in."""
    asked_for = {name: request.get(name) for name in ("messages", "system", "tools")}
    return hashlib.sha256(json.dumps(asked_for, sort_keys=True).encode()).hexdigest()


def _understood(body: bytes) -> tuple[Asked | None, Mapping[str, Any]]:
    try:
        value = json.loads(body)
        return asked(value), value
    except (ValueError, AttributeError, KeyError):
        return None, {}


async def _refused(fault: Fault, client: Client) -> bool:
    """Let no reply begin, or late; whether that was all."""
    if fault.kind == "refuse":
        raise CutOff(reset=True)
    if fault.kind == "status":
        more = {} if fault.retry_after is None else {"retry-after": fault.retry_after}
        await _plain(client, fault.status, {"error": {"message": f"armed fault {fault.status}"}}, more)
        return True
    await client.silence(fault.seconds)
    return False


async def _streamed(body: bytes, fault: Fault | None, gap_seconds: float, client: Client) -> None:
    """Send the events with what the fault does to their bytes. Raises `CutOff`, and what the connection raises."""
    await client.write(STREAM_HEAD)
    kind = fault.kind if fault else None
    if fault is not None and kind in ("cut", "reset", "stall_between"):
        await _pour(body[: fault.after], gap_seconds, client)
        if kind != "stall_between":
            raise CutOff(reset=kind == "reset")
        await client.silence(fault.seconds)
        body = body[fault.after :]
    if kind == "slices":
        for start in range(0, len(body), SLICE_BYTES):
            await _chunk(body[start : start + SLICE_BYTES], client)
    else:
        await _pour(body, gap_seconds, client)
    await client.write(b"0\r\n\r\n")


async def _pour(body: bytes, gap_seconds: float, client: Client) -> None:
    """Send all of it, with a gap before each event."""
    for event in re.split(rb"(?<=\n\n)", body) if gap_seconds else [body]:
        await asyncio.sleep(gap_seconds)
        await _chunk(event, client)


async def _chunk(data: bytes, client: Client) -> None:
    if data:
        await client.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _plain(client: Client, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
    body = json.dumps(value).encode()
    told = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    head = f"HTTP/1.1 {status} Scripted\r\n" + "".join(f"{name}: {said}\r\n" for name, said in told.items())
    await client.write(head.encode() + b"\r\n" + body)


async def listen(port: int, log: Path, control: Path) -> None:
    """Serve on loopback until cancelled; port 0 takes a free one. Prints the port once it listens."""
    service = Server(Log(log), ControlFile(control))
    server = await asyncio.start_server(service.serve, "127.0.0.1", port, limit=64 * 1024 * 1024)
    async with server:
        print("ready", server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.llm")
    parser.add_argument("log", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--control", type=Path, default=Path("llm.json"))
    said = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(listen(said.port, said.log, said.control))


if __name__ == "__main__":
    main()
