"""The chat record: one agent's run with its steps, and the runs of its children below it."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.agents import DefinitionOrigin
from mcc.contracts.blocks import Block, ImageBlock, ToolCall
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import Prefix
from mcc.contracts.order import ModelSettings
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text
from mcc.contracts.usage import Usage


class RecordStatus(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    BLOCKED = "blocked"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LIMIT_REACHED = "limit_reached"


AgentEnd: TypeAlias = Literal[
    RecordStatus.COMPLETED,
    RecordStatus.BLOCKED,
    RecordStatus.FAILED,
    RecordStatus.CANCELLED,
    RecordStatus.LIMIT_REACHED,
]


class ModelChoice(Closed):
    """The requested model and the one in use; they differ after an alias, an inheritance or a fallback."""

    requested: str
    effective: str


class ModelStep(Closed):
    """A model's reply. `blocks` holds all of it in order; `text`, `thinking` and `tool_calls` repeat it by kind.

    `model` answered, on try `attempt` of this round; `started_at` is when that request was sent. `context_tokens` is
    the model's context window (None: unknown), of which `usage.input_tokens` are filled. `request_id` is the
    provider's id of the request. `prefix`: how much of the request repeats the one before it.
    """

    seq: int
    kind: Literal["model"] = "model"
    text: Text
    thinking: Text
    tool_calls: tuple[ToolCall, ...]
    blocks: tuple[Block, ...] = ()
    finish_reason: str
    usage: Usage
    first_token_ms: float | None
    seconds: float
    started_at: Moment | None = None
    round: int = 0
    attempt: int = Field(default=0, alias="try", serialization_alias="try")
    model: str = ""
    request_id: str = ""
    context_tokens: int | None = None
    prefix: Prefix | None = None


class ToolStep(Closed):
    """A tool call with its result. `seq` is the number of the entry that finished it; `content` is what the model read.

    `artifact` names the stored full text when `content` is only its beginning and end. `untrusted`: strangers may have
    written the text, so `content` has it within a fence. `images` were shown with it to models that accept pictures.
    `exit_code` is that of a command that ended by itself; `job` names work that went on in the background.
    `background`: records of subagents that it left running; `delivered`: of those whose reports it brought.
    """

    seq: int
    kind: Literal["tool"] = "tool"
    call_id: str
    name: Text
    arguments: JsonObject | Text
    content: Text
    is_error: bool
    outcome: str = "ok"
    artifact: str | None = None
    untrusted: bool = False
    images: tuple[ImageBlock, ...] = ()
    exit_code: int | None = None
    job: str | None = None
    seconds: float
    subagent_ids: tuple[str, ...] = ()
    background: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    started_at: Moment | None = None


class GateStep(Closed):
    """A gate check that the tool `tool` triggered. `attempt` counts only checks that could end the run.

    `check_only`: a trial that could not end the run. `warnings` say what the gate changed in what was handed in.
    """

    seq: int
    kind: Literal["gate"] = "gate"
    tool: str = "submit_result"
    attempt: int = 1
    ok: bool
    check_only: bool = False
    errors: tuple[Text, ...]
    warnings: tuple[Text, ...] = ()


class VerifyStep(Closed):
    """The verdict of the agent `verifier` on what the agent handed in; `usage` is counted in the verifier's record.

    `passed` None: there is no verdict, because of `error`. `revision`: how often the work had been sent back before.
    """

    seq: int
    kind: Literal["verify"] = "verify"
    verifier: str
    verifier_id: str | None = None
    revision: int
    passed: bool | None
    points: tuple[Text, ...] = ()
    error: Text | None = None
    sent_back: bool = False
    model: str = ""
    usage: Usage = Usage()


class SteerStep(Closed):
    """A control that was applied; `by`: "parent" for a message of the agent above, else the principal who asked for it,
    by which `door`; null where nobody did, or an older journal does not say."""

    seq: int
    kind: Literal["steer"] = "steer"
    control: str
    mode: str | None = None
    message: Text | None = None
    reason: Text | None = None
    tools_removed: tuple[str, ...] = ()
    metadata: JsonObject | None = None
    by: Text | None = None
    door: str | None = None


class NoteStep(Closed):
    """Something that the runtime did or found: tools provisioned, a retry, a fallback, a warning.

    `wait_seconds`: how long the runtime waited before it retried a model call. `characters`: how much a parent reads of
    a report that was delivered to it.
    """

    seq: int
    kind: Literal["note"] = "note"
    name: str
    message: Text
    at: Moment | None = None
    wait_seconds: float | None = None
    characters: int = 0


Step: TypeAlias = Annotated[
    ModelStep | ToolStep | GateStep | VerifyStep | SteerStep | NoteStep, Field(discriminator="kind")
]


class ChatRecord(Closed):
    """One agent's run. `usage` is its own; `usage_total` includes its children (and, at the root, earlier attempts).

    `tools_requested` lists the groups and tools that its file or caller named (None = the parent's), `tools` those it
    got. `continues` is the record whose conversation this one continues, `continues_order` its order, if that is an
    earlier turn of the session. `forked_from` is the record of another order
    that this one began as a copy of. `model` None: the agent calls no model, like the generator of a document. `node`
    is the path of the document node that it worked on. `metadata` is what people set on it; at the root, the order's.
    """

    id: str
    order_id: str
    session_id: str
    parent_id: str | None
    call_id: str | None
    continues: str | None = None
    continues_order: str | None = None
    forked_from: str | None = None
    agent: str
    title: Text
    depth: int
    prompt: Text
    status: RecordStatus
    node: Text | None = None
    model: ModelChoice | None
    model_settings: ModelSettings | None = None
    tools: tuple[str, ...]
    tools_requested: tuple[str, ...] | None = None
    limits: LimitChoice = LimitChoice()
    definition_digest: str
    definition_origin: DefinitionOrigin | None = None
    metadata: JsonObject = Field(default_factory=dict)
    steps: Annotated[tuple[Step, ...], Field(repr=False)]
    result: JsonAny
    answer: Text | None
    error: Text | None
    usage: Usage
    usage_total: Usage
    started_at: Moment
    finished_at: Moment | None
    subagent_history: Annotated[tuple["ChatRecord", ...], Field(repr=False)]
