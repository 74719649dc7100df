"""The work order: `NewOrder` as callers submit it, `WorkOrder` as the service returns it; forks, outcomes."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from mcc.contracts.attachments import Attachments
from mcc.contracts.changes import Changes
from mcc.contracts.control import ControlKind, Metadata
from mcc.contracts.generation import BlueprintRef, Generation, generation_limits
from mcc.contracts.git_delivery import Deliver, GitDelivery
from mcc.contracts.limits import Limits, SomeLimits
from mcc.contracts.permission import Mode, OnAsk, Permission
from mcc.contracts.questions import SessionWords
from mcc.contracts.shape import Closed, Identifier, JsonAny, JsonObject, Moment, Name, Text, without
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage
from mcc.contracts.waits import WaitsFor
from mcc.contracts.webhook_urls import ShownWebhookUrl, WebhookUrl

PROMPT_CHARACTERS = 200_000

LABEL = r"^[^\x00\n]{1,100}$"
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,199}$"
GIT_REF = r"^[A-Za-z0-9][\w./-]{0,199}$"

ModelName = Annotated[str, StringConstraints(pattern=MODEL_NAME)]

Thinking = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max", "inherit"]
"""How much a model thinks before it answers. `inherit`: the setting of the level above, and at last the model's own
default."""

Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]
OutputTokens = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
"""Highest number of tokens in one reply, thinking included."""

ServiceTier = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""The provider's own name for how it prioritizes and prices a request."""


class ModelSettings(Closed):
    """Settings of a model request. A value of None or `inherit` comes from the level above: the agent's parent, then
    the model's own table in the configuration, then the provider's default.
    """

    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    max_output_tokens: OutputTokens | None = None
    service_tier: ServiceTier | None = None

    @classmethod
    def of(cls, source: object) -> "ModelSettings":
        """The settings of an order or an agent definition, which have fields of the same names."""
        return cls(**{name: value for name in cls.model_fields if (value := getattr(source, name, None)) is not None})

    @property
    def given(self) -> Mapping[str, object]:
        """The settings that have a value here, by name."""
        return {name: value for name, value in self if value not in (None, "inherit")}

    def over(self, above: "ModelSettings", without: Collection[str] = ()) -> "ModelSettings":
        """These settings, with gaps filled from `above` except for the names in `without`."""
        inherited = {name: value for name, value in above.given.items() if name not in without}
        return self.model_copy(update={**inherited, **self.given})


def _no_nul(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain a NUL character")
    return value


Path = Annotated[str, StringConstraints(min_length=1, max_length=4096), AfterValidator(_no_nul)]
Label = Annotated[str, StringConstraints(pattern=LABEL)]
Prompt = Annotated[str, StringConstraints(min_length=1, max_length=PROMPT_CHARACTERS)]


def _not_blank(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise PydanticCustomError("blank", "Input is blank: say what the master shall hear next, or leave it out")
    return value


class OrderKind(StrEnum):
    CHAT = "chat"
    GENERATE = "generate"
    REVERT = "revert"
    DELIVER = "deliver"
    COMPACT = "compact"


class WhenBusy(StrEnum):
    """What happens to a new order when its session already has an unfinished one."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"


class Rule(Closed):
    """One CEL expression that must be true of the answer, and the message when it is not."""

    cel: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    message: Annotated[str, StringConstraints(max_length=2_000)] = ""


def _rubric_not_blank(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "Input is blank: say what a good result is")
    return value


class Verification(Closed):
    """Who judges a result before it is accepted: a model by `rubric`, or the agent named `agent`.

    `max_revisions`: how often a result that does not pass is sent back; 0 = it is only judged.
    """

    rubric: Annotated[str, StringConstraints(max_length=20_000), AfterValidator(_rubric_not_blank)] | None = None
    agent: Name | None = None
    max_revisions: Annotated[int, Field(ge=0, le=2, strict=True)] = 1

    @model_validator(mode="after")
    def _one_of_both(self) -> "Verification":
        if (self.rubric is None) == (self.agent is None):
            raise PydanticCustomError("one_of_both", "Input should have either a rubric or an agent")
        return self


def _no_lone_pause(value: tuple[ControlKind, ...]) -> tuple[ControlKind, ...]:
    if ControlKind.PAUSE in value and ControlKind.RESUME not in value:
        raise PydanticCustomError("pause_for_good", "Input has pause without resume: what is paused would never go on")
    return tuple(dict.fromkeys(value))


HOST_ENTRY = r"^(\*|(\*\.)?[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$"
HostEntry = Annotated[str, StringConstraints(pattern=HOST_ENTRY)]
"""Hosts that may be reached: `name:port`, `name` for ports 443 and 80, `*.name` for all its subdomains, `*` for all."""

Hosts = Annotated[tuple[HostEntry, ...], Field(max_length=200)]


class NewOrder(Closed):
    """A request for one chat turn or one headless generation.

    `thinking` to `service_tier` are the model settings of `agent`, whatever its file says, and of those of its
    subagents whose files set none.

    `kind` generate: give exactly one of `blueprint` and `document_id`; `prompt` is a brief that all its agents read,
    "" for none. A chat turn with `document_id` works on that document.
    `attachments`: ids of uploaded files, which its agent is shown below the prompt.
    `permission` and `mode` say which tools its agents may call, in addition to the operator's rules and the agent
    files. `on_ask`: what happens to a call that needs a person's approval; None = as the operator's configuration says,
    and if that says nothing, as it depends on whether the caller can be asked.
    `write`: it is alone in writing in its workspace from its beginning on. Otherwise that begins with the first call
    that may write there. In mode plan nothing is written.
    `deliver`: how its work on a git address goes back there, once its result is accepted; None = it stays where it is.
    `egress`: which of the hosts that the operator lets tools reach are open to this order's agents; None = all of them.

    `webhook_url` is told when it waits or ends. `metadata` is for programs: the order's tools see it, its models do
    not. `controls`: those accepted while the order is unfinished, besides the cancel of the whole order; None = all.
    """

    kind: OrderKind = OrderKind.CHAT
    prompt: Annotated[str, StringConstraints(max_length=PROMPT_CHARACTERS), Field(validate_default=True)] = ""
    attachments: Attachments = ()
    session_id: Identifier | None = None
    agent: Name = "master"
    model: ModelName | None = None
    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    max_output_tokens: OutputTokens | None = None
    service_tier: ServiceTier | None = None
    workspace: Path | None = None
    write: bool = False
    ref: Annotated[str, StringConstraints(pattern=GIT_REF)] | None = None
    deliver: Deliver | None = None
    document_id: Annotated[Identifier | None, Field(validate_default=True)] = None
    blueprint: Annotated[BlueprintRef | None, Field(validate_default=True)] = None
    generation: Generation | None = None
    limits: Limits | None = None
    priority: Annotated[int, Field(ge=0, le=9, strict=True)] = 5
    queue: Name = "default"
    when_busy: WhenBusy = WhenBusy.ENQUEUE
    not_before: Moment | None = None
    expires_at: Moment | None = None
    labels: Annotated[tuple[Label, ...], Field(max_length=20)] = ()
    result_schema: JsonObject | None = None
    rules: Annotated[tuple[Rule, ...], Field(max_length=50)] = ()
    verify: Verification | None = None
    mode: Mode = "develop"
    permission: Permission = Field(default_factory=dict)
    on_ask: OnAsk | None = None
    egress: Hosts | None = None
    webhook_url: WebhookUrl | None = None
    metadata: Metadata = Field(default_factory=dict)
    controls: Annotated[tuple[ControlKind, ...], Field(max_length=20), AfterValidator(_no_lone_pause)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_generation_limits(cls, given: Any) -> Any:
        """Fill in a generate order's default limits here, so that no reader needs to know the order's kind."""
        if not isinstance(given, Mapping) or given.get("kind") != OrderKind.GENERATE:
            return given
        return {**given, "limits": generation_limits(given.get("limits"), given.get("generation"))}

    @field_validator("prompt")
    @classmethod
    def _chat_needs_prompt(cls, prompt: str, info: ValidationInfo) -> str:
        if not prompt and info.data.get("kind") is OrderKind.CHAT:
            raise PydanticCustomError("missing", "Field required")
        return prompt

    @field_validator("document_id")
    @classmethod
    def _session_is_the_document(cls, document_id: str | None, info: ValidationInfo) -> str | None:
        session_id = info.data.get("session_id")
        if info.data.get("kind") is OrderKind.GENERATE and session_id not in (None, document_id):
            raise PydanticCustomError(
                "own_session", "The session of a generate order is its document; leave session_id out"
            )
        return document_id

    @field_validator("blueprint")
    @classmethod
    def _blueprint_or_document(cls, blueprint: str | None, info: ValidationInfo) -> str | None:
        kind, document_id = info.data.get("kind"), info.data.get("document_id")
        if kind is OrderKind.CHAT and blueprint is not None:
            raise PydanticCustomError("not_of_kind", "A blueprint belongs to an order of kind generate; leave it out")
        if kind is OrderKind.GENERATE and "document_id" in info.data and (blueprint is None) == (document_id is None):
            raise PydanticCustomError(
                "one_of_both", "Name exactly one of blueprint (for a new document) and document_id (for one that is)"
            )
        return blueprint

    @field_validator("generation")
    @classmethod
    def _generation_needs_generate(cls, generation: Generation | None, info: ValidationInfo) -> Generation | None:
        if info.data.get("kind") is OrderKind.CHAT and generation is not None:
            raise PydanticCustomError("not_of_kind", "This belongs to an order of kind generate; leave it out")
        return generation


MAX_BATCH_ORDERS = 1_000
"""Most orders that are placed together, in one transaction."""

IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
"""Visible ASCII characters without spaces."""


class OrderOfBatch(NewOrder):
    """One of several orders placed together. `idempotency_key` works like the header of that name on a single order."""

    idempotency_key: IdempotencyKey | None = None

    @property
    def order(self) -> NewOrder:
        """The order without its key."""
        # With what its caller gave: the defaults of a session take the place of the rest.
        return without(self, NewOrder, "idempotency_key")


class NewOrders(Closed):
    """Orders that are placed in this sequence, all or none."""

    orders: Annotated[tuple[OrderOfBatch, ...], Field(min_length=1, max_length=MAX_BATCH_ORDERS)]


class NewFork(Closed):
    """Where a fork begins: after entry `after` of its source. `prompt` is the next message to its master.

    `prompt` may be left out, but not blank.
    """

    after: Annotated[int, Field(ge=1, le=10**15, strict=True)]
    prompt: Annotated[Prompt, BeforeValidator(_not_blank)] | None = None


class EarlierTurn(Closed):
    """An ended turn, as later turns of its session see it; `session_seq` numbers the turns from 1.

    `prompt` is the master's prompt together with what people told it later.
    """

    order_id: Identifier
    session_seq: int
    prompt: Text
    status: OrderStatus
    answer: Text | None = None

    @property
    def characters(self) -> int:
        return len(self.prompt) + len(self.answer or "")


class OrderOrigin(Closed):
    """The order that this one was made from. `note` is for people.

    `after`: for a fork, the last entry copied from that order; for a revert, the entry whose workspace state comes
    back, None = the state before the first write. `overwrite`: the revert also undoes what somebody else changed since.
    """

    kind: Literal["retry", "fork", "revert", "deliver"]
    order_id: Identifier
    after: int | None = None
    note: Text | None = None
    overwrite: bool = False


class WorkOrder(NewOrder):
    """An order in the service. `usage` and `last_seq` are as of the time of the response.

    `usage` is the order's own, without the entries that a fork copied. `left_out`: later turns do not see this one.
    `metadata` is its current value, and `on_ask` that in force, even if the caller gave none.

    A generate order always has a `document_id`; one placed with a `blueprint` has that of the document made for it,
    which is also its `session_id`.

    `waits_for`: what keeps it from going on now, None = nothing, or it has ended; `detail` is then its message.
    `delivery`: what has become of its `deliver`, None = it has not begun; while it goes on or waits, as far as it is.

    `accepted`: whether the gate and the verifier accepted the result. False: the result is the best of those that were
    refused, and `answer` says so. None: there was no gate or verifier, or none of them judged the result.

    `words`: what people said to its session between the turn before and this one; its agent is shown them above the
    prompt. `compacts`: of kind compact, the session whose context it shortens; its own is shown in no list.

    `principal`, `door`, `token`: who placed it, which way it came, and the name of the token that it came by (none, or
    the operator's own: null). `requested_limits`: those that the caller gave, where the budget of a day changed them;
    else null. `webhook_url` is shown without the values of its query."""

    id: Identifier
    session_id: Identifier
    session_seq: int
    session_title: Text = ""
    status: OrderStatus
    reason: WaitingReason | FailureReason | None = None
    detail: Text | None = None
    answer: Text | None = None
    result: JsonAny = None
    accepted: bool | None = None
    usage: Usage = Usage()
    attempt: int = 0
    drone: str | None = None
    created_at: Moment
    started_at: Moment | None = None
    finished_at: Moment | None = None
    last_seq: int = 0
    waits_for: WaitsFor | None = None
    queue_position: int | None = None
    blocked_by: Identifier | None = None
    origin: OrderOrigin | None = None
    left_out: bool = False
    changes: Changes | None = None
    delivery: GitDelivery | None = None
    words: tuple[SessionWords, ...] = ()
    compacts: Identifier | None = None
    principal: str | None = None
    door: str | None = None
    token: Text | None = None
    requested_limits: SomeLimits = None
    webhook_url: ShownWebhookUrl | None = None

    # Lifts the check of `NewOrder`: here a generate order has both its blueprint and its document.
    @field_validator("blueprint")
    @classmethod
    def _blueprint_or_document(cls, blueprint: str | None, info: ValidationInfo) -> str | None:
        return blueprint


class OrderOutcome(Closed):
    """How a turn ended: the final status with its reason, and the result.

    `accepted`: whether gate and verifier accepted the result; None = neither of them judged it. `changes`: what the
    turn did to its workspace, None = nothing. `delivery`: what became of its `deliver`.
    """

    status: Literal[OrderStatus.SUCCEEDED, OrderStatus.FAILED, OrderStatus.CANCELLED]
    reason: FailureReason | None = None
    detail: Text | None = None
    answer: Text | None = None
    result: JsonAny = None
    accepted: bool | None = None
    usage: Usage = Usage()
    changes: Changes | None = None
    delivery: GitDelivery | None = None
