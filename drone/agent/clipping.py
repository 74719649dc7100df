"""Clipping: which tool results of a conversation are shortened when it is larger than its model's context."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from drone.agent.artifacts import preview, where_whole
from drone.agent.estimate import CHARACTERS_PER_TOKEN
from drone.agent.messages import Message, ToolResult, ToolResults
from drone.agent.pictures import seen, without_pictures
from mcc.contracts.journal import Clipped

KEPT = (2_000, 400)
"""Characters that are left of a result: at first, and when all were cut down to that."""

NAMED = 120
"""Characters that say where an older result can be read, of which nothing is shown any more."""

FILLED = 0.8
"""The part of a context up to which a conversation is cut down, so that it is not cut again in every round."""

OF_UNKNOWN = 0.4
"""The part of a conversation that is cut away when nobody says how much its model takes in."""

_TOO_LARGE = "it did not fit into the conversation any more"

AT_LEAST = 0.2
"""The same when the conversation seemed to fit, and its model said that it does not."""


def to_cut(tokens: int, window: int | None, *, refused: bool) -> int:
    """Characters to cut of a conversation of about so many tokens; `refused`: its model said that it is too long."""
    too_many = OF_UNKNOWN * tokens if window is None else tokens - FILLED * window
    if refused:
        too_many = max(too_many, AT_LEAST * tokens)
    return max(0, int(too_many * CHARACTERS_PER_TOKEN))


def to_clip(
    messages: Sequence[Message], known: Mapping[str, Clipped], characters: int
) -> Iterator[tuple[ToolResult, int]]:
    """Results to cut, each with the characters that are left of it, until so many characters are gone or all are short.

    The newest results come first, of one reply the longest. When all are short, the oldest are only named, but never
    those of the last reply. `known`: what was cut before.
    """
    left = characters
    chosen: dict[str, tuple[ToolResult, int]] = {}
    sizes: dict[str, int] = {}
    newest = list(_newest_first(messages))
    for kept, results in (*((kept, newest) for kept in KEPT), (NAMED, list(_older(messages)))):
        for result in results:
            size = sizes.get(result.call_id, _size(result, known))
            if left <= 0:
                break
            if size > kept:
                chosen[result.call_id], sizes[result.call_id] = (result, kept), kept
                left -= size - kept
    yield from chosen.values()


def _size(result: ToolResult, known: Mapping[str, Clipped]) -> int:
    before = known.get(result.call_id)
    return len(result.content) + seen(result.pictures) if before is None else before.kept


def _newest_first(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in reversed(messages):
        if isinstance(message, ToolResults):
            yield from sorted(message.results, key=lambda result: -len(result.content))


def _older(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in [message for message in messages if isinstance(message, ToolResults)][:-1]:
        yield from (result for result in message.results if len(result.content) > 2 * NAMED)


def with_clipped(messages: Iterable[Message], clips: Mapping[str, Clipped], readable: bool) -> Iterator[Message]:
    """The messages with these results cut; `readable`: their model can read artifacts."""
    for message in messages:
        if isinstance(message, ToolResults) and any(result.call_id in clips for result in message.results):
            results = (_cut(result, clips.get(result.call_id), readable) for result in message.results)
            yield ToolResults(tuple(results), message.notices)
        else:
            yield message


def _cut(result: ToolResult, clip: Clipped | None, readable: bool) -> ToolResult:
    if clip is None:
        return result
    if clip.characters > clip.kept < len(result.content):
        content = preview(result.content, clip.kept, where_whole(clip.artifact, readable), clip.characters)
        result = replace(result, content=content)
    return without_pictures(result, _TOO_LARGE) if result.pictures else result
