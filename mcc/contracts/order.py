"""The work order: what a caller asks for, and what the service says of it."""

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

from mcc.contracts.changes import Changes
from mcc.contracts.control import ControlKind, Metadata
from mcc.contracts.generation import BlueprintRef, Generation, limits_of
from mcc.contracts.limits import Limits
from mcc.contracts.permission import Mode, OnAsk, Permission
from mcc.contracts.shape import NAME as NAME
from mcc.contracts.shape import Closed, JsonAny, JsonObject, Moment, Text, unchecked
from mcc.contracts.shape import Identifier as Identifier
from mcc.contracts.shape import Name as Name
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.usage import Usage

PROMPT_CHARACTERS = 200_000

LABEL = r"^[^\x00\n]{1,100}$"
MODEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,199}$"
GIT_REF = r"^[A-Za-z0-9][\w./-]{0,199}$"

ModelName = Annotated[str, StringConstraints(pattern=MODEL_NAME)]

Thinking = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max", "inherit"]
"""How much a model thinks before it answers; `inherit`: as whoever stands above says, in the end as the model does by
itself."""

Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]
OutputTokens = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
"""Most tokens of one reply, thinking included."""

ServiceTier = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
"""How a provider ranks and prices a request, in its own word."""


class ModelSettings(Closed):
    """How a model is asked. What is None or `inherit` is as whoever stands above says: the parent of an agent, then the
    model's own table of the configuration, in the end its provider.
    """

    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    max_output_tokens: OutputTokens | None = None
    service_tier: ServiceTier | None = None

    @classmethod
    def of(cls, source: object) -> "ModelSettings":
        """Those of an order or a definition, which have them under the same names."""
        return cls(**{name: value for name in cls.model_fields if (value := getattr(source, name, None)) is not None})

    @property
    def given(self) -> Mapping[str, object]:
        """What is said here, by name."""
        return {name: value for name, value in self if value not in (None, "inherit")}

    def over(self, above: "ModelSettings", without: Collection[str] = ()) -> "ModelSettings":
        """What is said here and, where nothing is, what is said above, but for the names in `without`."""
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


class WhenBusy(StrEnum):
    """What happens when the session already has an unfinished order."""

    ENQUEUE = "enqueue"
    REJECT = "reject"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"
    STEER = "steer"


class Rule(Closed):
    """One CEL expression that must be true of the answer, and what to say when it is not."""

    cel: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    message: Annotated[str, StringConstraints(max_length=2_000)] = ""


def _said(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("blank", "Input is blank: say what a good result is")
    return value


class Verification(Closed):
    """Who judges what an agent brought before that counts: a model by a `rubric`, or the agent of this name.

    `max_revisions`: how often what does not pass is sent back; 0 = it is only judged.
    """

    rubric: Annotated[str, StringConstraints(max_length=20_000), AfterValidator(_said)] | None = None
    agent: Name | None = None
    max_revisions: Annotated[int, Field(ge=0, le=2, strict=True)] = 1

    @model_validator(mode="after")
    def _one_of_both(self) -> "Verification":
        if (self.rubric is None) == (self.agent is None):
            raise PydanticCustomError("one_of_both", "Input should have either a rubric or an agent")
        return self


def _can_go_on(value: tuple[ControlKind, ...]) -> tuple[ControlKind, ...]:
    if ControlKind.PAUSE in value and ControlKind.RESUME not in value:
        raise PydanticCustomError("pause_for_good", "Input has pause without resume: what is paused would never go on")
    return tuple(dict.fromkeys(value))


HOST_ENTRY = r"^(\*|(\*\.)?[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$"
HostEntry = Annotated[str, StringConstraints(pattern=HOST_ENTRY)]
"""Hosts that may be reached: `name:port`, `name` for ports 443 and 80, `*.name` for all below it, `*` for every one."""

Hosts = Annotated[tuple[HostEntry, ...], Field(max_length=200)]


class NewOrder(Closed):
    """One chat turn (or one headless generation) as its caller asks for it.

    `thinking` to `service_tier` are how the model of `agent` is asked, whatever its file says, and those of its
    subagents whose files say nothing.

    `kind` generate: exactly one of `blueprint` and `document_id`, and `prompt` is a brief that all its agents read; ""
    where there is none. A chat turn with `document_id` works on that document.

    `permission` and `mode` say what its agents may call, beside what the operator and their files say. `on_ask`: what
    becomes of a call that a person is to be asked for; None = as the operator says, else as whoever placed it can be
    asked.

    `egress`: of the hosts that the operator lets tools reach, those that it leaves to its agents; None = all of them.

    `metadata` is for programs: its tools see it, its models do not. `controls` are all that may be asked of it while it
    is under way, besides the cancel of the whole order; None = everything.
    """

    kind: OrderKind = OrderKind.CHAT
    prompt: Annotated[str, StringConstraints(max_length=PROMPT_CHARACTERS), Field(validate_default=True)] = ""
    session_id: Identifier | None = None
    agent: Name = "master"
    model: ModelName | None = None
    thinking: Thinking = "inherit"
    temperature: Temperature | None = None
    max_output_tokens: OutputTokens | None = None
    service_tier: ServiceTier | None = None
    workspace: Path | None = None
    ref: Annotated[str, StringConstraints(pattern=GIT_REF)] | None = None
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
    webhook_url: Annotated[str, StringConstraints(max_length=2_000)] | None = None
    metadata: Metadata = Field(default_factory=dict)
    controls: Annotated[tuple[ControlKind, ...], Field(max_length=20), AfterValidator(_can_go_on)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _limits_of_a_generation(cls, given: Any) -> Any:
        """Written down where they are asked for, so that nobody has to know of which kind an order is."""
        if not isinstance(given, Mapping) or given.get("kind") != OrderKind.GENERATE:
            return given
        return {**given, "limits": limits_of(given.get("limits"), given.get("generation"))}

    @field_validator("prompt")
    @classmethod
    def _needed_in_a_chat(cls, prompt: str, info: ValidationInfo) -> str:
        if not prompt and info.data.get("kind") is OrderKind.CHAT:
            raise PydanticCustomError("missing", "Field required")
        return prompt

    @field_validator("document_id")
    @classmethod
    def _is_its_session(cls, document_id: str | None, info: ValidationInfo) -> str | None:
        session_id = info.data.get("session_id")
        if info.data.get("kind") is OrderKind.GENERATE and session_id not in (None, document_id):
            raise PydanticCustomError(
                "own_session", "The session of a generate order is its document; leave session_id out"
            )
        return document_id

    @field_validator("blueprint")
    @classmethod
    def _of_what(cls, blueprint: str | None, info: ValidationInfo) -> str | None:
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
    def _of_a_document(cls, generation: Generation | None, info: ValidationInfo) -> Generation | None:
        if info.data.get("kind") is OrderKind.CHAT and generation is not None:
            raise PydanticCustomError("not_of_kind", "This belongs to an order of kind generate; leave it out")
        return generation


MOST_AT_ONCE = 1_000
"""Orders that are placed together, in one transaction."""

IdempotencyKey = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[\x21-\x7e]+$")]
"""Visible ASCII characters, without a blank."""


class OrderOfBatch(NewOrder):
    """One of several orders that are placed together. `idempotency_key` is what the header of that name is to one."""

    idempotency_key: IdempotencyKey | None = None

    @property
    def order(self) -> NewOrder:
        """Without its key."""
        return unchecked(NewOrder, **{name: value for name, value in self if name != "idempotency_key"})


class NewOrders(Closed):
    """Orders that are placed together, all or none, in this order."""

    orders: Annotated[tuple[OrderOfBatch, ...], Field(min_length=1, max_length=MOST_AT_ONCE)]


class NewFork(Closed):
    """Where a fork begins: with entries 1 to `after` of its source. `prompt` is what its master hears next.

    It may be left out, and so a blank one is refused.
    """

    after: Annotated[int, Field(ge=1, le=10**15, strict=True)]
    prompt: Annotated[Prompt, BeforeValidator(_not_blank)] | None = None


class EarlierTurn(Closed):
    """A turn that had ended, as later ones of its session are shown it; `session_seq` counts the turns from 1 on.

    `prompt` is what its master was asked, with what people told it later.
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

    `after`: the last entry that a fork took over, or whose state a revert brings back, None = that before the first
    write; `overwrite`: it takes back what somebody else changed since as well.
    """

    kind: Literal["retry", "fork", "revert"]
    order_id: Identifier
    after: int | None = None
    note: Text | None = None
    overwrite: bool = False


class WorkOrder(NewOrder):
    """An order that the service keeps. `usage` and `last_seq` are those of the journal at the time of the answer.

    `usage` is what it spent itself, without what a fork took over. `left_out`: not in the context of later turns.
    `metadata` is as people have set it by now.

    A generate order has `document_id` also where it named a `blueprint`: that of the document that was made for it,
    which is its `session_id` as well.

    `on_ask` is what counts for it, also where its caller left it out.

    `accepted`: whether those who had to judge it, gate and verifier, accepted what it brought. False: it is the best
    that was refused, and `answer` says the same in words. None: nobody had to judge it, or nobody did.
    """

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
    queue_position: int | None = None
    blocked_by: Identifier | None = None
    origin: OrderOrigin | None = None
    left_out: bool = False
    changes: Changes | None = None

    @field_validator("blueprint")
    @classmethod
    def _of_what(cls, blueprint: str | None, info: ValidationInfo) -> str | None:
        return blueprint


class Outcome(Closed):
    """How a turn ended: the final status with its reason, and what it brought.

    `accepted`: whether gate and verifier accepted what it brought; None = neither of them judged it. `changes`: what it
    did to its workspace, None = nothing.
    """

    status: Literal[OrderStatus.SUCCEEDED, OrderStatus.FAILED, OrderStatus.CANCELLED]
    reason: FailureReason | None = None
    detail: Text | None = None
    answer: Text | None = None
    result: JsonAny = None
    accepted: bool | None = None
    usage: Usage = Usage()
    changes: Changes | None = None


class Session(Closed):
    """A conversation: its orders are its turns, in the order in which they were accepted."""

    id: Identifier
    title: Text
    created_at: Moment
    turns: int
    last_order_id: Identifier | None = None


class NewSession(Closed):
    title: Annotated[str, StringConstraints(max_length=200)] = ""


class SessionWithTurns(Session):
    orders: tuple[WorkOrder, ...] = ()
