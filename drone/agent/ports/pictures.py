"""The pictures of a transcript: which of them a request shows, what stands in the place of the others, their sizes.

Which ones are shown depends on nothing but the messages before and the model's limits, and changes seldom: a request
repeats the one before it (what changes costs the provider's cache), until a limit is passed; then the oldest pictures
go, down to half of it.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drone.agent.ports.artifacts import READ_ARTIFACT, handle_of
from drone.agent.ports.messages import Message, Picture, ToolResult, ToolResults, UserMessage

MOST = 20
MOST_CHARACTERS = 24_000_000


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What one request shows at most: `most` pictures, of `characters` of base64 together."""

    most: int = MOST
    characters: int = MOST_CHARACTERS


NO_LIMITS = PictureLimits()

_PIXELS_OF_A_TOKEN = 750
_TOKENS = 1_600
_CHARACTERS_OF_A_TOKEN = 4
_UNKNOWN_BYTES = 2_000_000

OLDER = "newer ones took its place"
REFUSED = "a provider refused it"
LOST = "its bytes are not there any more"


def picture_characters(pictures: Iterable[Picture]) -> int:
    """The number of characters that pictures count as in a request. Providers scale large ones down, so the tokens of
    each are capped."""
    return sum(_CHARACTERS_OF_A_TOKEN * _tokens(one.image.width * one.image.height) for one in pictures)


def _tokens(pixels: int) -> int:
    return min(_TOKENS, pixels // _PIXELS_OF_A_TOKEN + 1) if pixels else _TOKENS


def pictures_of(message: Message) -> Sequence[Picture]:
    """All pictures of a message, in their order."""
    match message:
        case UserMessage():
            return message.pictures
        case ToolResults():
            return [picture for result in message.results for picture in result.pictures]
        case _:
            return ()


def has_pictures(messages: Iterable[Message]) -> bool:
    # Runs over all messages for every request: plain loops take a quarter of the time of nested generators.
    for message in messages:
        if isinstance(message, ToolResults):
            for result in message.results:
                if result.pictures:
                    return True
        elif isinstance(message, UserMessage) and message.pictures:
            return True
    return False


def not_shown(picture: Picture, why: str) -> str:
    """What a model reads in a picture's place."""
    return f"[picture {picture.image.name or 'without a name'} not shown: {why}]"


Change = Callable[[Picture], "Picture | str"]
"""A picture as it is shown, or why it is not."""


def with_pictures(messages: Sequence[Message], change: Change) -> Sequence[Message]:
    """The messages with `change` applied to each picture in its order; the same object when there is none."""
    if not has_pictures(messages):
        return messages
    return [_changed(message, change) if pictures_of(message) else message for message in messages]


def without_pictures(result: ToolResult, why: str) -> ToolResult:
    """The result with a sentence in place of each of its pictures."""
    return _changed_result(result, lambda _: why)


def _changed(message: Message, change: Change) -> Message:
    match message:
        case UserMessage():
            return _changed_words(message, change)
        case ToolResults():
            results = (_changed_result(result, change) if result.pictures else result for result in message.results)
            return ToolResults(tuple(results), message.notices)
        case _:
            return message


def _changed_result(result: ToolResult, change: Change) -> ToolResult:
    shown: list[Picture] = []
    words = [result.content]
    for picture in result.pictures:
        changed = change(picture)
        if isinstance(changed, Picture):
            shown.append(changed)
        else:
            words.append(not_shown(picture, changed))
    return replace(result, content="\n".join(words), pictures=tuple(shown))


def _changed_words(message: UserMessage, change: Change) -> UserMessage:
    shown: list[Picture] = []
    text = ""
    for part in message.parts:
        if isinstance(part, str):
            text += part
        elif isinstance(changed := change(part), Picture):
            shown.append(replace(changed, at=len(text)))
        else:
            text += f"\n{not_shown(part, changed)}"
    return UserMessage(text, tuple(shown), message.by_person)


def put_away(groups: Iterable[Sequence[Picture]], limits: PictureLimits) -> frozenset[int]:
    """The numbers, from 0, of the pictures that a request does not show; `groups` holds those of each message.

    A fold: what is put away stays so, whatever is added behind it, and is more than necessary, so that it seldom has to
    be done. The newest picture goes only if it is too large by itself.
    """
    shown: deque[tuple[int, int]] = deque()
    gone: set[int] = set()
    characters = number = 0
    for group in groups:
        for picture in group:
            size = (picture.image.bytes or _UNKNOWN_BYTES) * 4 // 3 + 4
            shown.append((number, size))
            characters, number = characters + size, number + 1
        if len(shown) <= limits.most and characters <= limits.characters:
            continue
        half = max(limits.most // 2, min(limits.most, 1))
        while shown and (len(shown) > half or characters > limits.characters // 2):
            if len(shown) == 1 and half and characters <= limits.characters:
                break
            oldest, size = shown.popleft()
            gone.add(oldest)
            characters -= size
    return frozenset(gone)


def within(messages: Sequence[Message], limits: PictureLimits, *, readable: bool = False) -> Sequence[Message]:
    """The messages with no more pictures than these limits allow; the same object where that is all of them.

    `readable`: their model can see a picture again by its handle.
    """
    if not has_pictures(messages):
        return messages
    gone = put_away(map(pictures_of, messages), limits)
    if not gone:
        return messages
    numbers = iter(range(sum(len(pictures_of(message)) for message in messages)))

    def put_aside(picture: Picture) -> Picture | str:
        if next(numbers) not in gone:
            return picture
        again = f"; {READ_ARTIFACT} {handle_of(picture.image.artifact)} shows it again" if readable else ""
        return f"{OLDER}{again}"

    return with_pictures(messages, put_aside)


async def with_picture_bytes(
    messages: Sequence[Message],
    kept: Callable[[str], Awaitable[str | None]],
    *,
    refused: Mapping[str, str] | None = None,
    limits: PictureLimits = NO_LIMITS,
    readable: bool = False,
) -> Sequence[Message]:
    """The messages with the bytes of the pictures that are shown, and sentences in place of all others.

    `kept` returns a picture's base64 by digest. `refused`: by digest, why a picture is not shown any more.
    `readable`: as in `within`.
    """
    if not has_pictures(messages):
        return messages
    whys = refused or {}
    shown = within(with_pictures(messages, lambda one: whys.get(one.image.artifact, one)), limits, readable=readable)
    digests = dict.fromkeys(picture.image.artifact for message in shown for picture in pictures_of(message))
    data = {digest: await kept(digest) for digest in digests}

    def loaded(picture: Picture) -> Picture | str:
        found = data[picture.image.artifact]
        return LOST if found is None else replace(picture, data=found)

    return with_pictures(shown, loaded)


ONE_BY_ONE = 5
"""How many pictures of a message are tried one after the other; each try is a request."""


def next_to_drop(
    messages: Sequence[Message], refused: Mapping[str, str], words: str, digest: str | None = None
) -> Sequence[str]:
    """Digests of the pictures to leave out next, after a provider refused a request for its pictures with `words`.
    `digest`: that of the one which they name by its place.

    The one that it names, by its place or its name; else those of the newest message that has some, one after the other
    from the last, and after `ONE_BY_ONE` of them the rest; where it still refuses then, all. Empty: none is left.
    """
    groups = [[one for one in pictures_of(message) if one.image.artifact not in refused] for message in messages]
    left = [picture for group in groups for picture in group]
    if digest is not None and any(one.image.artifact == digest for one in left):
        return [digest]
    named = [one.image.artifact for one in left if len(one.image.name) > 3 and one.image.name in words]
    if named:
        return named[-1:]
    newest = next((list(pictures_of(message)) for message in reversed(messages) if pictures_of(message)), [])
    of_newest = [one.image.artifact for one in newest if one.image.artifact not in refused]
    if of_newest:
        return of_newest[-1:] if len(newest) - len(of_newest) < ONE_BY_ONE else list(dict.fromkeys(of_newest))
    return list(dict.fromkeys(one.image.artifact for one in left))
