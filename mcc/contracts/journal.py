"""The closed union of journal facts: everything that can happen to an order."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import (
    ConfigDict,
    RootModel,
)

from mcc.contracts.agents import DefinitionOrigin
from mcc.contracts.attachments import ShownAttachment
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.compaction import CompactedRecord, TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.fact import Fact, NotedFact
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
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
from mcc.contracts.shape import JsonAny, JsonObject, Moment, Text
from mcc.contracts.turn_context import TurnContext
from mcc.contracts.usage import Usage

JOURNAL_VERSION = 4
"""Version of the shapes below. New orders have it, and so has every order that a drone of this version has claimed."""

READABLE_VERSIONS = frozenset({1, 2, 3, 4})
"""Journal versions that this code can read. A drone claims only orders with such a journal, and only a drone that can
read a journal closes the agents that it has open.

Every version understands entries of the order itself (`order.…`, `control.applied` without a record), so a service of
any version may end an order of which no agent has started.
"""


_ONE_TOOL_CALL = Usage(tool_calls=1)


class Outcome(StrEnum):
    """How a tool call ended, as recorded; the model reads it in words."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    TIMEOUT = "timeout"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


class AgentStarted(Fact):
    """`setup_digest` names the stored set-up that a resumed run must use, `continues` the record that it continues,
    `continues_order` the order of that, an earlier turn of the session; None: this one.

    `forked_from` is the record of another order that this one is a copy of. `environment` is the text before the prompt
    in the agent's first message, `attachments` what
    follows it. `model_settings` apply to this run and to its resumption; None in older
    entries. `finish_tools` are those of `tools` that its gate handles. `node` is the path of the document node that
    the agent works on, if any. `model` None: the agent calls no model, like the generator of a document. `context` is
    what it was shown of its session's earlier turns, or the record whose conversation it summarises; None: nothing, or
    a set-up of an older version says it. `tainted`:
    what it was shown at its start has text from outside (`ToolFinished`), such as attachments or a cloned repository.
    `setup_key`: a digest of what the set-up depends on; while it is the same, the next turn uses this set-up again.
    """

    kind: ClassVar[str] = "agent.started"
    title: Text
    node: Text | None = None
    call_id: str | None = None
    continues: str | None = None
    continues_order: str | None = None
    forked_from: str | None = None
    prompt: Text
    environment: Text = ""
    attachments: tuple[ShownAttachment, ...] = ()
    model: ModelChoice | None
    model_settings: ModelSettings | None = None
    tools: tuple[str, ...]
    finish_tools: tuple[str, ...] = ()
    tools_requested: tuple[str, ...] | None = None
    limits: LimitChoice = LimitChoice()
    definition_digest: str
    definition_origin: DefinitionOrigin | None = None
    setup_digest: str
    setup_key: str = ""
    context: TurnContext | CompactedRecord | None = None
    tainted: bool = False

    @property
    def session(self) -> TurnContext | None:
        """What it was shown of its session's earlier turns."""
        return self.context if isinstance(self.context, TurnContext) else None


class AgentStep(NotedFact):
    """Something that the runtime did or found. `usage` is what it cost apart from replies, e.g. a failed model call.

    `in_results`: the model reads it at the end of the preceding tool results, not in a message of its own. `why`: of
    `prefix_changed`, what it is due to: agent, model, tools, tool_search, rollback, retry or cold.
    """

    kind: ClassVar[str] = "agent.step"
    name: str
    message: Text
    usage: Usage | None = None
    in_results: bool = False
    why: str | None = None

    @property
    def in_words(self) -> Text:
        return self.message

    @property
    def added_usage(self) -> Usage | None:
        return self.usage


class AgentReused(NotedFact):
    kind: ClassVar[str] = "agent.reused"
    message: Text
    turn: int

    @property
    def in_words(self) -> Text:
        return self.message


class AgentFinished(Fact):
    """`cause` says why an agent ended before it was done, `limit` which limit it reached."""

    kind: ClassVar[str] = "agent.finished"
    status: AgentEnd
    answer: Text | None = None
    result: JsonAny = None
    error: Text | None = None
    cause: str | None = None
    limit: str | None = None


class ToolStarted(Fact):
    """`approval_id`: the approval that this call uses."""

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
    """`artifact` names the stored full text (`Journal.keep`) when `content` is only its beginning and end.

    `untrusted`: strangers may have written the text, so `content` has it within a fence (`mcc.contracts.fence`).
    `tainted`: it came from outside, and not from files of the operator's own: from the web, an MCP server, a program
    that may reach the network, or a note that nobody has accepted. `images` are shown with `content` to models that
    accept pictures. `exit_code` is that of a command that ended by itself; a code other than 0 is the program's result,
    not a failure of the call. `job`: the handle of work that goes on in the background. `found`: deferred tools that
    the model sees from now on. `files`: by path, the SHA-256 (hex) of workspace files as the call left or showed them;
    "" for a file that no longer exists. `seconds`: how long the call ran; of one that another drone had begun, the
    whole time since its `tool.started`; 0 where that is not known. `background`: records of subagents that the call
    left running; `delivered`: of those whose reports it brings.
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
    tainted: bool = False
    background: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()

    @property
    def added_usage(self) -> Usage:
        return _ONE_TOOL_CALL


class GateChecked(Fact):
    """A gate check that the tool `tool` triggered. `attempt` counts only checks that could end the run.

    `check_only`: a trial that could not end the run. `faults` are those of `errors` that say that a rule could not be
    evaluated; the same fault twice ends the run. `warnings` say what the gate changed in what was handed in.
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
    """A verdict on what an agent handed in, before it is accepted. `passed` None: no verdict, because of `error`.

    `verifier` is the agent that judged, `verifier_id` its record, where `usage` is counted. `revision`: how often the
    work had been sent back before. `message` is what the agent reads when its work is sent back again, else empty.
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


class BudgetWarned(NotedFact):
    """`used` None: the usage is unknown, so the limit cannot be enforced; only people are told, not the model.

    `landing`: the limit is reached, and the model has one reply left, without tools. `in_results`: the model reads the
    warning at the end of the preceding tool results, if there are any, not in a message of its own.
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
    """A control took effect on the record, or on the whole order; `mode` is that of a steer.

    `at`: when it was requested; a steer's message is shown to its agent with that time. `metadata` holds the values
    that were set; null deleted a key. `by`: the principal who asked for it, by which `door`; "parent" for a steer by
    the agent above, whose call's id is then its `control_id`; null in older entries, and where nobody asked.
    """

    kind: ClassVar[str] = "control.applied"
    control_id: str
    control: str
    mode: str | None = None
    message: Text | None = None
    reason: Text | None = None
    tools_removed: tuple[str, ...] = ()
    metadata: JsonObject | None = None
    by: Text | None = None
    door: str | None = None
    at: Moment | None = None

    def paused(self, before: bool) -> bool:
        """Whether the agent or order that this control applies to is paused after it, given its state `before`."""
        return self.control == "pause" if self.control in ("pause", "resume") else before


class DocumentChanged(NotedFact):
    """An agent of the order changed a document; the change is committed together with this entry.

    `node` is the path of the changed node, `fields` what was set ("props.minutes"), `by` the agent's role as an author.
    A `command_id` is applied at most once.
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


class WorkspaceCheckpointed(NotedFact):
    """The workspace was saved on the drone's host before a call that may change it.

    `files` and `bytes` are what the checkpoint holds; `skipped` counts what could not be saved and cannot be restored.
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
        files = "file" if self.files == 1 else "files"
        return f"checkpoint of {self.files:,} {files} ({self.bytes:,} bytes{without})"


class WorkspaceHeld(NotedFact):
    """The order is the only one that writes in its workspace, until its claim ends; the next call writes there.

    `key` identifies the workspace. `waited_seconds`: since it first wanted to; `holder`: the order that it waited for
    last, if that is known. `changed`: the first files that its agents had read and that others have changed since.
    """

    kind: ClassVar[str] = "workspace.held"
    key: str
    waited_seconds: float = 0.0
    holder: str | None = None
    changed: tuple[Text, ...] = ()

    @property
    def in_words(self) -> Text:
        waited = f" after {self.waited_seconds:,.1f} s" if self.waited_seconds >= 0.1 else ""
        behind = f", behind order {self.holder}" if self.holder else ""
        changed = f"; changed by others meanwhile: {', '.join(self.changed)}" if self.changed else ""
        return f"alone in writing in its workspace{waited}{behind}{changed}"


OrderFact: TypeAlias = (
    OrderQueued | OrderClaimed | OrderRequeued | OrderHandedBack | OrderWaiting | OrderResumed | OrderFinished
)
AgentFact: TypeAlias = AgentStarted | AgentStep | AgentReused | AgentDelivered | AgentFinished
ModelFact: TypeAlias = ModelStarted | ModelReplied | ModelRetried | ModelFellBack
CallFact: TypeAlias = ToolStarted | ToolFinished | GateChecked | VerifyChecked
NoteFact: TypeAlias = BudgetWarned | TranscriptCompacted | DocumentChanged | WorkspaceCheckpointed | WorkspaceHeld
GitFact: TypeAlias = WorkspaceCommitted | WorktreeMade | WorktreeEnded | DeliveryStarted | DeliveryFinished
PersonFact: TypeAlias = ControlApplied | ApprovalRequested | ApprovalDecided | QuestionAsked | QuestionAnswered
AnyFact: TypeAlias = OrderFact | AgentFact | ModelFact | CallFact | NoteFact | GitFact | PersonFact

FACTS: Mapping[str, type[Fact]] = {fact.kind: fact for fact in get_args(AnyFact)}
"""Every kind with its class. The union is closed: there are no others."""


class FactByKind(RootModel[Any]):
    """The content of an entry; its `kind` says which of these it is."""

    # Not `RootModel[AnyFact]`, because that would be built when this module is imported.
    model_config = ConfigDict(defer_build=True)
    root: AnyFact
