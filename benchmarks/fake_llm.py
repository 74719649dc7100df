"""A deterministic, fast fake model server for both wire formats, plain and streamed.

    python -m benchmarks.fake_llm PORT        # prints "ready PORT" once it listens; port 0 picks a free one

The base URL sets the speed: `http://127.0.0.1:PORT/L200/T20/G5/v1` answers after 200 ms with texts of 20 tokens, sent
5 ms apart when streaming. The prompt sets the replies:

    [[master k=4 r=8]]    The first reply calls `subagent` once for each of k children, which do r rounds each; the
                          second is final. Append ` tool=NAME` and ` agent=NAME` to replace lookup and explore.
    [[sub r=8 tool=NAME]] r rounds with one call of that tool (default: lookup), then the final text, or a report
                          if the agent has the tool `submit_result`. Append ` n=4` for that many calls per round.

`GET /stats` returns the counters, `GET /reset` sets them to zero.
"""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import httptools
import orjson

DELEGATE = re.compile(rb"\[\[master k=(\d+) r=(\d+)(?: tool=(\w+))?(?: agent=([\w-]+))?\]\]")
WORK = re.compile(rb"\[\[sub r=(\d+)(?: tool=(\w+))?(?: n=(\d+))?\]\]")
SETTING = re.compile(rb"/([LTG])(\d+)(?=/)")
PROMPT_TOKENS = 500
REPORT = orjson.dumps({"status": "completed", "summary": "The facts are as asked for."}).decode()
PIECES_OF_ARGUMENTS = 8
EVENT_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Pace:
    """Milliseconds before the answer and between streamed tokens, and the number of tokens of a final text."""

    latency_ms: int = 0
    tokens: int = 20
    gap_ms: int = 0

    @classmethod
    def of(cls, url: bytes) -> "Pace":
        settings = {letter: int(value) for letter, value in SETTING.findall(url)}
        return cls(settings.get(b"L", 0), settings.get(b"T", 20), settings.get(b"G", 0))


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class Stats:
    requests: int = 0
    chat: int = 0
    messages: int = 0
    streamed: int = 0
    connections: int = 0
    connections_total: int = 0
    connections_most: int = 0
    inflight: int = 0
    inflight_most: int = 0
    bytes_in: int = 0
    late_ms_most: float = 0.0

    def reset(self) -> None:
        open_now = self.connections, self.inflight
        for name in self.__slots__:
            setattr(self, name, 0)
        self.connections, self.inflight = open_now

    def as_json(self) -> bytes:
        return orjson.dumps({**{name: getattr(self, name) for name in self.__slots__}, "cpu": time.process_time()})


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: `calls` of tools or, without any, a text of `tokens` tokens."""

    model: str
    tokens: int
    calls: tuple[ToolCall, ...] = ()
    words: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", ("Done.", *(" token",) * (self.tokens - 1)))


def reply_to(body: bytes, request: dict[str, Any], pace: Pace, number: int) -> Reply:
    model = str(request.get("model", "fake"))
    rounds_done = sum(message.get("role") == "assistant" for message in request["messages"])
    if found := DELEGATE.search(body):
        children = _children(found, number) if rounds_done == 0 else ()
        return Reply(model, pace.tokens, children)
    found = WORK.search(body)
    if found and rounds_done < int(found[1]):
        tool = (found[2] or b"lookup").decode()
        required, count = _required(request, tool), int(found[3] or 1)
        first = rounds_done * count
        return Reply(model, pace.tokens, tuple(_tool_call(tool, required, n) for n in range(first, first + count)))
    if found and b'"submit_result"' in body:
        return Reply(model, pace.tokens, (ToolCall(f"call_{number}", "submit_result", REPORT),))
    return Reply(model, pace.tokens)


def _children(found: re.Match[bytes], number: int) -> tuple[ToolCall, ...]:
    count, rounds, tool = int(found[1]), int(found[2]), (found[3] or b"lookup").decode()
    agent = (found[4] or b"explore").decode()
    prompts = (f"Item {index}: find the facts and report. [[sub r={rounds} tool={tool}]]" for index in range(count))
    return tuple(
        ToolCall(f"call_{number}_{i}", "subagent", orjson.dumps({"agent_type": agent, "prompt": prompt}).decode())
        for i, prompt in enumerate(prompts)
    )


def _tool_call(tool: str, required: list[str], number: int) -> ToolCall:
    arguments = orjson.dumps(dict.fromkeys(required, f"fact number {number}")).decode()
    return ToolCall(f"call_{number}", tool, arguments)


def _required(request: dict[str, Any], tool: str) -> list[str]:
    """The required parameters of this tool, by its schema in the request."""
    if tool == "read_file":
        return ["path"]  # It takes one path or several, so its schema requires neither.
    for offered in request.get("tools") or ():
        declared = offered.get("function", offered)
        if declared.get("name") == tool:
            return list((declared.get("parameters") or declared.get("input_schema") or {}).get("required", ()))
    return []


def chat_whole(reply: Reply, number: int) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None if reply.calls else "".join(reply.words)}
    if reply.calls:
        message["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
            for one in reply.calls
        ]
    finish = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    usage = _usage(reply)
    return orjson.dumps({**_chat(reply, number), "object": "chat.completion", "choices": [choice], "usage": usage})


def chat_events(reply: Reply, number: int) -> Iterator[bytes]:
    top = {**_chat(reply, number), "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return b"data: " + orjson.dumps({**top, "choices": [choice]}) + b"\n\n"

    yield chunk({"role": "assistant", "content": None if reply.calls else ""})
    for index, one in enumerate(reply.calls):
        function = {"name": one.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": one.id, "type": "function", "function": function}]})
        for piece in _pieces(one.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    if not reply.calls:
        yield from (chunk({"content": word}) for word in reply.words)
    yield chunk({}, "tool_calls" if reply.calls else "stop")
    usage = _usage(reply)
    yield b"data: " + orjson.dumps({**top, "choices": [], "usage": usage}) + b"\n\n"
    yield b"data: [DONE]\n\n"


def messages_whole(reply: Reply, number: int) -> bytes:
    content: list[dict[str, Any]] = [
        {"type": "tool_use", "id": one.id, "name": one.name, "input": orjson.loads(one.arguments)}
        for one in reply.calls
    ] or [{"type": "text", "text": "".join(reply.words)}]
    stop = "tool_use" if reply.calls else "end_turn"
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": reply.tokens}
    return orjson.dumps({**_message(reply, number), "content": content, "stop_reason": stop, "usage": usage})


def messages_events(reply: Reply, number: int) -> Iterator[bytes]:
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 1}
    yield _event("message_start", message={**_message(reply, number), "content": [], "usage": usage})
    for index, one in enumerate(reply.calls):
        block = {"type": "tool_use", "id": one.id, "name": one.name, "input": {}}
        yield _event("content_block_start", index=index, content_block=block)
        for piece in _pieces(one.arguments):
            yield _event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": piece})
        yield _event("content_block_stop", index=index)
    if not reply.calls:
        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for word in reply.words:
            yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
        yield _event("content_block_stop", index=0)
    stop = "tool_use" if reply.calls else "end_turn"
    yield _event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": reply.tokens})
    yield _event("message_stop")


def _chat(reply: Reply, number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "created": 1_700_000_000, "model": reply.model}


def _usage(reply: Reply) -> dict[str, int]:
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": reply.tokens}
    return {**usage, "total_tokens": PROMPT_TOKENS + reply.tokens}


def _message(reply: Reply, number: int) -> dict[str, Any]:
    return {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": reply.model, "stop_reason": None}


def _event(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **data}))


def _pieces(text: str) -> Iterator[str]:
    step = max(1, -(-len(text) // PIECES_OF_ARGUMENTS))
    return (text[start : start + step] for start in range(0, len(text), step))


class Connection(asyncio.Protocol):
    """The connection of one client. Requests are answered in order."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._url = b""
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        stats = self._stats
        stats.connections += 1
        stats.connections_total += 1
        stats.connections_most = max(stats.connections_most, stats.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stats.connections -= 1

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.close()

    def on_message_begin(self) -> None:
        self._url, self._body = b"", []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        stats, url, body = self._stats, self._url, b"".join(self._body)
        if url == b"/stats":
            return self._answer(stats.as_json())
        if url == b"/reset":
            stats.reset()
            return self._answer(b"{}")
        if not body:  # A client that does not know the model's context length asks for it.
            return self._answer(b"{}")
        pace = Pace.of(url)
        stats.requests += 1
        stats.bytes_in += len(body)
        stats.inflight += 1
        stats.inflight_most = max(stats.inflight_most, stats.inflight)
        due = self._loop.time() + pace.latency_ms / 1000
        if pace.latency_ms:
            self._loop.call_at(due, self._reply, url, body, pace, due)
        else:
            self._reply(url, body, pace, due)
        return None

    def _reply(self, url: bytes, body: bytes, pace: Pace, due: float) -> None:
        stats = self._stats
        stats.inflight -= 1
        stats.late_ms_most = max(stats.late_ms_most, (self._loop.time() - due) * 1000)
        request = orjson.loads(body)
        reply = reply_to(body, request, pace, stats.requests)
        is_chat = b"/messages" not in url
        stats.chat += is_chat
        stats.messages += not is_chat
        if not request.get("stream"):
            return self._answer((chat_whole if is_chat else messages_whole)(reply, stats.requests))
        stats.streamed += 1
        events = (chat_events if is_chat else messages_events)(reply, stats.requests)
        if pace.gap_ms:
            self._write(EVENT_STREAM)
            return self._send_paced(events, pace.gap_ms / 1000)
        return self._write(b"".join((EVENT_STREAM, *map(_chunk, events), b"0\r\n\r\n")))

    def _send_paced(self, events: Iterator[bytes], gap_seconds: float) -> None:
        event = next(events, None)
        self._write(b"0\r\n\r\n" if event is None else _chunk(event))
        if event is not None and self._transport is not None:
            self._loop.call_later(gap_seconds, self._send_paced, events, gap_seconds)

    def _answer(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._write(head + body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(port: int) -> None:
    """Listen on loopback until cancelled; port 0 picks a free one. Prints the port once it listens."""
    stats = Stats()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(stats), "127.0.0.1", port, backlog=4096)
    async with server:
        print("ready", server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(port))


if __name__ == "__main__":
    main()
