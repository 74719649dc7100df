"""Shortens tool results of a conversation until it fits into its model's context."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from mcc.contracts.blocks import AnyBlock, TextBlock, ThinkingBlock, ToolCallBlock
from mcc.contracts.compaction import Clipped
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from mcc.transcript.pictures import TOO_LARGE, picture_characters, without_pictures
from mcc.transcript.previews import preview, where_to_read

CHARACTERS_PER_TOKEN = 4
"""Assumed until two replies have shown the real figure."""

KEPT = (2_000, 400)
"""Characters left of a shortened result: at first, and after all results have been shortened to that."""

NAMED = 120
"""Characters left of an older result when that is not enough: only a note where the whole can be read."""

FILLED = 0.8
"""The share of the context to which a conversation is cut, so that it need not be cut again in every round."""

OF_UNKNOWN = 0.4
"""The share of a conversation that is cut away when the size of its model's context is unknown."""

PUT_AWAY = 0
"""`Clipped.kept` of a result, or of arguments, of which only a line is left that says where they can be read."""

LONG_ARGUMENT = 1_000
"""Most characters of an argument that stays where those of its call are put away."""

_SIGNED = ("redacted", "opaque")

AT_LEAST = 0.2
"""The least share that is cut away after the model refused a conversation as too long."""


def to_cut(tokens: int, window: int | None, *, refused: bool) -> int:
    """Characters to cut from a conversation of about so many tokens; `refused`: its model refused it as too long."""
    too_many = OF_UNKNOWN * tokens if window is None else tokens - FILLED * window
    if refused:
        too_many = max(too_many, AT_LEAST * tokens)
    return max(0, int(too_many * CHARACTERS_PER_TOKEN))


def to_clip(
    messages: Sequence[Message], known: Mapping[str, Clipped], characters: int
) -> Iterator[tuple[ToolResult, int]]:
    """The results to shorten, each with the characters to leave, until `characters` are cut or all results are short.

    Starts with the newest results, within a reply with the longest. When all are short, the oldest are reduced to a
    note, but never those of the last reply. `known`: earlier cuts.
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
    return len(result.content) + picture_characters(result.pictures) if before is None else before.kept


def _newest_first(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in reversed(messages):
        if isinstance(message, ToolResults):
            yield from sorted(message.results, key=lambda result: -len(result.content))


def _older(messages: Sequence[Message]) -> Iterator[ToolResult]:
    for message in [message for message in messages if isinstance(message, ToolResults)][:-1]:
        yield from (result for result in message.results if len(result.content) > 2 * NAMED)


def with_clipped(
    messages: Iterable[Message],
    clips: Mapping[str, Clipped],
    readable: bool,
    put_away: Mapping[str, Clipped] = MappingProxyType({}),
) -> Iterator[Message]:
    """The messages with these results shortened, and the long arguments of these calls; `readable`: whether their model
    can read artifacts."""
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield _with_short_arguments(message, put_away, readable) if put_away else message
            continue
        if isinstance(message, ToolResults) and any(result.call_id in clips for result in message.results):
            results = (_cut(result, clips.get(result.call_id), readable) for result in message.results)
            yield ToolResults(tuple(results), message.notices)
        else:
            yield message


def with_words(messages: Sequence[Message], words: Mapping[int, str]) -> tuple[Message, ...]:
    """The messages with these words of people instead of their own, by their place from the end, 1 = the last."""
    count = len(messages)
    return tuple(
        _saying(message, words[count - place]) if count - place in words else message
        for place, message in enumerate(messages)
    )


def _saying(message: Message, text: str) -> UserMessage:
    """The message with this text, which begins and ends as its own does. Pictures between words that are left out stand
    where these were."""
    pictures = message.pictures if isinstance(message, UserMessage) else ()
    before = message.text if isinstance(message, UserMessage) else ""
    if not pictures:
        return UserMessage(text, by_person=True)
    first = _alike(before, text)
    last = min(_alike(before[::-1], text[::-1]), len(text) - first)
    moved = len(text) - len(before)
    starts = (picture.at for picture in pictures)
    places = (at if at <= first else max(at + moved, len(text) - last) for at in starts)
    placed = tuple(replace(picture, at=at) for picture, at in zip(pictures, places, strict=True))
    return UserMessage(text, placed, by_person=True)


def _alike(text: str, other: str) -> int:
    """How many characters are the same at the beginning of both."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((number for number, (character, its) in pairs if character != its), min(len(text), len(other)))


def _cut(result: ToolResult, clip: Clipped | None, readable: bool) -> ToolResult:
    if clip is None:
        return result
    if clip.kept == PUT_AWAY:
        content = handle(clip, result.name, readable)
        return ToolResult(result.call_id, result.name, content, result.is_error)
    if clip.characters > clip.kept < len(result.content):
        content = preview(result.content, clip.kept, where_to_read(clip.artifact, readable), clip.characters)
        result = replace(result, content=content)
    return without_pictures(result, TOO_LARGE) if result.pictures else result


def handle(clip: Clipped, name: str, readable: bool) -> str:
    """The line that stands for a text that was put away."""
    where = where_to_read(clip.artifact, readable).removeprefix("read them with ")
    return f"[… put away: {clip.characters:,} characters of {name}; {where} …]"


def _with_short_arguments(
    message: AssistantMessage, put_away: Mapping[str, Clipped], readable: bool
) -> AssistantMessage:
    """The reply with a line in place of each long argument of these calls. What its provider signed or encrypted goes
    with it, as that would no longer fit to the rest."""
    if not any(call.call_id in put_away for call in message.tool_calls):
        return message
    blocks: list[AnyBlock] = []
    for block in message.blocks:
        if isinstance(block, ToolCallBlock) and (clip := put_away.get(block.call_id)) is not None:
            blocks.append(_with_lines(block, clip, readable))
        elif isinstance(block, ThinkingBlock) and (block.signature or block.extra):
            continue
        elif block.type not in _SIGNED:
            is_extended = isinstance(block, TextBlock | ThinkingBlock | ToolCallBlock) and block.extra is not None
            blocks.append(block.model_copy(update={"extra": None}) if is_extended else block)
    return AssistantMessage(tuple(blocks), message.model)


def _with_lines(block: ToolCallBlock, clip: Clipped, readable: bool) -> ToolCallBlock:
    if not isinstance(block.arguments, Mapping):
        return block
    arguments = {
        name: handle(clip.model_copy(update={"characters": len(value)}), f"{block.name}.{name}", readable)
        if isinstance(value, str) and len(value) > LONG_ARGUMENT
        else value
        for name, value in block.arguments.items()
    }
    return block.model_copy(update={"arguments": arguments, "extra": None})
