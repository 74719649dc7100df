"""This room is for journal entries: everything that can happen to an order, as one closed union."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field, SerializeAsAny, computed_field, model_validator

from mcc.contracts.limits import Limits
from mcc.contracts.record import AgentEnd, ModelChoice, ToolCall
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text, unchecked
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage

JOURNAL_VERSION = 1
"""Version of the shapes below; a drone claims only orders whose journal it can read."""


class Outcome(StrEnum):
    """How a tool call ended, for the record; the model is told in words."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    TIMEOUT = "timeout"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CANCELLED = "cancelled"


class Thought(Closed):
    """A thinking block as the provider sent it, so that it can be sent back: its text, or its sealed data."""

    text: Text = ""
    signature: str | None = None
    sealed: str | None = None


class Fact(Closed):
    """What an entry tells; each subclass names its kind."""

    kind: ClassVar[str]


class OrderQueued(Fact):
    kind: ClassVar[str] = "order.queued"
    session_id: str
    session_seq: int
    agent: str
    queue: str
    priority: int
    model: str | None = None
    workspace: Text | None = None
    not_before: Moment | None = None


class OrderClaimed(Fact):
    kind: ClassVar[str] = "order.claimed"
    attempt: int
    epoch: int
    drone: str
    incarnation: str


class OrderRequeued(Fact):
    kind: ClassVar[str] = "order.requeued"
    epoch: int
    lost: str
    message: Text


class OrderHandedBack(Fact):
    kind: ClassVar[str] = "order.handed_back"
    epoch: int
    drone: str
    message: Text


class OrderWaiting(Fact):
    kind: ClassVar[str] = "order.waiting"
    reason: WaitingReason
    message: Text
    until: Moment | None = None


class OrderResumed(Fact):
    kind: ClassVar[str] = "order.resumed"
    message: Text


class OrderFinished(Fact):
    kind: ClassVar[str] = "order.finished"
    status: Literal[OrderStatus.SUCCEEDED, OrderStatus.FAILED, OrderStatus.CANCELLED]
    reason: FailureReason | None = None
    detail: Text | None = None
    usage: Usage = Usage()


class AgentStarted(Fact):
    """`setup_digest` names the kept text of system prompt, tool schemas and limits that a resumed run must use."""

    kind: ClassVar[str] = "agent.started"
    title: Text
    call_id: str | None = None
    prompt: Text
    model: ModelChoice
    tools: tuple[str, ...]
    limits: Limits
    definition_digest: str
    setup_digest: str


class AgentStep(Fact):
    kind: ClassVar[str] = "agent.step"
    name: str
    message: Text


class AgentReused(Fact):
    kind: ClassVar[str] = "agent.reused"
    message: Text
    turn: int


class AgentFinished(Fact):
    kind: ClassVar[str] = "agent.finished"
    status: AgentEnd
    answer: Text | None = None
    result: JsonAny = None
    error: Text | None = None


class ModelStarted(Fact):
    kind: ClassVar[str] = "model.started"
    round: int
    attempt: int = Field(alias="try", serialization_alias="try")
    model: str
    reserved_tokens: int = 0


class ModelReplied(Fact):
    kind: ClassVar[str] = "model.replied"
    round: int
    attempt: int = Field(alias="try", serialization_alias="try")
    model: str
    text: Text
    thinking: Text = ""
    thoughts: tuple[Thought, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str
    usage: Usage
    first_token_ms: float | None = None
    seconds: float = 0.0


class ModelRetried(Fact):
    kind: ClassVar[str] = "model.retried"
    round: int
    attempt: int = Field(alias="try", serialization_alias="try")
    model: str
    error: Text
    wait_seconds: float


class ModelFellBack(Fact):
    kind: ClassVar[str] = "model.fell_back"
    round: int
    source: str
    target: str
    error: Text


class ToolStarted(Fact):
    kind: ClassVar[str] = "tool.started"
    call_id: str
    provider_id: Text = ""
    round: int
    index: int
    name: Text
    arguments: JsonObject | Text
    idempotent: bool


class ToolFinished(Fact):
    kind: ClassVar[str] = "tool.finished"
    call_id: str
    name: Text
    content: Text
    is_error: bool
    outcome: Outcome = Outcome.OK
    seconds: float = 0.0
    subagent_ids: tuple[str, ...] = ()


class GateChecked(Fact):
    kind: ClassVar[str] = "gate.checked"
    attempt: int
    ok: bool
    errors: tuple[Text, ...] = ()


class BudgetWarned(Fact):
    kind: ClassVar[str] = "budget.warned"
    limit: str
    used: float
    allowed: float
    message: Text


class ControlApplied(Fact):
    kind: ClassVar[str] = "control.applied"
    control_id: str
    control: str
    message: Text | None = None
    reason: Text | None = None


class ApprovalRequested(Fact):
    kind: ClassVar[str] = "approval.requested"
    approval_id: str
    call_id: str
    tool: Text
    arguments_digest: str
    tool_digest: str


class ApprovalDecided(Fact):
    kind: ClassVar[str] = "approval.decided"
    approval_id: str
    call_id: str
    decision: Literal["approve", "deny"]
    note: Text | None = None


class QuestionAsked(Fact):
    kind: ClassVar[str] = "question.asked"
    question_id: str
    call_id: str
    question: Text
    choices: tuple[Text, ...] = ()


class QuestionAnswered(Fact):
    kind: ClassVar[str] = "question.answered"
    question_id: str
    call_id: str
    answer: Text


class TranscriptCompacted(Fact):
    kind: ClassVar[str] = "transcript.compacted"
    through_seq: int
    summary: Text


class DocumentChanged(Fact):
    kind: ClassVar[str] = "document.changed"
    document_id: str
    version: int
    command: str


OrderFact: TypeAlias = (
    OrderQueued | OrderClaimed | OrderRequeued | OrderHandedBack | OrderWaiting | OrderResumed | OrderFinished
)
AgentFact: TypeAlias = AgentStarted | AgentStep | AgentReused | AgentFinished
ModelFact: TypeAlias = ModelStarted | ModelReplied | ModelRetried | ModelFellBack
CallFact: TypeAlias = ToolStarted | ToolFinished | GateChecked | BudgetWarned | TranscriptCompacted | DocumentChanged
PersonFact: TypeAlias = ControlApplied | ApprovalRequested | ApprovalDecided | QuestionAsked | QuestionAnswered
AnyFact: TypeAlias = OrderFact | AgentFact | ModelFact | CallFact | PersonFact

FACTS: Mapping[str, type[Fact]] = {fact.kind: fact for fact in get_args(AnyFact)}
"""Every kind with the class of its data: the union is closed."""


class Origin(Closed):
    """Whose entry it is: the record and its place in the tree; all None and 0 for the order's own entries."""

    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0


ORDER = Origin()


class Entry(Closed):
    """One line of an order's journal; `seq` runs 1..N without a gap. `data` is one of `FACTS`, chosen by `kind`."""

    order_id: str
    seq: int
    at: Moment
    record_id: str | None = None
    parent_id: str | None = None
    agent: str | None = None
    depth: int = 0
    data: SerializeAsAny[Fact]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kind(self) -> str:
        return self.data.kind

    @property
    def origin(self) -> Origin:
        return Origin(record_id=self.record_id, parent_id=self.parent_id, agent=self.agent, depth=self.depth)

    @model_validator(mode="before")
    @classmethod
    def _narrow(cls, value: Any) -> Any:
        if not isinstance(value, dict) or isinstance(value.get("data"), Fact):
            return value
        fields = dict(value)
        fields["data"] = fact_of(str(fields.pop("kind", "")), fields.get("data"))
        return fields


def fact_of(kind: str, data: object) -> Fact:
    """The fact that `data` (a mapping) tells under `kind`; ValueError for a kind that does not exist."""
    if kind not in FACTS:
        raise ValueError(f"there is no journal entry of kind {kind!r}")
    return FACTS[kind].model_validate(data)


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry before the store numbers it; it never leaves its process."""

    at: datetime
    origin: Origin
    data: Fact

    def numbered(self, order_id: str, seq: int) -> Entry:
        origin = self.origin
        return unchecked(
            Entry,
            order_id=order_id,
            seq=seq,
            at=self.at,
            record_id=origin.record_id,
            parent_id=origin.parent_id,
            agent=origin.agent,
            depth=origin.depth,
            data=self.data,
        )
