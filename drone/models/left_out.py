"""What of a question a model is not told: what only other models can read, and pictures that it does not take."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from drone.agent.messages import AssistantMessage, Message, each_result, has_pictures, without_pictures
from drone.agent.model import Ask
from mcc.contracts.blocks import AnyBlock, OpaqueBlock, RedactedBlock, ThinkingBlock

_PICTURES = "the pictures of agent "


def left_behind(messages: Sequence[Message], name: str) -> Iterator[str]:
    """Sentences for people: of which other models' replies the model `name` is told only the words and the calls."""
    others = {one.model: None for one in messages if isinstance(one, AssistantMessage) and one.model not in ("", name)}
    for other in others:
        replies = (one for one in messages if isinstance(one, AssistantMessage) and one.model == other)
        if any(map(_is_sealed, chain.from_iterable(reply.blocks for reply in replies))):
            yield f"{name} is not told the thinking in earlier replies that only {other} can read."


def _is_sealed(block: AnyBlock) -> bool:
    match block:
        case ThinkingBlock(signature=signature, extra=extra):
            return bool(signature or extra)
        case RedactedBlock() | OpaqueBlock():
            return True
    return False


def as_seen(ask: Ask, name: str, takes_pictures: bool, without: frozenset[str]) -> tuple[Ask, str]:
    """The question as the model `name` may be asked it, and a sentence for people where pictures are left out.

    `without`: what its provider refused before.
    """
    if not has_pictures(ask.messages):
        return ask, ""
    if takes_pictures and _PICTURES + ask.cache_key not in without:
        return ask, ""
    why = "its provider refused it" if takes_pictures else f"{name} takes no pictures, as far as is known"
    told = each_result(ask.messages, lambda result: without_pictures(result, why))
    return replace(ask, messages=told), f"{name} is not shown the pictures that tools brought."


def refused_pictures(ask: Ask, name: str, words: str) -> str | None:
    """What is left out of this agent's questions from now on, if its provider's words complain about a picture."""
    if has_pictures(ask.messages) and "image" in words.lower().replace(name.lower(), ""):
        return _PICTURES + ask.cache_key
    return None
