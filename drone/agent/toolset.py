"""A tool set as the agent loop acts with it: what it offers, a call, and what that brings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from drone.agent.messages import ToolSpec
from drone.agent.report import Report
from drone.agent.turn import Turn
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the loop has journaled and now runs. `arguments` is a JSON object.

    `turn` is the one that the caller works in, None outside of a run; a tool that runs agents hangs them in there.
    `egress` are lists of hosts that its order, its agent and those above it made: it reaches what all of them name.
    `read_only`: the caller may not change the workspace by it (`ToolSpec.reads_as`).
    """

    call_id: str
    name: str
    arguments: Mapping[str, object]
    origin: Origin
    turn: Turn | None = None
    egress: Sequence[Sequence[str]] = ()
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool call brought: `content` is what the model is told.

    `children` are the reports of agents that the call ran, for the gate; `artifact` is the digest under which the
    whole text is kept (`Journal.keep`) where `content` is a part of it. `untrusted`: whether strangers may have written
    it, None = as its tool says of all that it brings. `images` are kept already (`Artifacts.image`). `exit_code` is
    that of a command that ended by itself, `job` the handle of what goes on behind the call. `found` are names
    of deferred tools that the model is shown from its next reply on. `files` as in `ToolFinished`.
    """

    content: str
    is_error: bool = False
    outcome: Outcome = Outcome.OK
    subagent_ids: tuple[str, ...] = ()
    children: tuple[Report, ...] = ()
    artifact: str | None = None
    untrusted: bool | None = None
    images: tuple[ImageBlock, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    exit_code: int | None = None
    job: str | None = None
    found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would do, for the person who is asked whether it may: a unified diff, or words."""

    kind: Literal["diff", "text"]
    text: str


class ToolSet(Protocol):
    def specs(self) -> Sequence[ToolSpec]:
        """What is there, in a stable order."""

    async def call(self, call: Call) -> Output:
        """Run one tool. Whatever is wrong with the call is an `Output` with `is_error`, in words a model can act on."""


@runtime_checkable
class Previews(Protocol):
    """A tool set that can say what its calls would do."""

    async def preview(self, call: Call) -> Preview | Output | None:
        """What the call would do, None where its tool does not say. It changes nothing, and may be asked again.

        An `Output` is an error: what the call would answer, because it cannot be done as it is.
        """


async def preview_of(toolset: ToolSet, call: Call) -> Preview | Output | None:
    """As `Previews.preview`; None of a tool set that has none."""
    return await toolset.preview(call) if isinstance(toolset, Previews) else None
