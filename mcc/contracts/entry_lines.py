"""Journal entries in short: what lists, pictures and time lines of a whole order are made of, without its texts.

A line is a pure function of its entry, which never changes, so whoever needs lines may store them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, assert_never

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Entry
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
    AnyFact,
    BudgetWarned,
    ControlApplied,
    DocumentChanged,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
    WorkspaceCheckpointed,
    WorkspaceHeld,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage

TITLE_CHARACTERS = 200
WHY_CHARACTERS = 500
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class EntryLine(NamedTuple):
    """One entry. `at` in microseconds since 1970 (UTC); `parent`: of its record; `call`: the tool call it belongs to.

    `name`: of the tool, model, agent, control, step, … it tells of. `ms`: how long the call took that it ends. `tokens`
    and `cost`: what it adds to the usage; `tokens` are the figures of `TOKENS` in this order, None for none. `bytes`:
    its length as JSON. `state`: what else the kind has, by place (`line_of`).
    """

    seq: int
    at: int
    kind: str
    record: str | None = None
    parent: str | None = None
    call: str | None = None
    name: str = ""
    ms: float | None = None
    tokens: Sequence[int] | None = None
    cost: float | None = None
    bytes: int = 0
    state: Sequence[Any] = ()


TOKENS = tuple(name for name in Usage.model_fields if name != "cost_usd")


class _Parts(NamedTuple):
    """What a line has beside what every entry has."""

    call: str | None = None
    name: str = ""
    ms: float | None = None
    state: Sequence[Any] = ()


def line_of(entry: Entry) -> EntryLine:
    """The entry in short."""
    parts = _parts(entry, entry.fact)
    used = entry.data.added_usage
    return EntryLine(
        seq=entry.seq,
        at=round((entry.at - _EPOCH).total_seconds() * 1_000_000),
        kind=entry.kind,
        record=entry.record_id,
        parent=entry.parent_id,
        call=parts.call,
        name=parts.name,
        ms=parts.ms,
        tokens=None if used is None else [getattr(used, name) for name in TOKENS],
        cost=None if used is None else used.cost_usd,
        bytes=len(to_json(entry.data.stored)),
        state=parts.state,
    )


def _parts(entry: Entry, fact: AnyFact) -> _Parts:
    match fact:
        case ModelStarted():
            return _Parts(name=fact.model, state=(fact.round, fact.attempt))
        case ModelReplied():
            said = bool(fact.text), bool(fact.thinking), len(fact.tool_calls)
            asked = fact.round, fact.attempt, fact.finish_reason, fact.first_token_ms
            return _Parts(name=fact.model, ms=fact.seconds * 1_000, state=(*asked, *said))
        case ToolStarted():
            return _Parts(fact.call_id, fact.name, state=(fact.round,))
        case ToolFinished():
            ended = fact.outcome.value, fact.is_error, fact.exit_code
            return _Parts(fact.call_id, fact.name, fact.seconds * 1_000, (*ended, fact.background, fact.delivered))
        case AgentStarted():
            models = (fact.model.effective, fact.model.requested) if fact.model else ("", "")
            return _Parts(fact.call_id, entry.agent or "", state=(fact.title[:TITLE_CHARACTERS], entry.depth, *models))
        case AgentFinished():
            why = (fact.error or "")[:WHY_CHARACTERS]
            return _Parts(state=(fact.status.value, fact.cause, fact.limit, why))
        case GateChecked():
            why = "\n".join(fact.errors)[:WHY_CHARACTERS]
            return _Parts(name=fact.tool, state=(fact.ok, fact.check_only, why))
        case VerifyChecked():
            why = (fact.error or "\n".join(fact.points))[:WHY_CHARACTERS]
            return _Parts(name=fact.verifier, state=(bool(fact.passed), False, why))
        case ModelRetried():
            return _Parts(name=fact.model, ms=fact.wait_seconds * 1_000, state=(fact.round, fact.attempt))
        case ModelFellBack():
            return _Parts(name=fact.target, state=(fact.round,))
        case ControlApplied():
            return _Parts(name=fact.control, state=(fact.mode, fact.message is not None, fact.control_id))
        case ApprovalRequested():
            return _Parts(fact.call_id, fact.tool, state=(fact.approval_id,))
        case ApprovalDecided():
            return _Parts(fact.call_id, fact.decision, state=(fact.approval_id,))
        case QuestionAsked() | QuestionAnswered():
            return _Parts(fact.call_id, state=(fact.question_id,))
        case AgentStep():
            return _Parts(name=fact.name)
        case TranscriptCompacted():
            return _Parts(name=fact.stage, state=(fact.tokens_before, fact.tokens_after))
        case BudgetWarned():
            return _Parts(name=fact.limit)
        case AgentDelivered():
            return _Parts(fact.child_id, fact.status.value)
        case WorktreeMade() | WorktreeEnded() | AgentReused() | DocumentChanged():
            return _Parts()
        case WorkspaceCheckpointed() | WorkspaceCommitted():
            return _Parts(fact.call_id)
        case DeliveryStarted():
            return _Parts(name=fact.step)
        case DeliveryFinished():
            return _Parts(name=fact.step, state=(fact.ok,))
        case WorkspaceHeld():
            return _Parts(ms=fact.waited_seconds * 1_000)
        case _:
            return _parts_of_order(fact)


def _parts_of_order(
    fact: OrderQueued | OrderClaimed | OrderRequeued | OrderHandedBack | OrderWaiting | OrderResumed | OrderFinished,
) -> _Parts:
    match fact:
        case OrderQueued():
            return _Parts(name=fact.agent)
        case OrderClaimed():
            return _Parts(name=fact.drone, state=(fact.attempt,))
        case OrderRequeued():
            return _Parts(name=fact.lost)
        case OrderHandedBack():
            return _Parts(name=fact.drone)
        case OrderWaiting():
            return _Parts(name=fact.reason.value)
        case OrderResumed():
            return _Parts()
        case OrderFinished():
            return _Parts(name=fact.status.value, state=(fact.reason.value if fact.reason else None,))
        case _:
            assert_never(fact)
