"""Facts of the inbox: approvals and questions that agents request, and the decisions and answers of people."""

from typing import ClassVar, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.fact import NotedFact
from mcc.contracts.permission import Effects, SavedRule, Why
from mcc.contracts.shape import Closed, JsonObject, Moment, Text

Decision = Literal["approve", "deny"]

Remember = Literal["order", "session", "workspace"]
"""How far an approval extends: to the order, its session, or everything done in its workspace."""

OUTLINE = "outline"
"""The `tool` of an approval for a document's structure."""


class ShownPreview(Closed):
    """What a call would do, exactly; different calls have different previews.

    `artifact` names the stored full text when `text` is only its beginning and end, and `sha256` is the digest (hex) of
    that full text in UTF-8. `hidden`: how many characters nobody sees or a terminal obeys, which who shows the text
    must make visible.
    """

    kind: Literal["diff", "text"]
    text: Text
    artifact: str | None = None
    sha256: str | None = None
    hidden: int = 0


class ApprovalRequested(NotedFact):
    """A call waits for a person's approval. For a document outline, `tool` is "outline" and there is no call.

    `digest` covers the tool and its definition, arguments, workspace key, profile and preview. `arguments` are for
    display: long values are cut. `again` says what differs from an earlier approval of the same call.
    """

    kind: ClassVar[str] = "approval.requested"
    approval_id: str
    call_id: str
    tool: Text
    arguments: JsonObject = Field(default_factory=dict)
    effects: Effects | None = None
    profile: Text | None = None
    workspace: Text | None = None
    digest: str
    preview: ShownPreview | None = None
    why: Why | None = None
    again: Text | None = None
    would_save: SavedRule | None = None
    expires_at: Moment | None = None

    @property
    def in_words(self) -> Text:
        again = f", again: {self.again}" if self.again else ""
        return f"may it use {self.tool}? (approval {self.approval_id}{again})"


class ApprovalDecided(NotedFact):
    """`decision` "expired": nobody decided in time, so the call does not run. `by` None: no user of the service."""

    kind: ClassVar[str] = "approval.decided"
    approval_id: str
    call_id: str
    decision: Literal["approve", "deny", "expired"]
    note: Text | None = None
    by: Text | None = None
    remember: Remember | None = None
    digest: str = ""
    profile: Text | None = None
    why: Why | None = None
    expires_at: Moment | None = None
    control_id: str | None = None

    @property
    def in_words(self) -> Text:
        decision = {"approve": "approved", "deny": "denied", "expired": "nobody decided in time"}[self.decision]
        by = f" by {self.by}" if self.by else ""
        return f"{decision}{by}{f': {self.note}' if self.note else ''} (approval {self.approval_id})"


class QuestionAsked(NotedFact):
    """`default` is the answer when nobody answers before `expires_at`; None: the call then ends as an error."""

    kind: ClassVar[str] = "question.asked"
    question_id: str
    call_id: str
    question: Text
    choices: tuple[Text, ...] = ()
    default: Text | None = None
    expires_at: Moment | None = None

    @property
    def in_words(self) -> Text:
        return self.question


class QuestionAnswered(NotedFact):
    """`expired`: nobody answered in time; `answer` is then the question's default, None if it has none."""

    kind: ClassVar[str] = "question.answered"
    question_id: str
    call_id: str
    answer: Text | None
    by: Text | None = None
    expired: bool = False
    control_id: str | None = None

    @property
    def in_words(self) -> Text:
        if not self.expired:
            return self.answer or ""
        return "nobody answered in time" + (f", so it is: {self.answer}" if self.answer is not None else "")


InboxRequest: TypeAlias = ApprovalRequested | QuestionAsked
InboxReply: TypeAlias = ApprovalDecided | QuestionAnswered


class Said(Closed):
    """The reply to an inbox item: a decision, or the answer to a question.

    `expired`: nobody replied in time; `answer` is then the question's default. `by` None: no user of the service.
    """

    item_id: str
    decision: Decision | None = None
    answer: Text | None = None
    note: Text | None = None
    remember: Remember | None = None
    by: Text | None = None
    expired: bool = False


def reply_fact(request: InboxRequest, said: Said, control_id: str | None = None) -> InboxReply:
    """The fact that records the reply `said` to `request`."""
    if isinstance(request, QuestionAsked):
        return QuestionAnswered(
            question_id=request.question_id,
            call_id=request.call_id,
            answer=said.answer,
            by=said.by,
            expired=said.expired,
            control_id=control_id,
        )
    return ApprovalDecided(
        approval_id=request.approval_id,
        call_id=request.call_id,
        decision="expired" if said.expired or said.decision is None else said.decision,
        note=said.note,
        by=said.by,
        remember=said.remember,
        digest=request.digest,
        profile=request.profile,
        why=request.why,
        expires_at=request.expires_at,
        control_id=control_id,
    )
