"""The messages of a transcript (frozen, encoded once per wire format), the pictures in them, and tool specs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mcc.contracts.blocks import AnyBlock, ImageBlock, ToolCall, blocks_of, calls_in, text_in, thinking_in
from mcc.contracts.permission import Effects

_set = object.__setattr__


@dataclass(frozen=True, slots=True)
class Encodable:
    """Caches its encoded bytes per wire format. Nearly always there is just one format, so the first one is stored
    without a dictionary."""

    _form: str = field(default="", init=False, compare=False, repr=False)
    _bytes: bytes = field(default=b"", init=False, compare=False, repr=False)
    _others: dict[str, bytes] | None = field(default=None, init=False, compare=False, repr=False)

    def encoded_as(self, form: str) -> bytes | None:
        """The cached bytes in this wire format; None when it has not been encoded in it."""
        if self._form == form:
            return self._bytes
        return None if self._others is None else self._others.get(form)

    def remember(self, form: str, encoded: bytes) -> None:
        """Cache the bytes; a model adapter does so the first time it sends the message."""
        if not self._form:
            _set(self, "_form", form)
            _set(self, "_bytes", encoded)
        elif self._others is None:
            _set(self, "_others", {form: encoded})
        else:
            self._others[form] = encoded

    def forget(self) -> None:
        """Drop the cached bytes of a message that is not sent for a while."""
        _set(self, "_form", "")
        _set(self, "_bytes", b"")
        _set(self, "_others", None)

    @property
    def encoded(self) -> Mapping[str, bytes]:
        """All cached bytes by wire format."""
        first = {self._form: self._bytes} if self._form else {}
        return first | (self._others or {})


@dataclass(frozen=True, slots=True)
class AssistantMessage(Encodable):
    """A model's reply, block by block.

    `model`: the model that gave it (`provider/model`; empty: none did). Signed or encrypted blocks, and blocks that
    only one provider understands, are sent back to that model only.
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
    """A picture in a message. `data`: its bytes as base64, loaded only for a request that is sent, else empty. `at`: in
    a `UserMessage`, after how many characters of its text it stands. `hidden`: what a model reads in its place, if it
    is not shown any more."""

    image: ImageBlock
    data: str = field(default="", repr=False)
    at: int = 0
    hidden: str = ""

    @property
    def url(self) -> str:
        return f"data:{self.image.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class UserMessage(Encodable):
    """What a person or the runtime says; `pictures` in their order. `by_person`: the words of a person, or of the agent
    above, which code may repeat as such."""

    text: str
    pictures: tuple[Picture, ...] = ()
    by_person: bool = field(default=False, compare=False)

    @property
    def parts(self) -> Iterator[str | Picture]:
        """Text and pictures in the order in which a model reads them; no text is empty."""
        begin = 0
        for picture in self.pictures:
            if text := self.text[begin : picture.at]:
                yield text
            yield picture
            begin = picture.at
        if text := self.text[begin:]:
            yield text


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: str
    name: str
    content: str
    is_error: bool
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResults(Encodable):
    """The results of one reply's calls, in the order of the calls, and notices to the model appended to them.

    Adapters send `ToolResult.call_id`, the runtime's own id, to the provider as the call's id, and the same id in the
    reply's calls: ids from providers may repeat or be missing.
    """

    results: tuple[ToolResult, ...]
    notices: tuple[str, ...] = ()

    def noting(self, text: str) -> "ToolResults":
        """The same results with one more notice."""
        return ToolResults(self.results, (*self.notices, text))

    @property
    def as_shown(self) -> tuple[ToolResult, ...]:
        """The results as models see them: the notices are appended to the last one."""
        if not self.notices:
            return self.results
        *before, last = self.results
        return (*before, replace(last, content="\n\n".join((last.content, *self.notices))))


Message: TypeAlias = UserMessage | AssistantMessage | ToolResults


CHANGING: frozenset[str | None] = frozenset({"write", "execute", "irreversible"})
"""Effects that the next call may depend on or undo."""

SHELL_READ = "shell_read"

WRITING_GROUPS = frozenset({"workspace_write", "git_write", "shell_write"})
"""Tool groups whose tools may change a workspace's content."""


_ELSEWHERE = frozenset({"mcp", "memory_write", "plans_write", "tasks_write", "document_write"})
"""Tool groups whose tools write something that lies in no workspace."""

_OUTSIDE = frozenset({"mcp", "web_read"})
"""Tool groups whose tools bring text from outside."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as models see it (name, description, JSON Schema of its arguments), and what the runtime needs to know.

    `effects`: the most that a call may do to the world, None = not declared. `max_result`: most characters of a result
    that a model is shown; the whole is stored.

    `idempotent`: running it twice does no harm, so a resumed run may repeat a lost call. `resumable`: run again, it
    continues what it had begun. `untrusted`: third parties may have written its output, so models are shown it within a
    fence. `seconds`: its time limit, None = the turn's. `deferred`: shown to models only after they have searched for
    it. `reads_as`: the group in which agents without write access get it, restricted to reading (`OnlyReading`); empty
    = they do not get it. `networked`: programs that it runs may reach the hosts that the operator named. `accepted`:
    the schema of all that it takes, where models are shown only a part of that. `background_safe`: an agent may call it
    that runs in the background; never one whose effect is irreversible.
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
    accepted: Mapping[str, object] | None = field(default=None, compare=False, repr=False)
    background_safe: bool = True
    encoded: dict[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def definition(self) -> Mapping[str, object]:
        """The part that models see, and that a person's approval of a call depends on."""
        definition = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return definition | {"group": self.group, "effects": self.effects}

    def reaches_outside(self, egress: Sequence[Sequence[str]]) -> bool:
        """Whether its results may hold text from outside: of the web, of an MCP server, or what a program fetched.
        `egress` as in `StartedCall`."""
        return (self.networked and all(egress)) or self.effects == "network" or self.group in _OUTSIDE

    @property
    def is_ordered(self) -> bool:
        """Whether its calls run one after the other, in the order of the model's reply."""
        return self.effects in CHANGING

    @property
    def may_write(self) -> bool:
        """Whether it may change a workspace, according to its effects or its group.

        A tool in `shell_read` runs programs in a workspace mounted read-only, so it may not.
        """
        if self.group == SHELL_READ and self.effects == "execute":
            return False
        return self.effects in CHANGING or self.group in WRITING_GROUPS

    @property
    def writes_in_workspace(self) -> bool:
        """Whether a call of it may change the workspace, so that its order has to be the only one that does."""
        return self.may_write and self.group not in _ELSEWHERE

    @property
    def only_reads(self) -> bool:
        """Whether a read-only agent may have it: its group is one for reading and its effects do not contradict."""
        return self.group.endswith("_read") and not self.may_write
