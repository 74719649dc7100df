"""Pictures in tool results: what they cost, their bytes for a question, words in the place of those not shown."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from drone.agent.messages import Message, Picture, ToolResult, ToolResults

MOST = 20
"""Pictures of a question, the newest; with more of them providers take only small ones."""

MOST_CHARACTERS = 24_000_000
"""Characters of their base64 together; a request may have 32 MB."""

_PIXELS_OF_A_TOKEN = 750
_TOKENS = 1_600
_CHARACTERS_OF_A_TOKEN = 4

OLDER = "newer ones took its place"
LOST = "its bytes are not there any more"


def seen(pictures: Iterable[Picture]) -> int:
    """Characters that pictures count as in a question; providers scale larger ones down."""
    return sum(_CHARACTERS_OF_A_TOKEN * _tokens(one.image.width * one.image.height) for one in pictures)


def _tokens(pixels: int) -> int:
    return min(_TOKENS, pixels // _PIXELS_OF_A_TOKEN + 1) if pixels else _TOKENS


def without_pictures(result: ToolResult, why: str) -> ToolResult:
    """The result with words in the place of its pictures."""
    one = len(result.pictures) == 1
    what = "The picture is" if one else f"The {len(result.pictures)} pictures are"
    return replace(result, content=f"{result.content}\n[{what} not shown: {why}.]", pictures=())


def each_result(messages: Sequence[Message], change: Callable[[ToolResult], ToolResult]) -> Sequence[Message]:
    """The messages with `change` made to each result that has pictures; the same object where none has."""
    if not has_pictures(messages):
        return messages
    return [
        ToolResults(tuple(change(one) if one.pictures else one for one in message.results), message.notices)
        if isinstance(message, ToolResults) and any(one.pictures for one in message.results)
        else message
        for message in messages
    ]


def has_pictures(messages: Iterable[Message]) -> bool:
    return any(
        isinstance(message, ToolResults) and any(one.pictures for one in message.results) for message in messages
    )


async def with_bytes(messages: Sequence[Message], kept: Callable[[str], Awaitable[str | None]]) -> Sequence[Message]:
    """The messages with the bytes of their newest pictures, in the place of the others words; `kept` reads base64."""
    if not has_pictures(messages):
        return messages
    shown: dict[str, str | None] = {}
    older: set[str] = set()
    left, room = MOST, MOST_CHARACTERS
    results = [one for message in messages if isinstance(message, ToolResults) for one in message.results]
    for result in reversed(results):
        for picture in result.pictures:
            digest = picture.image.artifact
            if left <= 0 or room <= 0:
                older.add(result.call_id)
                continue
            if digest not in shown:
                shown[digest] = await kept(digest)
            # The same picture counts each time: a request has its bytes as often as it was read.
            left, room = left - 1, room - len(shown[digest] or "")

    def loaded(result: ToolResult) -> ToolResult:
        digests = [picture.image.artifact for picture in result.pictures]
        if result.call_id in older:
            return without_pictures(result, OLDER)
        if any(shown[digest] is None for digest in digests):
            return without_pictures(result, LOST)
        return replace(
            result,
            pictures=tuple(replace(one, data=shown[one.image.artifact] or "") for one in result.pictures),
        )

    return each_result(messages, loaded)
