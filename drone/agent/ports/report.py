"""The report of an agent's run, the errors that stop a run, and what either means for its order."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from drone.agent.ports.journal import JournalError
from mcc.contracts.git_facts import WorktreeEnded
from mcc.contracts.journal import VerifyChecked
from mcc.contracts.limits import TOKENS
from mcc.contracts.order import OrderOutcome
from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.shape import repeated_key
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.rules.report import cut


class Cause(StrEnum):
    """Why a run stopped before its agent was done."""

    MODEL = "model"
    LIMIT = "limit"
    GATE = "gate"
    NO_PROGRESS = "no_progress"
    CANCELLED = "cancelled"
    BROKE = "broke"
    REFUSED = "refused"
    NOT_DONE = "not_done"
    VERIFIER = "verifier"


@dataclass(frozen=True, slots=True)
class Report:
    """How a run ended. `text`: the final answer, or the last text of a run that was stopped; `error`: why it was.

    `result`: what the gate accepted: JSON, or for a program an object of the pydantic class that it asked for; None for
    an agent without a gate. `cause`: None when the agent ended by
    itself, even if it reports that it is blocked or has failed; `limit`: the name of the limit reached. `checked`: its
    verifier's verdict, None without a verifier; `revisions`: how often that sent the work back. `worktree`: what became
    of the worktree it worked in, None without one. `remark`: why its answer may be none. `usage`: that of the run's own
    model and tool calls, without its children's. `rounds`: number of its replies.
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
    revisions: int = 0
    worktree: WorktreeEnded | None = None
    remark: str = ""

    @property
    def completed(self) -> bool:
        return self.status is RecordStatus.COMPLETED


BUDGET_LIMITS = frozenset({"cost_usd", "total_tokens", *TOKENS})
"""Limits whose exhaustion fails an order as `budget_exhausted`; all others as `limit_reached`."""


def failure_reason(cause: Cause, limit: str | None) -> FailureReason | None:
    """Why an order failed whose root agent stopped for this cause; None: it was cancelled."""
    match cause:
        case Cause.CANCELLED:
            return None
        case Cause.LIMIT if limit in BUDGET_LIMITS:
            return FailureReason.BUDGET_EXHAUSTED
        case Cause.LIMIT | Cause.NO_PROGRESS:
            return FailureReason.LIMIT_REACHED
        case Cause.GATE | Cause.VERIFIER:
            return FailureReason.GATE_FAILED
        case Cause.MODEL:
            return FailureReason.MODEL_ERROR
        case Cause.REFUSED:
            return FailureReason.REFUSED
        case Cause.NOT_DONE:
            return FailureReason.NOT_DONE
        case Cause.BROKE:
            return FailureReason.INTERNAL
        case _:
            assert_never(cause)


class Stopped(Exception):
    """A run ends without a result; the message is a sentence without its full stop.

    Stopped
    ├── LimitReached    a limit of the turn or the agent is used up
    │   └── PriceUnknown    or a call could not be counted towards it
    ├── GateFailed      the attempts to submit an acceptable result are used up
    ├── NoProgress      the agent repeats itself
    ├── ModelRefused    the model, or its provider's filter, refused to answer
    ├── NotDone         the model says that it cannot do what was asked
    ├── NoAnswer        the model ends its replies without an answer
    └── RunEnded        a person cancelled this agent
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


class PriceUnknown(LimitReached):
    """No call of this price may be made under the limit `cost_usd`; `sentence`, without its full stop, names the price
    to set."""

    def __init__(self, sentence: str, allowed: float) -> None:
        super().__init__("cost_usd", allowed)
        self.args = (sentence,)


class GateFailed(Stopped):
    cause = Cause.GATE


class NoProgress(Stopped):
    status = RecordStatus.BLOCKED
    cause = Cause.NO_PROGRESS


class ModelRefused(Stopped):
    cause = Cause.REFUSED


class NotDone(Stopped):
    cause = Cause.NOT_DONE


class NoAnswer(Stopped):
    cause = Cause.MODEL


class RunEnded(Stopped):
    status = RecordStatus.CANCELLED
    cause = Cause.CANCELLED


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a run must not continue: the type of the error that its loop raises, and the message."""

    kind: type[Stopped]
    said: str


@dataclass(slots=True)
class JudgedRun:
    """A verifier's verdicts on one run. `checked`: the verdict on its result, unless something came after it.

    `revisions`: how often the work was sent back; `sent_back`: the answer that was sent back last.
    """

    checked: VerifyChecked | None = None
    revisions: int = 0
    sent_back: str = ""

    def apply(self, checked: VerifyChecked, text: str) -> None:
        self.checked = checked
        if checked.message:
            self.revisions, self.sent_back = self.revisions + 1, text


NO_THREAD = "can't start new thread"
"""Python's message when the system cannot create another thread."""

SAID = 500
"""Most characters of an error's message that are passed on."""


class ProcessExhausted(Exception):
    """This process is out of memory or threads. That is no order's fault, so no order may end because of it."""


def describe_or_raise(error: BaseException) -> str:
    """Describe an unexpected error; re-raises it when it concerns the run itself: its cancellation or its journal.

    Raises `ProcessExhausted` when it concerns the process. `SystemExit` is described like other errors: raised in one
    call, it must not end the process with all its orders.
    """
    if isinstance(error, asyncio.CancelledError):
        if _is_cancelled():
            raise error
        return "it was cancelled from within"
    if isinstance(error, JournalError | ProcessExhausted) or not isinstance(error, Exception | SystemExit):
        raise error
    if is_exhausted(error):
        raise ProcessExhausted(_described(error)) from error
    return _described(error)


def describe_tool_error_or_raise(error: BaseException) -> str:
    """The same for an error of a tool, whose `MemoryError` may only mean that it requested too much."""
    return _described(error) if isinstance(error, MemoryError) else describe_or_raise(error)


def not_an_object(name: str, sent: str) -> str:
    """Tells the model why the text it sent is not accepted as a tool's arguments."""
    if (repeated := repeated_key(sent)) is not None:
        return f"The arguments of {name} are not accepted: {repeated}. Send each key once."
    return f"The arguments of {name} must be one JSON object; what was sent is not: {cut(sent, 200) or 'nothing'}"


def is_exhausted(error: BaseException) -> bool:
    """Whether this error means that the process is out of memory or threads."""
    no_thread = isinstance(error, RuntimeError) and NO_THREAD in str(error)
    return no_thread or isinstance(error, MemoryError | ProcessExhausted)


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:SAID]}"


def _is_cancelled() -> bool:
    """Whether this task itself was cancelled, rather than a task that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def outcome_of(report: Report) -> OrderOutcome:
    """The outcome of an order, from its root agent's report."""
    if report.cause is None:
        return _succeeded(report)
    reason = failure_reason(report.cause, report.limit)
    if reason is None:
        return OrderOutcome(status=OrderStatus.CANCELLED, detail=report.error, answer=report.text or None)
    failed = OrderOutcome(
        status=OrderStatus.FAILED, reason=reason, detail=f"{report.error}", answer=report.text or None
    )
    # The best submission: it was not accepted, but a person may still want to read it.
    if report.result is None and report.cause is not Cause.VERIFIER and not report.revisions:
        return failed
    return failed.model_copy(update={"result": report.result, "accepted": False})


def _succeeded(report: Report) -> OrderOutcome:
    """A result whose verifier gave no verdict still succeeds, as does an answer that may be none; `detail` says so."""
    checked = report.checked
    unverified = checked is not None and checked.passed is None
    unsure = f"Not verified: {checked.error}".rstrip(".") + "." if checked is not None and unverified else ""
    judged = report.result is not None or (checked is not None and checked.passed is True)
    return OrderOutcome(
        status=OrderStatus.SUCCEEDED,
        answer=report.text,
        result=report.result,
        accepted=True if judged else None,
        detail=" ".join(filter(None, (unsure, report.remark))) or None,
    )
