"""The report: how an agent's run ended and what it brought."""

from dataclasses import dataclass
from enum import StrEnum

from mcc.contracts.journal import VerifyChecked
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.usage import Usage


class Cause(StrEnum):
    """Why a run stopped before its agent was done."""

    MODEL = "model"
    LIMIT = "limit"
    GATE = "gate"
    NO_PROGRESS = "no_progress"
    CANCELLED = "cancelled"
    BROKE = "broke"
    REFUSED = "refused"
    VERIFIER = "verifier"


@dataclass(frozen=True, slots=True)
class Report:
    """`text` is the final answer, or what there was of it when the run stopped short; `error` says why it did.

    `result` is what the gate accepted (JSON), None for an agent without a gate. `cause` is None when the agent ended
    by itself, also when it reports that it is blocked or has failed; `limit` names the limit that was reached.
    `checked` is its verifier's verdict on that, None where nobody was to give one.
    `usage` is that of the run's own model and tool calls, without its children's; `rounds` counts its replies.
    """

    status: AgentEnd
    text: str
    record_id: str
    usage: Usage = Usage()
    error: str | None = None
    limit: str | None = None
    cause: Cause | None = None
    result: object = None
    agent: str = ""
    title: str = ""
    rounds: int = 0
    model: str = ""
    checked: VerifyChecked | None = None

    @property
    def completed(self) -> bool:
        return self.status is RecordStatus.COMPLETED


class Stopped(Exception):
    """A run ends short of its result; the message is a sentence without its full stop.

    Stopped
    ├── LimitReached    a limit of the turn or the agent is used up
    ├── GateFailed      the attempts at handing in an acceptable result are used up
    ├── NoProgress      the agent goes round in circles
    ├── Refused         the model, or its provider's filter, refused to answer
    ├── NoAnswer        the model ends its replies without an answer
    └── Ended           a person cancelled this agent
    """

    status: AgentEnd = RecordStatus.FAILED
    cause: Cause


class LimitReached(Stopped):
    """A limit of the turn or the agent is used up; `limit` is its name in `Limits`."""

    status = RecordStatus.LIMIT_REACHED
    cause = Cause.LIMIT

    def __init__(self, limit: str, allowed: float) -> None:
        super().__init__(f"the limit {limit} ({allowed:.10g}) is reached")
        self.limit = limit
        self.allowed = allowed


class GateFailed(Stopped):
    cause = Cause.GATE


class NoProgress(Stopped):
    status = RecordStatus.BLOCKED
    cause = Cause.NO_PROGRESS


class Refused(Stopped):
    cause = Cause.REFUSED


class NoAnswer(Stopped):
    cause = Cause.MODEL


class Ended(Stopped):
    status = RecordStatus.CANCELLED
    cause = Cause.CANCELLED


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a run may not go on: the kind of error that its loop raises, and the sentence."""

    kind: type[Stopped]
    said: str
