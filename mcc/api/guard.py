"""This room is for what every request passes: the door, the bounds of its body, safe headers, one answer for bugs."""

import logging
import time

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcc.api.body import BODY_SECONDS, read_body, replayed
from mcc.api.door import SAFE_METHODS, Door
from mcc.api.metrics import Metrics
from mcc.api.problems import Refusal, problem
from mcc.contracts.ids import fresh_id

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

log = logging.getLogger(__name__)


class _Answer:
    """`send` with our headers; remembers what went out."""

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
            await _apologise(scope, receive, answer)
        finally:
            self._metrics.answered(scope, answer.status, time.monotonic() - started)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        request = Request(scope, receive)
        self._door.let_in(request)
        if request.method not in SAFE_METHODS:
            receive = replayed(await read_body(request, self._body_seconds), receive)
        await self._app(scope, receive, answer)


async def _apologise(scope: Scope, receive: Receive, answer: _Answer) -> None:
    """A bug: the trace goes to the log under an id, the caller gets the id."""
    mark = fresh_id()
    log.exception("request %s %s failed, id %s", scope["method"], scope["path"], mark)
    if answer.status is None:
        detail = f"Something went wrong in the service; its log says more under {mark}."
        await problem(500, detail, id=mark)(scope, receive, answer)
