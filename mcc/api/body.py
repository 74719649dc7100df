"""Request bodies: read whole, within bounds of size, time and nesting, each key of an object once."""

import asyncio
from itertools import accumulate

from starlette.requests import Request
from starlette.types import Message, Receive

from mcc.api.problems import Refusal
from mcc.contracts.shape import repeated_key

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
BODY_SECONDS = 30.0

_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_PEELED = 4
"""Innermost levels that are taken off by replacing, which is fast; they hold nearly all brackets of real bodies."""


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
    """A `receive` that gives the whole body once, and then what the connection tells."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


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
