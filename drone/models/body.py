"""Bodies of requests: a small message is encoded once, a long body is sent piece by piece."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

import httpx

from drone.agent.messages import Message

M = TypeVar("M", bound=Message)

Pieces: TypeAlias = Callable[[], Iterator[bytes]]
"""Makes the pieces of a body, each time the same ones."""

SMALL_BYTES = 1024 * 1024
"""A body that is larger is sent piece by piece."""

LARGE_BYTES = 64 * 1024
"""A message that is larger costs less to encode again (some 30 µs) than to send, and nothing to hold."""


def encoded(message: M, form: str, encode: Callable[[M], bytes]) -> bytes:
    """The message in the provider's `form`: made by `encode`, and kept in the message where it is small."""
    known = message.encoded.get(form)
    if known is None:
        known = encode(message)
        if len(known) <= LARGE_BYTES:
            message.encoded[form] = known
    return known


def listed(elements: Iterable[bytes]) -> Iterator[bytes]:
    """The elements of a JSON list with commas between them; small ones come together, for every piece costs CPU."""
    together: list[bytes] = []
    size = 0
    for element in elements:
        together.append(element)
        size += len(element)
        if size > LARGE_BYTES:
            yield b",".join(together)
            together, size = [b""], 0
    yield b",".join(together)


class LongBody(httpx.AsyncByteStream):
    """A body that is never whole in memory; its length is known."""

    def __init__(self, pieces: Pieces, size: int) -> None:
        self._pieces = pieces
        self._size = size

    def __len__(self) -> int:
        return self._size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces():
            yield piece


def body_of(pieces: Pieces) -> bytes | LongBody:
    """What `pieces` make. A long body is gone through once here, for servers want to be told its length before it."""
    kept: list[bytes] = []
    size = 0
    for piece in pieces():
        size += len(piece)
        if size <= SMALL_BYTES:
            kept.append(piece)
        else:
            kept.clear()
    return b"".join(kept) if size <= SMALL_BYTES else LongBody(pieces, size)
