"""The body of a request: in one piece while it is small, else made anew, piece by piece, as it is sent."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias

import httpx

SMALL_BYTES = 1024 * 1024

Pieces: TypeAlias = Callable[[], Iterator[bytes]]
"""Makes the pieces of a body, each time the same ones."""


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
