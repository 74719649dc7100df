"""Saying a reply: piece by piece, at a pace, within a number of tokens."""

import asyncio
from collections.abc import Iterator

from drone.agent.journal import DeltaKind
from drone.agent.model import Listener
from mcc.rules.patterns import Pattern

CHARACTERS_PER_TOKEN = 4
_PIECE = Pattern(r"\s*(?:\S+\s*){1,4}|\s+")


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces of a few words; joined they are the text again."""
    return (text[found.start() : found.end()] for found in _PIECE.finditer(text))


async def say(kind: DeltaKind, text: str, listener: Listener, pace_seconds: float) -> None:
    """Tell `text` to the listener, waiting `pace_seconds` between two pieces (0: not at all)."""
    for piece in pieces(text):
        listener.delta(kind, piece)
        if pace_seconds > 0:
            await asyncio.sleep(pace_seconds)


def cut_to(text: str, tokens: int | None) -> tuple[str, bool]:
    """`text` within `tokens`, and whether something had to go."""
    if tokens is None or len(text) <= tokens * CHARACTERS_PER_TOKEN:
        return text, False
    return text[: tokens * CHARACTERS_PER_TOKEN], True
