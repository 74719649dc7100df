"""Where a stream is cut: each cut is a connection of its own, and so not at every byte."""

from collections.abc import Iterator

AROUND = 2
STRIDE = 11
"""Bytes between two cuts within a line, which nobody reads before its end."""


def cuts(data: bytes) -> Iterator[int]:
    """Every place near an end of a line, where what came becomes an event, and some between them."""
    near = {place + step for place, byte in enumerate(data) if byte == 10 for step in range(1 - AROUND, 1 + AROUND)}
    return (place for place in range(len(data)) if place in near or place % STRIDE == 0)
