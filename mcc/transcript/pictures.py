"""The pictures of a transcript: how many a model is shown, what it reads in the place of the others, and their sizes.

A picture that is not shown any more keeps its place in its message. Whether one is shown depends on entries of the
journal alone (`TranscriptCompacted.pictures`), so each request repeats the one before it, whatever drone sends it.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mcc.contracts.compaction import CompactionMoment
from mcc.transcript.messages import Message, Picture, ToolResult, ToolResults, UserMessage
from mcc.transcript.previews import READ_ARTIFACT, handle_of

MOST = 20
MOST_CHARACTERS = 24_000_000


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """What one request shows at most: `most` pictures, of `characters` of base64 together."""

    most: int = MOST
    characters: int = MOST_CHARACTERS


NO_LIMITS = PictureLimits()
NO_PICTURES = PictureLimits(0, 0)
"""Of a model that is shown none, and reads a sentence in the place of each."""

_PIXELS_OF_A_TOKEN = 750
_TOKENS = 1_600
_CHARACTERS_OF_A_TOKEN = 4
_UNKNOWN_BYTES = 2_000_000

OLDER = "newer ones took its place"
REFUSED = "a provider refused it"
TOO_LARGE = "it did not fit into the conversation any more"
LOST = "its bytes are not there any more"

_WHYS: Mapping[CompactionMoment, str] = {"images": OLDER, "refused": REFUSED}


def picture_characters(pictures: Iterable[Picture]) -> int:
    """The number of characters that pictures count as in a request. Providers scale large ones down, so the tokens of
    each are capped."""
    sizes = (picture.image.width * picture.image.height for picture in pictures if not picture.hidden)
    tokens = (min(_TOKENS, pixels // _PIXELS_OF_A_TOKEN + 1) if pixels else _TOKENS for pixels in sizes)
    return _CHARACTERS_OF_A_TOKEN * sum(tokens)


def pictures_of(message: Message) -> Sequence[Picture]:
    """All pictures of a message, in their order."""
    match message:
        case UserMessage():
            return message.pictures
        case ToolResults():
            return [picture for result in message.results for picture in result.pictures]
        case _:
            return ()


def shown_pictures(messages: Iterable[Message]) -> Iterator[Picture]:
    """The pictures that a model is shown, in their order."""
    return (picture for message in messages for picture in pictures_of(message) if not picture.hidden)


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


@dataclass(slots=True)
class HiddenPictures:
    """The pictures that a run's model is not shown any more: by digest what it reads instead. Those that a provider
    `refused` are not shown either where a tool brings them again."""

    whys: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    times: int = 0
    """How often some were hidden."""

    def hide(
        self, digests: Collection[str], reason: CompactionMoment, messages: Iterable[Message], *, readable: bool
    ) -> list[Message]:
        """The messages without these pictures. `readable`: their model can see a picture again by its handle."""
        why, self.times = _WHYS.get(reason, TOO_LARGE), self.times + 1
        for digest in digests:
            again = f"; {READ_ARTIFACT} {handle_of(digest)} shows it again" if readable and why != REFUSED else ""
            self.whys.setdefault(digest, f"{why}{again}")
        if why == REFUSED:
            self.refused.update(digests)
        return [_hidden(message, {digest: self.whys[digest] for digest in digests}) for message in messages]

    def in_opening(self, messages: Iterable[Message]) -> Iterator[Message]:
        """The messages that the run began with, as all that was hidden since leaves them."""
        return (_hidden(message, self.whys) for message in messages) if self.whys else iter(messages)

    def in_new(self, message: Message) -> Message:
        """A message that is added now: a picture that was put away is shown again where a tool brings it again."""
        return _hidden(message, dict.fromkeys(self.refused, REFUSED)) if self.refused else message


def _hidden(message: Message, whys: Mapping[str, str]) -> Message:
    if not any(not one.hidden and one.image.artifact in whys for one in pictures_of(message)):
        return message
    return _changed(message, lambda one: replace(one, hidden=one.hidden or whys.get(one.image.artifact, "")))


def is_beyond(pictures: Iterable[Picture], limits: PictureLimits) -> bool:
    """Whether these pictures are more than the limits allow, or larger together."""
    sizes = [*map(_size, pictures)]
    return len(sizes) > limits.most or sum(sizes) > limits.characters


def put_away(pictures: Iterable[Picture], limits: PictureLimits) -> tuple[str, ...]:
    """Digests of the pictures to hide so that those that are shown keep the limits; empty where they do.

    The oldest go, each with all its repetitions, until half of both limits is free, so that it seldom has to be done.
    The newest goes only if it is too large by itself.
    """
    shown = [*pictures]
    if not is_beyond(shown, limits):
        return ()
    sizes: dict[str, list[int]] = {}
    for picture in shown:
        # What is shown again counts as new.
        sizes[picture.image.artifact] = [*sizes.pop(picture.image.artifact, ()), _size(picture)]
    count, characters = len(shown), sum(map(_size, shown))
    gone: list[str] = []
    for digest, each in sizes.items():
        is_last = len(gone) == len(sizes) - 1
        if count <= max(limits.most // 2, 1) and characters <= limits.characters // 2:
            break
        if is_last and len(each) <= limits.most and characters <= limits.characters:
            break
        gone.append(digest)
        count, characters = count - len(each), characters - sum(each)
    return tuple(gone)


def _size(picture: Picture) -> int:
    """Characters of its base64, as far as its size is known."""
    return (picture.image.bytes or _UNKNOWN_BYTES) * 4 // 3 + 4


async def with_picture_bytes(
    messages: Sequence[Message], kept: Callable[[str], Awaitable[str | None]] | None
) -> Sequence[Message]:
    """The messages with the bytes of the pictures that are shown, and sentences in place of all others.

    `kept` returns a picture's base64 by digest; None: their model is shown none, so no bytes are loaded.
    """
    if not has_pictures(messages):
        return messages
    data: dict[str, str | None] = {}
    if kept is not None:
        for digest in dict.fromkeys(picture.image.artifact for picture in shown_pictures(messages)):
            data[digest] = await kept(digest)

    def loaded(picture: Picture) -> Picture | str:
        if picture.hidden or kept is None:
            return picture.hidden or picture
        base64 = data[picture.image.artifact]
        return LOST if base64 is None else replace(picture, data=base64)

    return with_pictures(messages, loaded)


ONE_BY_ONE = 5
"""How many pictures of a message are tried one after the other; each try is a request."""


def next_to_drop(
    messages: Sequence[Message], refused: Collection[str], words: str, digest: str | None = None
) -> Sequence[str]:
    """Digests of the pictures to leave out next, after a provider refused a request for its pictures with `words`.
    `digest`: that of the one which they name by its place. `refused`: those that were left out for that before.

    The one that it names, by its place or its name; else those of the newest message that has some, one after the other
    from the last, and after `ONE_BY_ONE` of them the rest; where it still refuses then, all. Empty: none is left.
    """
    left = [*shown_pictures(messages)]
    if digest is not None and any(one.image.artifact == digest for one in left):
        return [digest]
    named = [one.image.artifact for one in left if len(one.image.name) > 3 and one.image.name in words]
    if named:
        return named[-1:]
    newest = next((message for message in reversed(messages) if pictures_of(message)), None)
    of_newest = [] if newest is None else [one.image.artifact for one in shown_pictures((newest,))]
    if newest is None or not of_newest:
        return list(dict.fromkeys(one.image.artifact for one in left))
    tried = sum(one.image.artifact in refused for one in pictures_of(newest))
    return of_newest[-1:] if tried < ONE_BY_ONE else list(dict.fromkeys(of_newest))
