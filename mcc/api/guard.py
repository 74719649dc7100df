"""What every request passes: the door, the bounds of its body, safe headers, one answer for bugs."""

import asyncio
import logging
import time
from itertools import accumulate

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcc.api.door import SAFE_METHODS, Door
from mcc.api.health import Metrics
from mcc.api.problems import Refusal, problem
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import repeated_key

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
BODY_SECONDS = 30.0

_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_PEELED = 4
"""Innermost levels that are removed by `replace`, which is fast; they hold nearly all brackets of real bodies."""

log = logging.getLogger(__name__)


class _Answer:
    """`send` with our headers; keeps the status that went out."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, *, door: Door, metrics: Metrics, body_seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._door = door
        self._metrics = metrics
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        answer = _Answer(send)
        try:
            await self._pass(scope, receive, answer)
        except Refusal as refusal:
            await problem(refusal.status, str(refusal), headers=refusal.headers)(scope, receive, answer)
        except Exception:
            await _answer_bug(scope, receive, answer)
        finally:
            self._metrics.answered(scope, answer.status, time.monotonic() - started)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        request = Request(scope, receive)
        self._door.let_in(request)
        if request.method not in SAFE_METHODS:
            receive = replayed(await read_body(request, self._body_seconds), receive)
        await self._app(scope, receive, answer)


async def _answer_bug(scope: Scope, receive: Receive, answer: _Answer) -> None:
    """A bug: the trace goes to the log under an id, the caller gets the id."""
    mark = fresh_id()
    log.exception("request %s %s failed, id %s", scope["method"], scope["path"], mark)
    if answer.status is None:
        detail = f"Something went wrong in the service; its log says more under {mark}."
        await problem(500, detail, id=mark)(scope, receive, answer)


async def read_body(request: Request, seconds: float = BODY_SECONDS) -> bytes:
    """Raises `Refusal`: 413 when too large, 408 when too slow, 422 when nested too deep or with a key twice."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        async with asyncio.timeout(seconds):
            body = await _collect(request.receive)
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {seconds:g} s.") from None
    if nested_deeper_than(MAX_DEPTH, body):
        raise Refusal(422, f"The body is nested deeper than {MAX_DEPTH} levels.")
    if (found := repeated_key(body)) is not None:
        raise Refusal(422, f"In the body {found}; send it once.")
    return body


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the whole body once, and then the messages of the connection."""
    given = False

    async def receive_body() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


async def _collect(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The connection ended before the body did.")
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise _too_large()
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_large() -> Refusal:
    return Refusal(413, f"A body has at most {MAX_BODY_BYTES:,} bytes.")


def nested_deeper_than(levels: int, body: bytes) -> bool:
    """Whether the JSON in `body` nests deeper; of text that is not JSON it may say either."""
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.translate(None, _OTHERS).split(b'"')[::2])
    for _ in range(min(levels, _PEELED)):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        levels -= 1
    return any(depth > levels for depth in accumulate(map(_STEP.__getitem__, brackets)))
