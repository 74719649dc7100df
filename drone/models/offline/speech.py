"""Saying a reply: piece by piece, at a pace, within a number of tokens."""

import asyncio
from collections.abc import Iterator

from drone.agent.journal import DeltaKind
from drone.agent.model import Ask, Listener
from mcc.contracts.shape import to_json
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


def tokens_of(text: str) -> int:
    """About how many tokens a text would be; the same for the same text everywhere."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def tokens_asked(ask: Ask) -> int:
    """About how many tokens the request is: system prompt, messages and tool schemas."""
    told = [ask.system, *(spec.name + spec.description + to_json(spec.parameters).decode() for spec in ask.tools)]
    return sum(map(tokens_of, told)) + sum(tokens_of(_said(message)) for message in ask.messages)


def _said(message: object) -> str:
    parts = [str(getattr(message, "text", "")), str(getattr(message, "thinking", ""))]
    parts += [f"{call.name}{call.arguments}" for call in getattr(message, "tool_calls", ())]
    parts += [f"{result.name}{result.content}" for result in getattr(message, "results", ())]
    return "".join(parts)


def cut_to(text: str, tokens: int | None) -> tuple[str, bool]:
    """`text` within `tokens`, and whether something had to go."""
    if tokens is None or tokens_of(text) <= tokens:
        return text, False
    return text[: tokens * CHARACTERS_PER_TOKEN], True
