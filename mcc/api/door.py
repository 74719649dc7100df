"""The door: which requests may come in at all, decided on their head alone.

Where a request goes is read from `scope["path"]`, as routing reads it, and never from an address that is put together
with the Host header: whoever sends the header would choose the address.
"""

import hashlib
import hmac
import math
import time

import re2
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.requests import Request

from mcc.api.problems import Refusal
from mcc.settings import Settings

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
    }
)
"""Answered without a token: they tell nothing that is kept."""

WRONG_TOKENS = RateLimitItemPerMinute(20)
REQUESTS = RateLimitItemPerMinute(6_000)
"""On average 100 requests a second per token, counted over a minute so that bursts pass."""

MAX_HEADERS = 100
MAX_HEADER_BYTES = 16 * 1024
"""All of them together, with two bytes after each name and each value."""

_HOST = re2.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
"""A name, an IPv4 or a bracketed IPv6 address, and perhaps a port; nothing else that an address may have."""


class Door:
    """Checks of host, origin, token and kind of content; `let_in` raises `Refusal` with the answer."""

    def __init__(self, settings: Settings, token: str) -> None:
        self._hosts = {"localhost", "127.0.0.1", "::1", *(host.lower() for host in settings.allowed_hosts)}
        if settings.host not in {"0.0.0.0", "::"}:
            self._hosts.add(settings.host.lower())
        self._token = _hashed(token)
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def let_in(self, request: Request) -> None:
        path = str(request.scope["path"])
        _check_size(request)
        self._check_host(request)
        if request.method not in SAFE_METHODS or path.endswith("/events"):
            _check_origin(request)
        if path not in OPEN_PATHS:
            self._check_token(request)
        if request.method not in SAFE_METHODS:
            _check_content(request)

    def _check_host(self, request: Request) -> None:
        """A page elsewhere whose name was pointed at this machine shows itself by the Host it sends."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            raise Refusal(400, "A request needs exactly one Host header.")
        found = _HOST.fullmatch(hosts[0])
        name = str(found[1] or found[2]).lower().rstrip(".") if found else ""
        if not name or (found[3] is not None and not 1 <= int(found[3]) <= 65_535):
            raise Refusal(400, "The Host header must be a host name or address, and perhaps a port from 1 to 65535.")
        if name not in self._hosts:
            raise Refusal(421, f"This service does not answer as {name!r}; its operator can add it to allowed_hosts.")

    def _check_token(self, request: Request) -> None:
        """The token is looked at before the count, so that a guesser beside the operator cannot lock them out."""
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(_hashed(value.strip()), self._token)
        if scheme.lower() == "bearer" and right:
            if not self._limiter.hit(REQUESTS, "requests"):
                raise Refusal(429, "More than 100 requests a second: slow down.", self._wait(REQUESTS, "requests"))
            return
        caller = request.client.host if request.client else "unknown"
        if value and not self._limiter.hit(WRONG_TOKENS, "wrong", caller):
            raise Refusal(429, "Too many wrong tokens: wait a minute.", self._wait(WRONG_TOKENS, "wrong", caller))
        raise Refusal(
            401, "Send the operator's token as 'Authorization: Bearer TOKEN'.", {"WWW-Authenticate": "Bearer"}
        )

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
