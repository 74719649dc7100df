"""Middleware for every request: checks of its head (`Door`), limits for its body, security headers, answers to bugs.

The path is always read from `scope["path"]`, as routing does. `request.url` includes the Host header, so its sender
could make the path look different.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from itertools import accumulate
from urllib.parse import urlsplit

import re2
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcc.api.access.callers import CALLER, Caller
from mcc.api.access.credentials import OWN_SITES, Credentials, origins_of
from mcc.api.access.scopes import HOOKS, OIDC_BACKCHANNEL, OIDC_CALLBACK, OIDC_WAY
from mcc.api.health import Metrics
from mcc.api.pages import FILES
from mcc.api.problems import Refusal, problem
from mcc.console.shell import IS_ADDRESS
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import NotFinite, RepeatedKey, unclear_json
from mcc.contracts.well_formed import WellFormed
from mcc.settings import ServiceSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = frozenset(
    {
        "/healthz",
        "/readyz",
        "/api/docs",
        "/api/docs/start.js",
        "/api/docs/swagger.css",
        "/api/docs/swagger.js",
        "/api/v1/openapi.json",
        "/api/v1/signin",
        "/api/v1/login/device",
        "/api/v1/login/token",
        OIDC_WAY,
        OIDC_CALLBACK,
        OIDC_BACKCHANNEL,
    }
)
"""Paths that need no token, because their answers hold no stored data; those of the page are others."""

JSON, FORM = "application/json", "application/x-www-form-urlencoded"

STREAMS = ("/events", "/stream")
"""How the paths of event streams end."""

MAX_FORM_BYTES = 16 * 1024
"""Of the one form, which a provider of identities sends: no browser does, so it has no origin."""

FILES_PATH = "/api/v1/artifacts"
"""Takes files as they are: its own endpoint reads the body, piece by piece, and bounds it."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
"""Of all headers together, counting two bytes of separator after each name and each value."""

_HOST = re2.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
"""A name, an IPv4 address or a bracketed IPv6 address, with or without a port, and nothing else."""


class Door:
    """Decides by the head of a request whether it may pass: size, host, origin, credential and content type."""

    def __init__(self, settings: ServiceSettings, credentials: Credentials) -> None:
        self._credentials = credentials
        self._hosts = {"localhost", "127.0.0.1", "::1", *(host.lower() for host in settings.allowed_hosts)}
        if settings.host not in {"0.0.0.0", "::"}:
            self._hosts.add(settings.host.lower())
        if settings.public_url and (public := urlsplit(settings.public_url).hostname):
            self._hosts.add(public.lower())

    async def admit(self, request: Request) -> Caller | None:
        """The caller, None on a path that is open to everybody. Raises `Refusal`."""
        path = str(request.scope["path"])
        _check_size(request)
        self._check_host(request)
        if path.startswith(HOOKS):
            # A signature over the body decides there, and neither cookie, token nor site.
            return None
        # A stream of events is read by GET, and browsers let other sites open one without asking.
        if request.method not in SAFE_METHODS or path.endswith(STREAMS):
            _check_origin(request)
        caller = None if is_open(path) else await self._credentials.caller(request)
        if request.method not in SAFE_METHODS and path != FILES_PATH:
            _check_content(request, FORM if path == OIDC_BACKCHANNEL else JSON)
        return caller

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


def is_open(path: str) -> bool:
    """Whether the path is answered to everybody, without stored data."""
    return path in OPEN_PATHS or path.startswith(f"{FILES}/") or IS_ADDRESS.fullmatch(path) is not None


def _check_size(request: Request) -> None:
    headers = request.scope["headers"]
    if len(headers) > MAX_HEADERS or sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEADER_BYTES:
        raise Refusal(431, f"A request has at most {MAX_HEADERS} headers, of {MAX_HEADER_BYTES:,} bytes together.")


def _check_origin(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        raise Refusal(403, "Requests from other sites are refused.")
    origin = request.headers.get("origin")
    if origin is not None and origin.lower() not in origins_of(request):
        raise Refusal(403, "Requests from other origins are refused.")


def _check_content(request: Request, wanted: str) -> None:
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if has_body and kind != wanted:
        what = "JSON" if wanted == JSON else "a form"
        raise Refusal(415, f"Send the body as {what}, with 'Content-Type: {wanted}'.")


HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

CONTENT_SECURITY_POLICY = "default-src 'none'; frame-ancestors 'none'"
"""Of an answer that states none of its own: a browser that shows it loads and runs nothing."""

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


_JSON_TYPES = frozenset({"application/json", "application/problem+json", "application/x-ndjson", "text/event-stream"})


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
            headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
            headers.setdefault("Cache-Control", "no-store")
            if headers.get("content-type", "").partition(";")[0] in _JSON_TYPES:
                self._json = WellFormed()
        elif self._json is not None:
            body = self._json.feed(message.get("body", b""), last=not message.get("more_body", False))
            message = {**message, "body": body}
        await self._send(message)


class RequestGuard:
    """The ASGI middleware: checks each HTTP request, buffers its body, and counts its answer in `metrics`."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        door: Door,
        metrics: Metrics,
        refused: Callable[[Caller, Scope], None],
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        """`refused` is told which callers had no right to what they asked for."""
        self._app = app
        self._door = door
        self._metrics = metrics
        self._refused = refused
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
            await refusal.answer()(scope, receive, answer)
        except Exception:
            await _answer_bug(scope, receive, answer)
        finally:
            self._metrics.answered(scope, answer.status, time.monotonic() - started)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        request = Request(scope, receive)
        caller = scope[CALLER] = await self._door.admit(request)
        path = str(request.scope["path"])
        if request.method not in SAFE_METHODS and path != FILES_PATH and not path.startswith(HOOKS):
            read = read_form if path == OIDC_BACKCHANNEL else read_body
            receive = replayed(await read(request, self._body_seconds), receive)
        await self._app(scope, receive, answer)
        if caller is not None and answer.status == HTTPStatus.FORBIDDEN:
            self._refused(caller, scope)


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
    body = await _bounded(request, seconds, MAX_BODY_BYTES)
    if nested_deeper_than(MAX_DEPTH, body):
        raise Refusal(422, f"The body is nested deeper than {MAX_DEPTH} levels.")
    match unclear_json(body):
        case RepeatedKey() as found:
            raise Refusal(422, f"In the body {found}; send it once.")
        case NotFinite() as found:
            raise Refusal(422, f"In the body {found}; leave it out, or send it as a text.")
    return body


async def read_form(request: Request, seconds: float = BODY_SECONDS) -> bytes:
    """The whole body, which is a form. Raises `Refusal`: 413 too large, 408 too slow."""
    return await _bounded(request, seconds, MAX_FORM_BYTES)


async def _bounded(request: Request, seconds: float, most: int) -> bytes:
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            return await _collect(request.receive, most)
    except TimeoutError:
        raise Refusal(408, f"The body did not arrive within {seconds:g} s.", _CLOSE) from None


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


async def _collect(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The connection ended before the body did.")
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"This body has at most {most:,} bytes.", _CLOSE)


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
