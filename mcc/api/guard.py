"""Middleware for every request: checks of its head (`Door`), limits for its body, security headers, answers to bugs.

The path is always read from `scope["path"]`, as routing does. `request.url` includes the Host header, so its sender
could make the path look different.
"""

import asyncio
import hashlib
import hmac
import logging
import math
import time
from itertools import accumulate

import re2
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcc.api.health import Metrics
from mcc.api.problems import Refusal, problem
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import NotFinite, RepeatedKey, unclear_json
from mcc.contracts.well_formed import WellFormed
from mcc.settings import ServiceSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = frozenset(
    {
        "/",
        "/healthz",
        "/readyz",
        "/api/docs",
        "/api/docs/start.js",
        "/api/docs/swagger.css",
        "/api/docs/swagger.js",
        "/api/v1/openapi.json",
    }
)
"""Paths that need no token, because their answers hold no stored data."""

METRICS_PATH = "/metrics"

FILES_PATH = "/api/v1/artifacts"
"""Takes files as they are: its own endpoint reads the body, piece by piece, and bounds it."""

WRONG_TOKENS = RateLimitItemPerMinute(20)
REQUESTS = RateLimitItemPerMinute(6_000)
"""On average 100 requests a second per token, counted over a minute so that bursts pass."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
"""Of all headers together, counting two bytes of separator after each name and each value."""

_HOST = re2.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
"""A name, an IPv4 address or a bracketed IPv6 address, with or without a port, and nothing else."""


class Door:
    """Decides by the head of a request whether it may pass: size, host, origin, token and content type."""

    def __init__(self, settings: ServiceSettings, token: str, metrics_token: str | None = None) -> None:
        """`metrics_token` opens the metrics alone."""
        self._hosts = {"localhost", "127.0.0.1", "::1", *(host.lower() for host in settings.allowed_hosts)}
        if settings.host not in {"0.0.0.0", "::"}:
            self._hosts.add(settings.host.lower())
        self._for_metrics = [_hashed(metrics_token)] if metrics_token else []
        self._token = _hashed(token)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def check(self, request: Request) -> None:
        """Raises `Refusal`."""
        path = str(request.scope["path"])
        _check_size(request)
        self._check_host(request)
        # A stream of events is read by GET, and browsers let other sites open one without asking.
        if request.method not in SAFE_METHODS or path.endswith("/events"):
            _check_origin(request)
        if path not in OPEN_PATHS:
            self._check_token(request)
        if request.method not in SAFE_METHODS and path != FILES_PATH:
            _check_content(request)

    def _check_host(self, request: Request) -> None:
        """Refuse unknown host names, which a DNS rebinding attack would send: a foreign site's name, pointed here."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            raise Refusal(400, "A request needs exactly one Host header.")
        parts = _HOST.fullmatch(hosts[0])
        name = str(parts[1] or parts[2]).lower().rstrip(".") if parts else ""
        if not name or (parts[3] is not None and not 1 <= int(parts[3]) <= 65_535):
            raise Refusal(400, "The Host header must be a host name or address, and perhaps a port from 1 to 65535.")
        if name not in self._hosts:
            raise Refusal(421, f"This service does not answer as {name!r}; its operator can add it to allowed_hosts.")

    def _check_token(self, request: Request) -> None:
        # The token is checked before the count of wrong ones, so that someone who guesses tokens from the operator's
        # own address cannot lock the operator out.
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        # Digests are of one length, so the time of the comparison tells nothing of the token's.
        accepted = [self._token, *(self._for_metrics if request.scope["path"] == METRICS_PATH else ())]
        right = any(hmac.compare_digest(_hashed(value.strip()), token) for token in accepted)
        if scheme.lower() == "bearer" and right:
            if not self._limiter.hit(REQUESTS, "requests"):
                raise Refusal(429, "More than 100 requests a second: slow down.", self._wait(REQUESTS, "requests"))
            return
        caller = request.client.host if request.client else "unknown"
        if value and not self._limiter.hit(WRONG_TOKENS, "wrong", caller):
            raise Refusal(429, "Too many wrong tokens: wait a minute.", self._wait(WRONG_TOKENS, "wrong", caller))
        wrong = "This token is not the right one" if value else "Send the operator's token"
        detail = f"{wrong}: 'Authorization: Bearer TOKEN', with what is in the file `token` of the data directory."
        raise Refusal(401, detail, {"WWW-Authenticate": "Bearer"})

    def _wait(self, limit: RateLimitItem, *who: str) -> dict[str, str]:
        ends_at = self._limiter.get_window_stats(limit, *who).reset_time
        return {"Retry-After": str(max(1, math.ceil(ends_at - time.time())))}


def _hashed(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).digest()


def _check_size(request: Request) -> None:
    headers = request.scope["headers"]
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEADER_BYTES:
        raise Refusal(431, f"A request has at most {MAX_HEADERS} headers, of {MAX_HEADER_BYTES:,} bytes together.")


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in {"same-origin", "none"}:
        raise Refusal(403, "Requests from other sites are refused.")
    host = request.headers["host"].lower()
    if request.headers.get("origin", f"http://{host}").lower() not in {f"http://{host}", f"https://{host}"}:
        raise Refusal(403, "Requests from other origins are refused.")


def _check_content(request: Request) -> None:
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != "application/json":
        raise Refusal(415, "Send the body as JSON, with 'Content-Type: application/json'.")


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

_CLOSE = {"Connection": "close"}
"""Of an answer to a body that has not arrived: otherwise the connection would be kept for another request."""


_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_PEELED = 4
"""How many innermost levels are removed with `replace`, which is fast. They hold nearly all brackets of real bodies."""

log = logging.getLogger(__name__)


_JSON_TYPES = frozenset({"application/json", "application/problem+json", "text/event-stream"})


class _Answer:
    """A `send` that adds the security headers, records the response's status, and sends JSON that every reader takes:
    with U+FFFD for lone surrogates."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._json: WellFormed | None = None
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
            if headers.get("content-type", "").partition(";")[0] in _JSON_TYPES:
                self._json = WellFormed()
        elif self._json is not None:
            body = self._json.feed(message.get("body", b""), last=not message.get("more_body", False))
            message = {**message, "body": body}
        await self._send(message)


class RequestGuard:
    """The ASGI middleware: checks each HTTP request, buffers its body, and counts its answer in `metrics`."""

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
        self._door.check(request)
        if request.method not in SAFE_METHODS and request.scope["path"] != FILES_PATH:
            receive = replayed(await read_body(request, self._body_seconds), receive)
        await self._app(scope, receive, answer)


async def _answer_bug(scope: Scope, receive: Receive, answer: _Answer) -> None:
    """Answer an unexpected exception: the traceback goes to the log under an id, the caller gets only the id."""
    mark = fresh_id()
    log.exception("request %s %s failed, id %s", scope["method"], scope["path"], mark)
    if answer.status is None:
        detail = f"Something went wrong in the service; its log says more under {mark}."
        await problem(500, detail, id=mark)(scope, receive, answer)


async def read_body(request: Request, seconds: float = BODY_SECONDS) -> bytes:
    """The whole body. Raises `Refusal`: 413 too large, 408 too slow, 422 nested too deep, with a duplicate key
    or with a number that JSON lacks."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        async with asyncio.timeout(seconds):
            body = await _collect(request.receive)
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {seconds:g} s.", _CLOSE) from None
    if nested_deeper_than(MAX_DEPTH, body):
        raise Refusal(422, f"The body is nested deeper than {MAX_DEPTH} levels.")
    match unclear_json(body):
        case RepeatedKey() as found:
            raise Refusal(422, f"In the body {found}; send it once.")
        case NotFinite() as found:
            raise Refusal(422, f"In the body {found}; leave it out, or send it as a text.")
    return body


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that delivers `body` first and then the messages of the connection."""
    is_delivered = False

    async def receive_body() -> Message:
        nonlocal is_delivered
        if is_delivered:
            return await receive()
        is_delivered = True
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
    return Refusal(413, f"A body has at most {MAX_BODY_BYTES:,} bytes.", _CLOSE)


def nested_deeper_than(levels: int, body: bytes) -> bool:
    """Whether the JSON in `body` is nested deeper than `levels`. For text that is not JSON the answer is arbitrary."""
    # By replacement and not by parsing: a parser would recurse as deep as the body says before it could be refused.
    unescaped = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Between every other pair of quotes is a string, whose brackets do not count.
    brackets = b"".join(unescaped.translate(None, _NOT_STRUCTURE).split(b'"')[::2])
    for _ in range(min(levels, _PEELED)):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        levels -= 1
    return any(depth > levels for depth in accumulate(map(_STEP.__getitem__, brackets)))
