"""Journal entries: everything that can happen to an order, as one closed union."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import (
    ConfigDict,
    RootModel,
)

from mcc.contracts.agents import DefinitionOrigin
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.fact import Fact, Note
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order import ModelSettings
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.record import AgentEnd, ModelChoice
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Text
from mcc.contracts.usage import Usage

JOURNAL_VERSION = 4
"""Version of the shapes below: that of new orders, and of every order that a drone of this version has claimed."""

READABLE_VERSIONS = frozenset({1, 2, 3, 4})
"""A drone claims only orders whose journal it can read, and nobody else closes what their agents have open.

Entries of the order's own (`order.…`, `control.applied` without a record) are understood by every version: a service of
any of them may end an order of which no agent has begun.
"""


_ONE_TOOL_CALL = Usage(tool_calls=1)


class Outcome(StrEnum):
    """How a tool call ended, for the record; the model is told in words."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    TIMEOUT = "timeout"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


class AgentStarted(Fact):
    """`setup_digest` names the kept set-up that a resumed run must use, `continues` the record that it goes on with.

    `forked_from` is the record of another order that this one is a copy of. `environment` is what the agent's first
    message says before its prompt. `model_settings`: how its model is asked, also by a run that goes on later; None in
    entries of version 3 and before. `finish_tools` are those of `tools` that its gate answers. `node` is the path of
    the document's node that it works on, if it is the agent of one. `model` None: it asks none, as the generator of a
    document.
    """

    kind: ClassVar[str] = "agent.started"
    title: Text
    node: Text | None = None
    call_id: str | None = None
    continues: str | None = None
    forked_from: str | None = None
    prompt: Text
    environment: Text = ""
    model: ModelChoice | None
    model_settings: ModelSettings | None = None
    tools: tuple[str, ...]
    finish_tools: tuple[str, ...] = ()
    tools_requested: tuple[str, ...] | None = None
    limits: LimitChoice = LimitChoice()
    definition_digest: str
    definition_origin: DefinitionOrigin | None = None
    setup_digest: str


class AgentStep(Note):
    """Something that the runtime did or found; `usage` is what it cost beside replies, a failed model call for one.

    `in_results`: the model is told it at the end of the tool results that it follows, not in a message of its own.
    """

    kind: ClassVar[str] = "agent.step"
    name: str
    message: Text
    usage: Usage | None = None
    in_results: bool = False

    @property
    def in_words(self) -> Text:
        return self.message

    @property
    def spends(self) -> Usage | None:
        return self.usage


class AgentReused(Note):
    kind: ClassVar[str] = "agent.reused"
    message: Text
    turn: int

    @property
    def in_words(self) -> Text:
        return self.message


class AgentFinished(Fact):
    """`cause` says why an agent ended that was not done, `limit` which limit it was."""

    kind: ClassVar[str] = "agent.finished"
    status: AgentEnd
    answer: Text | None = None
    result: JsonAny = None
    error: Text | None = None
    cause: str | None = None
    limit: str | None = None


class ToolStarted(Fact):
    """`approval_id`: the approval that this call uses up."""

    kind: ClassVar[str] = "tool.started"
    call_id: str
    provider_id: Text = ""
    round: int
    index: int
    name: Text
    arguments: JsonObject | Text
    idempotent: bool
    approval_id: str | None = None


class ToolFinished(Fact):
    """`artifact` names the kept whole text (`Journal.keep`) where `content` is only its beginning and end.

    `untrusted`: strangers may have written it, so `content` has it within a fence (`mcc.contracts.fence`). `images` are
    shown beside `content` to models that take pictures. `exit_code` is that of a command that ended by itself: one
    other than 0 is what a program says, and no failure of the call. `job`: what goes on behind the call, by its handle.
    `found`: deferred tools that the model is shown from now on.
    `files`: the SHA-256 (hex) of files of the workspace as the call left or showed them, by their path; empty for one
    that is no more.
    """

    kind: ClassVar[str] = "tool.finished"
    call_id: str
    name: Text
    content: Text
    is_error: bool
    outcome: Outcome = Outcome.OK
    seconds: float = 0.0
    subagent_ids: tuple[str, ...] = ()
    artifact: str | None = None
    untrusted: bool = False
    images: tuple[ImageBlock, ...] = ()
    files: Mapping[Text, str] = {}
    exit_code: int | None = None
    job: str | None = None
    found: tuple[str, ...] = ()

    @property
    def spends(self) -> Usage:
        return _ONE_TOOL_CALL


class GateChecked(Fact):
    """A check of the gate, asked for by `tool`; `attempt` counts those that were meant as the end.

    `check_only`: it was to end nothing. `faults` are those of `errors` that say that a rule has no value; the same one
    twice ends the work. `warnings` say what was changed of what was handed in.
    """

    kind: ClassVar[str] = "gate.checked"
    tool: str = "submit_result"
    attempt: int
    ok: bool
    check_only: bool = False
    errors: tuple[Text, ...] = ()
    faults: tuple[Text, ...] = ()
    warnings: tuple[Text, ...] = ()


class VerifyChecked(Fact):
    """A verdict on what an agent brought, before that counts as its end. `passed` None: there is none, for `error`.

    `verifier` is the agent that judged, `verifier_id` its record, which `usage` is counted in. `revision`: how often
    the work had been sent back before; `message` is what the agent is told when it is sent back once more, else empty.
    """

    kind: ClassVar[str] = "verify.checked"
    verifier: str
    verifier_id: str | None = None
    revision: int
    passed: bool | None
    points: tuple[Text, ...] = ()
    error: Text | None = None
    message: Text = ""
    model: str = ""
    usage: Usage = Usage()


class BudgetWarned(Note):
    """`used` None: what was used is not known, so that the limit cannot be held; people are told, the model is not.

    `landing`: the limit is reached, and the model has one reply left, without tools. `in_results`: the model is told
    it at the end of the tool results that it follows, if it follows any, not in a message of its own.
    """

    kind: ClassVar[str] = "budget.warned"
    limit: str
    used: float | None
    allowed: float
    message: Text
    landing: bool = False
    in_results: bool = False

    @property
    def in_words(self) -> Text:
        return self.message


class ControlApplied(Fact):
    """What people asked of the record, or of the whole order; `mode` is how a steer was meant.

    `metadata` is what was set; null took a key away.
    """

    kind: ClassVar[str] = "control.applied"
    control_id: str
    control: str
    mode: str | None = None
    message: Text | None = None
    reason: Text | None = None
    tools_removed: tuple[str, ...] = ()
    metadata: JsonObject | None = None

    def paused(self, before: bool) -> bool:
        """Whether those of whom it was asked are paused after it, who were (or were not) `before`."""
        return self.control == "pause" if self.control in ("pause", "resume") else before


class Clipped(Closed):
    """A tool result of which only beginning and end are shown from here on: `kept` of its `characters`.

    `artifact` is the digest under which the whole is kept.
    """

    call_id: str
    kept: int
    characters: int
    artifact: str


class TranscriptCompacted(Note):
    """What the model is not shown any more; `summary` says it in words.

    `clipped`: tool results that were shortened. `through_seq`: entries up to here are replaced by the summary, 0 = none
    are. `window_tokens`: what the model takes in, None = not known. `tokens_before`, `tokens_after`: about how much the
    question took.
    """

    kind: ClassVar[str] = "transcript.compacted"
    through_seq: int = 0
    summary: Text
    clipped: tuple[Clipped, ...] = ()
    window_tokens: int | None = None
    tokens_before: int = 0
    tokens_after: int = 0

    @property
    def in_words(self) -> Text:
        return self.summary


class DocumentChanged(Note):
    """A change that an agent of the order made, committed together with this entry.

    `node` is the path of the node that it was about, `fields` what it set ("props.minutes"); `by` which of the
    document's authors the agent is. The same `command_id` never changes anything twice.
    """

    kind: ClassVar[str] = "document.changed"
    document_id: str
    version: int
    command: str
    node: Text = ""
    fields: tuple[Text, ...] = ()
    by: Literal["agent", "metadata_agent", "outline", "chat"] = "agent"
    command_id: str | None = None

    @property
    def in_words(self) -> Text:
        where = f" at {self.node}" if self.node else ""
        return f"{self.command}{where} made version {self.version} of {self.document_id}"


class WorkspaceCheckpointed(Note):
    """What the workspace held was kept on the drone's host before a call that may change it.

    `files` and `bytes` are what the checkpoint holds, `skipped` counts what could not be kept and cannot be restored.
    """

    kind: ClassVar[str] = "workspace.checkpointed"
    checkpoint_id: str
    call_id: str
    files: int
    bytes: int
    skipped: int = 0

    @property
    def in_words(self) -> Text:
        without = f", {self.skipped:,} left out" if self.skipped else ""
        return f"checkpoint of {self.files:,} files ({self.bytes:,} bytes{without})"


OrderFact: TypeAlias = (
    OrderQueued | OrderClaimed | OrderRequeued | OrderHandedBack | OrderWaiting | OrderResumed | OrderFinished
)
AgentFact: TypeAlias = AgentStarted | AgentStep | AgentReused | AgentFinished
ModelFact: TypeAlias = ModelStarted | ModelReplied | ModelRetried | ModelFellBack
CallFact: TypeAlias = ToolStarted | ToolFinished | GateChecked | VerifyChecked
NoteFact: TypeAlias = BudgetWarned | TranscriptCompacted | DocumentChanged | WorkspaceCheckpointed
GitFact: TypeAlias = WorkspaceCommitted | WorktreeMade | WorktreeEnded
PersonFact: TypeAlias = ControlApplied | ApprovalRequested | ApprovalDecided | QuestionAsked | QuestionAnswered
AnyFact: TypeAlias = OrderFact | AgentFact | ModelFact | CallFact | NoteFact | GitFact | PersonFact

FACTS: Mapping[str, type[Fact]] = {fact.kind: fact for fact in get_args(AnyFact)}
"""Every kind with the class of its data: the union is closed."""


class FactByKind(RootModel[Any]):
    """What an entry tells; its `kind` says which of these it is."""

    # Not `RootModel[AnyFact]`, which would be built when this module is imported.
    model_config = ConfigDict(defer_build=True)
    root: AnyFact
