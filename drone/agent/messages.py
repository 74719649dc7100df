"""The messages of a transcript: frozen, encoded once per wire format, with pictures or with words in their place."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mcc.contracts.blocks import AnyBlock, ImageBlock, ToolCall, blocks_of, calls_in, text_in, thinking_in
from mcc.contracts.permission import Effects

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class Sendable:
    """What remembers its bytes in each wire format that it was sent in: nearly always in one, so that the first of them
    takes no dictionary."""

    _form: str = field(default="", init=False, compare=False, repr=False)
    _bytes: bytes = field(default=b"", init=False, compare=False, repr=False)
    _others: dict[str, bytes] | None = field(default=None, init=False, compare=False, repr=False)

    def encoded_as(self, form: str) -> bytes | None:
        """Its bytes in this form; None where they are not known."""
        if self._form == form:
            return self._bytes
        return None if self._others is None else self._others.get(form)

    def remember(self, form: str, encoded: bytes) -> None:
        """A model adapter tells its own form the first time it sends the message."""
        if not self._form:
            _set(self, "_form", form)
            _set(self, "_bytes", encoded)
        elif self._others is None:
            _set(self, "_others", {form: encoded})
        else:
            self._others[form] = encoded

    def forget(self) -> None:
        """It is not sent for a while; it is encoded anew then."""
        _set(self, "_form", "")
        _set(self, "_bytes", b"")
        _set(self, "_others", None)

    @property
    def encoded(self) -> Mapping[str, bytes]:
        """All that it remembers, by form."""
        first = {self._form: self._bytes} if self._form else {}
        return first | (self._others or {})


@dataclass(frozen=True, slots=True)
class UserMessage(Sendable):
    text: str


@dataclass(frozen=True, slots=True)
class AssistantMessage(Sendable):
    """A reply, block by block.

    `model` is who gave it (`provider/model`, empty: nobody did): what its provider signed or sealed, and what only its
    provider understands, goes back to that model alone.
    """

    blocks: tuple[AnyBlock, ...] = ()
    model: str = ""

    @classmethod
    def of(
        cls, text: str = "", tool_calls: Iterable[ToolCall] = (), *, thinking: str = "", model: str = ""
    ) -> "AssistantMessage":
        """A reply that thinks, speaks and then calls tools."""
        return cls(blocks_of(text, thinking, tool_calls), model)

    @property
    def text(self) -> str:
        return text_in(self.blocks)

    @property
    def thinking(self) -> str:
        return thinking_in(self.blocks)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return calls_in(self.blocks)


@dataclass(frozen=True, slots=True)
class Picture:
    """An image of a tool's result. `data`: its bytes as base64, only in a question that is asked, else empty."""

    image: ImageBlock
    data: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        return f"data:{self.image.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    name: str
    content: str
    is_error: bool
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResults(Sendable):
    """The results of one reply's calls, in the order of the calls, and what the model is told at the end of them.

    Adapters send `ToolResult.call_id` (ours) to the provider as the call's id, and the same id in the reply's calls:
    provider ids repeat or are missing, ours never.
    """

    results: tuple[ToolResult, ...]
    notices: tuple[str, ...] = ()

    def noting(self, text: str) -> "ToolResults":
        """The same results with one more notice."""
        return ToolResults(self.results, (*self.notices, text))

    @property
    def as_shown(self) -> tuple[ToolResult, ...]:
        """The results as models see them: with the notices at the end of the last one."""
        if not self.notices:
            return self.results
        *before, last = self.results
        return (*before, replace(last, content="\n\n".join((last.content, *self.notices))))


Message: TypeAlias = UserMessage | AssistantMessage | ToolResults


CHANGING: frozenset[str | None] = frozenset({"write", "execute", "irreversible"})
"""Effects that the next call may rest on, or undo."""

SHELL_READ = "shell_read"

WRITING_GROUPS = frozenset({"workspace_write", "git_write", "shell_write"})
"""Tool groups whose tools may change what is in a workspace."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool (name, description, JSON Schema of its arguments), and what the runtime must know.

    `effects`: the most that a call may do to the world, None = not said; `max_result`: characters of a result that a
    model is told, the whole is kept.

    `idempotent`: running it twice does no harm, so a takeover may run it again. `resumable`: run again, it goes on with
    what it had begun. `untrusted`: strangers may have written what it brings, so models are shown it within a fence.
    `seconds`: its time limit, None = the turn's. `deferred`: models are shown it once they have looked for it.
    `reads_as`: the group in which it is had by those who may not write, and then it does not write (`OnlyReading`);
    empty = they do not have it. `networked`: programs that it runs may reach hosts that the operator named.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    group: str = ""
    idempotent: bool = False
    seconds: float | None = None
    resumable: bool = False
    untrusted: bool = True
    effects: Effects | None = None
    max_result: int | None = None
    deferred: bool = False
    reads_as: str = ""
    networked: bool = False
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def definition(self) -> Mapping[str, object]:
        """What a model is told of it, and what a person who allows it relies on."""
        definition = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return definition | {"group": self.group, "effects": self.effects}

    @property
    def is_ordered(self) -> bool:
        """Whether its calls run one after the other, in the order in which a model wrote them."""
        return self.effects in CHANGING

    @property
    def may_write(self) -> bool:
        """Whether it may change what others of a workspace see: it says so, or its group does.

        What runs programs in `shell_read` runs them on a workspace that they cannot change.
        """
        if self.group == SHELL_READ and self.effects == "execute":
            return False
        return self.effects in CHANGING or self.group in WRITING_GROUPS

    @property
    def only_reads(self) -> bool:
        """Whether an agent that changes nothing may have it: its group says so, and it does not say otherwise."""
        return self.group.endswith("_read") and not self.may_write


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
    # Every question goes through all messages: without a generator for each of them that takes a quarter of the time.
    for message in messages:
        if isinstance(message, ToolResults):
            for one in message.results:
                if one.pictures:
                    return True
    return False


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
