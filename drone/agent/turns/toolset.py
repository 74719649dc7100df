"""The port to a tool set: its specs, a call, the call's output, and previews."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from drone.agent.ports.report import Report
from drone.agent.turns.turn import Turn
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.entry import Origin
from mcc.contracts.journal import Outcome
from mcc.contracts.similar import hints_keywords
from mcc.transcript.messages import ToolSpec


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A tool call that the loop has journaled and now runs. `arguments` is a JSON object.

    `turn`: the caller's turn, None outside of a run; a tool that runs agents adds them to its tree. `egress`: one list
    of hosts for each of order, agent and ancestors; reachable are the hosts in all of them. `read_only`: the caller may
    not change the workspace with it (`ToolSpec.reads_as`).
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
    """The result of a tool call; `content` is what the model is shown.

    `children`: reports of agents that the call ran, for the gate. `artifact`: digest of the stored whole text
    (`Journal.keep`) where `content` is a part of it. `untrusted`: whether third parties may have written it, None = as
    the tool's spec says. `images`: already stored (`Artifacts.image`). `exit_code`: of a command that ended by itself.
    `job`: handle of a background job that the call left running. `found`: deferred tools that the model is shown from
    its next request on. `files`, `background`, `delivered`: as in `ToolFinished`. `tainted`: it has text from outside
    though its tool reaches nothing there.
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
    tainted: bool = False
    background: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()


@hints_keywords
@dataclass(frozen=True, slots=True)
class Preview:
    """What a call would do, for the person asked to approve it: a unified diff, or a text."""

    kind: Literal["diff", "text"]
    text: str


class ToolSet(Protocol):
    def specs(self) -> Sequence[ToolSpec]:
        """The tools available now, in a stable order."""

    async def call(self, call: StartedCall) -> Output:
        """Run one tool. Anything wrong with the call is an `Output` with `is_error`, worded so that a model can act."""


@runtime_checkable
class Previews(Protocol):
    """A tool set that can preview its calls."""

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        """What the call would do; None where its tool has no preview. Changes nothing and may be called repeatedly.

        An `Output` is the error that the call would return, since it cannot work as it is.
        """


async def preview_of(toolset: ToolSet | Previews, call: StartedCall) -> Preview | Output | None:
    """As `Previews.preview`; None for a tool set without previews."""
    return await toolset.preview(call) if isinstance(toolset, Previews) else None
