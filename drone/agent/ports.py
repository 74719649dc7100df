"""This room is for the ports of the agent loop: a model to ask, tools to act with, a journal to write to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from drone.agent.messages import Message, ToolSpec
from mcc.contracts.journal import Fact, Origin, Outcome, Thought
from mcc.contracts.record import AgentEnd
from mcc.contracts.usage import Usage

if TYPE_CHECKING:
    from drone.agent.report import Report
    from drone.agent.turn import Turn

DeltaKind = Literal["model.delta", "thinking.delta", "tool.progress"]


@dataclass(frozen=True, slots=True)
class WantedCall:
    """A tool call as the model wrote it: `arguments` is the JSON object, or the raw text when it is not one."""

    name: str
    arguments: Mapping[str, object] | str
    provider_id: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to a model. The same messages come again with the next call, and more: encode each of them once."""

    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None
    temperature: float | None = None
    thinking: str = "inherit"
    seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply. `finish_reason`: stop | tool_calls | length | content_filter | other; `model`: who answered."""

    text: str
    tool_calls: tuple[WantedCall, ...] = ()
    thinking: str = ""
    thoughts: tuple[Thought, ...] = ()
    finish_reason: str = "stop"
    usage: Usage = Usage(model_calls=1)
    first_token_ms: float | None = None
    model: str = ""


class Listener(Protocol):
    """Whoever listens while a model is asked."""

    def delta(self, kind: DeltaKind, text: str) -> None:
        """A piece of text arrived; cheap, never waits."""

    async def retried(self, error: str, wait_seconds: float) -> None:
        """The try failed; another follows after `wait_seconds`. Committed on return."""

    async def fell_back(self, source: str, target: str, error: str) -> None:
        """Another model is asked from here on. Committed on return."""

    async def go_ahead(self) -> None:
        """To be awaited before a try that follows a pause: returns when it may be made."""


class Model(Protocol):
    @property
    def name(self) -> str:
        """Effective name, `provider/model`."""

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        """Raises `ModelError`; CancelledError passes."""


class ModelError(Exception):
    """The provider did not give a reply; the message is a sentence for people, without secrets.

    `retryable`: the same request may succeed later. `retry_after`: seconds the provider asked for. `usage`: what the
    provider said that the failed tries cost, None = nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.status = status
        self.usage = usage


class AskLater(ModelError):
    """The provider wants to be asked again, but only after `seconds`: longer than a call waits."""

    def __init__(self, message: str, seconds: float, *, status: int | None = None, usage: Usage | None = None) -> None:
        super().__init__(message, retryable=True, retry_after=seconds, status=status, usage=usage)
        self.seconds = seconds

    def given_up(self, why: str) -> ModelError:
        """The same as an error that stands; `why` says in brief what speaks against waiting."""
        said = f"{self} That is {why}." if why else str(self)
        return ModelError(said, retryable=True, retry_after=self.seconds, status=self.status, usage=self.usage)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the loop has journaled and now runs. `arguments` is a JSON object.

    `turn` is the one that the caller works in, None outside of a run; a tool that runs agents hangs them in there.
    """

    call_id: str
    name: str
    arguments: Mapping[str, object]
    origin: Origin
    turn: "Turn | None" = None


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool call brought: `content` is what the model is told.

    `children` are the reports of agents that the call ran, for the gate; `artifact` is the digest under which the
    whole text is kept (`Journal.keep`) where `content` is a part of it. `untrusted`: whether strangers may have written
    it, None = as its tool says of all that it brings.
    """

    content: str
    is_error: bool = False
    outcome: Outcome = Outcome.OK
    subagent_ids: tuple[str, ...] = ()
    children: "tuple[Report, ...]" = ()
    artifact: str | None = None
    untrusted: bool | None = None


class ToolSet(Protocol):
    def specs(self) -> Sequence[ToolSpec]:
        """What is there, in a stable order."""

    async def call(self, call: Call) -> Output:
        """Run one tool. Whatever is wrong with the call is an `Output` with `is_error`, in words a model can act on."""


class Journal(Protocol):
    """Where a turn's history goes. `write` returns once the facts are committed, in this order."""

    async def write(self, origin: Origin, *facts: Fact) -> int:
        """Answers the number of the last of these entries. Raises `JournalError`."""

    async def keep(self, text: str) -> str:
        """Store a text under its SHA-256 (hex), which is answered."""

    async def kept(self, digest: str) -> str | None:
        """The text that is stored under this SHA-256 (hex); None when there is none."""

    async def close(self, status: AgentEnd, error: str, under: str | None = None) -> None:
        """Write the ends of every call and agent that is still open (`Fold.closing`), children first.

        `under`: only those of that record and of what hangs below it.
        """

    def delta(self, origin: Origin, kind: DeltaKind, round_number: int, attempt: int, offset: int, text: str) -> None:
        """Tell viewers of text on its way; may be lost."""

    async def cleared(self) -> None:
        """Return when effects may be caused on the strength of what is written here; asked right before each one.

        Raises `Fenced`.
        """


class JournalError(Exception):
    """Nothing more can be written: stop, start nothing more. It ends the whole tree, and no model is told.

    JournalError
    ├── Fenced        another holder has the order
    └── Unwritable    an entry is refused for what is in it; the sentence says why
    """


class Fenced(JournalError):
    """Another holder has the order: write nothing more."""


class Unwritable(JournalError):
    """The data of this order is refused; the sentence says why."""
