"""Rows of the inbox, written in the transaction of the journal entries that they mirror."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import AnyItem, ItemByKind
from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Draft, Entry
from mcc.contracts.git_delivery import DeliveryFinished, DeliveryStarted
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade
from mcc.contracts.inbox_facts import (
    OUTLINE,
    ApprovalDecided,
    ApprovalRequested,
    QuestionAnswered,
    QuestionAsked,
)
from mcc.contracts.journal import (
    AgentFinished,
    AgentReused,
    AgentStarted,
    AgentStep,
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
from mcc.contracts.questions import OneAnswer
from mcc.contracts.record import RecordStatus
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import APPROVALS, GRANTS, STATE
from mcc.store.rows.actors import token_name, who
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.texts import parsed

STATUS_OF = {"approve": "approved", "deny": "denied", "expired": "expired"}

_ADD = sa.insert(APPROVALS)
ITEM = sa.select(APPROVALS, token_name(APPROVALS), STATE.c.session_id).join(
    STATE, STATE.c.order_id == APPROVALS.c.order_id
)
PENDING = APPROVALS.c.status == sa.literal_column("'pending'")
"""A literal, so that the partial indexes of pending items are used; with a parameter SQLite would also prepare the
statement again at each execution."""
_UNUSED = sa.and_(
    APPROVALS.c.status == sa.literal_column("'approved'"), APPROVALS.c.kind == sa.literal_column("'approval'")
)
_OPEN = sa.or_(PENDING, _UNUSED)
"""Items that still wait, and calls that were approved and have not begun."""

DECIDE = (
    sa.update(APPROVALS)
    .where(APPROVALS.c.id == sa.bindparam("wanted"), APPROVALS.c.order_id == sa.bindparam("of"), PENDING)
    .values(
        {
            name: sa.bindparam(f"new_{name}")
            for name in ("status", "decision", "principal", "door", "note_json", "remember")
        }
        | {name: sa.bindparam(f"new_{name}") for name in ("answer_json", "answers_json", "decided_at")}
    )
)
_UNDECIDED = {column.name: None for column in APPROVALS.columns} | {"token_json": None}
_USE = (
    sa.update(APPROVALS)
    .where(
        APPROVALS.c.id == sa.bindparam("wanted"),
        APPROVALS.c.order_id == sa.bindparam("of"),
        APPROVALS.c.status == "approved",
    )
    .values(status="used", used_seq=sa.bindparam("seq"))
)
_VOID = sa.update(APPROVALS).where(APPROVALS.c.order_id == sa.bindparam("of"), _OPEN).values(status="void")
_VOID_OF_RECORD = _VOID.where(APPROVALS.c.record_id == sa.bindparam("record"))
_END_GRANTS = sa.delete(GRANTS).where(GRANTS.c.scope == "order", GRANTS.c.scope_id == sa.bindparam("of"))


def update_inbox(connection: Connection, order_id: str, numbered: Sequence[tuple[int, Draft | Entry]]) -> None:
    """Update the inbox from these entries, given with their numbers. The caller holds the order's lock."""
    for seq, entry in numbered:
        fact = entry.fact
        match fact:
            case ModelStarted() | ModelReplied() | ToolFinished():
                pass
            case ToolStarted():
                if fact.approval_id is not None:
                    execute_later(connection, _USE, {"wanted": fact.approval_id, "of": order_id, "seq": seq})
            case ApprovalRequested():
                kind = "outline" if fact.tool == OUTLINE and not fact.call_id else "approval"
                execute_later(connection, _ADD, _item_row(order_id, seq, entry, kind, fact.approval_id))
            case QuestionAsked():
                execute_later(connection, _ADD, _item_row(order_id, seq, entry, "question", fact.question_id))
            case ApprovalDecided():
                execute_later(connection, DECIDE, decision_row(order_id, fact, micros(entry.at)))
            case QuestionAnswered():
                execute_later(connection, DECIDE, answer_row(order_id, fact, micros(entry.at)))
            case AgentFinished():
                if fact.status is not RecordStatus.COMPLETED:
                    execute_later(connection, _VOID_OF_RECORD, {"of": order_id, "record": entry.origin.record_id})
            case OrderFinished():
                execute_later(connection, _VOID, {"of": order_id})
                execute_later(connection, _END_GRANTS, {"of": order_id})
            case AgentStarted() | AgentStep() | AgentReused() | AgentDelivered() | ModelRetried() | ModelFellBack():
                pass
            case GateChecked() | VerifyChecked() | ControlApplied() | BudgetWarned() | TranscriptCompacted():
                pass
            case WorkspaceHeld() | DeliveryStarted() | DeliveryFinished():
                pass
            case DocumentChanged() | WorkspaceCheckpointed() | WorkspaceCommitted() | WorktreeMade() | WorktreeEnded():
                pass
            case OrderQueued() | OrderClaimed() | OrderRequeued() | OrderHandedBack() | OrderWaiting() | OrderResumed():
                pass
            case _:
                assert_never(fact)


def decision_row(order_id: str, decided: ApprovalDecided, at: int) -> dict[str, Any]:
    """Parameters of `DECIDE`."""
    return {
        "wanted": decided.approval_id,
        "of": order_id,
        "new_status": STATUS_OF[decided.decision],
        "new_decision": None if decided.decision == "expired" else decided.decision,
        "new_principal": decided.by,
        "new_door": decided.door,
        "new_note_json": text_json(decided.note),
        "new_remember": decided.remember,
        "new_answer_json": None,
        "new_answers_json": None,
        "new_decided_at": at,
    }


def answer_row(order_id: str, answered: QuestionAnswered, at: int) -> dict[str, Any]:
    """Parameters of `DECIDE`."""
    return {
        "wanted": answered.question_id,
        "of": order_id,
        "new_status": "expired" if answered.expired else "declined" if answered.declined else "answered",
        "new_decision": None,
        "new_principal": answered.by,
        "new_door": answered.door,
        "new_note_json": None,
        "new_remember": None,
        "new_answer_json": text_json(answered.answer),
        "new_answers_json": to_json(answered.answers).decode() if answered.answers else None,
        "new_decided_at": at,
    }


def _item_row(order_id: str, seq: int, entry: Draft | Entry, kind: str, item_id: str) -> dict[str, Any]:
    asked, origin = entry.data, entry.origin
    assert isinstance(asked, ApprovalRequested | QuestionAsked)
    # A question without a deadline ends where its order stops waiting for people.
    over = asked.expires_at or (asked.waits_until if isinstance(asked, QuestionAsked) else None)
    return {
        "id": item_id,
        "order_id": order_id,
        "kind": kind,
        "status": "pending",
        "call_id": asked.call_id or None,
        "record_id": origin.record_id,
        "parent_id": origin.parent_id,
        "agent": origin.agent,
        "depth": origin.depth,
        "asked_json": to_json(asked).decode(),
        "asked_seq": seq,
        "requested_at": micros(entry.at),
        "expires_at": micros(over) if over else None,
    }


def item_when_asked(session_id: str, entry: Entry) -> AnyItem | None:
    """The item that this entry put into the inbox, as it was then; None for an entry of another kind."""
    match entry.data:
        case ApprovalRequested() as asked:
            kind, item_id = "outline" if asked.tool == OUTLINE and not asked.call_id else "approval", asked.approval_id
        case QuestionAsked() as question:
            kind, item_id = "question", question.question_id
        case _:
            return None
    return item_of(
        {**_UNDECIDED, **_item_row(entry.order_id, entry.seq, entry, kind, item_id), "session_id": session_id}
    )


def item_of(row: Mapping[str, Any] | sa.RowMapping) -> AnyItem:
    """The item of a row of `APPROVALS` that was joined with its order's `session_id`."""
    asked = parsed(row["asked_json"])
    known: dict[str, Any] = {
        "id": row["id"],
        "kind": row["kind"],
        "order_id": row["order_id"],
        "record_id": row["record_id"],
        "agent": row["agent"],
        "depth": row["depth"],
        "status": row["status"],
        "by": row["principal"],
        **who(row),
        "requested_at": moment(row["requested_at"]),
        "expires_at": moment_or_none(row["expires_at"]),
        "decided_at": moment_or_none(row["decided_at"]),
    }
    if row["kind"] == "question":
        question = QuestionAsked.model_validate(asked)
        fields = {name: getattr(question, name) for name in ("call_id", "question", "choices", "default", "expires_at")}
        fields |= {"questions": question.all_questions, "answers": _answers(row, question)}
        return ItemByKind.model_validate({**known, **fields, "answer": text_of(row["answer_json"])}).root
    known |= {"decision": row["decision"], "note": text_of(row["note_json"]), "digest": asked["digest"]}
    if row["kind"] == "outline":
        # The document of an outline is the session of its order.
        return ItemByKind.model_validate({**known, "document_id": row["session_id"]}).root
    fields = {name: asked[name] for name in _OF_CALL}
    return ItemByKind.model_validate({**known, **fields, "remember": row["remember"], "used_seq": row["used_seq"]}).root


def _answers(row: Mapping[str, Any] | sa.RowMapping, asked: QuestionAsked) -> tuple[OneAnswer, ...]:
    """How its questions ended; () while they wait, and when their order ended first."""
    if row["answers_json"]:
        return tuple(map(OneAnswer.model_validate, parsed(row["answers_json"])))
    if row["status"] not in ("answered", "expired"):
        return ()
    said = QuestionAnswered(
        question_id=asked.question_id,
        call_id=asked.call_id,
        answer=text_of(row["answer_json"]),
        by=row["principal"],
        expired=row["status"] == "expired",
    )
    return said.answers_to(asked)


_OF_CALL = (
    "call_id",
    "tool",
    "arguments",
    "effects",
    "profile",
    "workspace",
    "preview",
    "why",
    "again",
    "would_save",
)
