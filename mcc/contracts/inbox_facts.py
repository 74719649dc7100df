"""Facts of what agents ask people: whether a tool call may run, and questions; and of what people said."""

from typing import ClassVar, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.fact import Note
from mcc.contracts.permission import Effects, SavedRule, Why
from mcc.contracts.shape import Closed, JsonObject, Moment, Text

Decision = Literal["approve", "deny"]

Remember = Literal["order", "session", "workspace"]
"""For how long an approval stands: for the order, its session, or all that is done in its workspace."""

OUTLINE = "outline"
"""What stands for a tool where the structure of a document is asked about."""


class ShownPreview(Closed):
    """What a call would do. `artifact` names the kept whole text where `text` is only its beginning and end."""

    kind: Literal["diff", "text"]
    text: Text
    artifact: str | None = None


class ApprovalRequested(Note):
    """A call waits for a person's yes; of an outline `tool` is "outline", and there is no call.

    `digest` is over tool, its definition, arguments, workspace key, profile and preview. `arguments` are shown: long
    values are cut. `again` says what differs from the approval that this call had before.
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


class ApprovalDecided(Note):
    """`expired`: nobody decided in time, so that the call does not run. `by` None: nobody of the service did."""

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


class QuestionAsked(Note):
    """`default` is the answer where nobody gives one until `expires_at`; None: the call is an error then."""

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


class QuestionAnswered(Note):
    """`expired`: nobody answered in time; `answer` is the default then, None where there is none."""

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


Asked: TypeAlias = ApprovalRequested | QuestionAsked
Heard: TypeAlias = ApprovalDecided | QuestionAnswered


class Said(Closed):
    """What was said to an item of the inbox: a decision, or the answer to a question.

    `expired`: nothing was, in time, and `answer` is the default of the question. `by` None: nobody of the service.
    """

    item_id: str
    decision: Decision | None = None
    answer: Text | None = None
    note: Text | None = None
    remember: Remember | None = None
    by: Text | None = None
    expired: bool = False


def heard(asked: Asked, said: Said, control_id: str | None = None) -> Heard:
    """The entry that tells of what was said to this."""
    if isinstance(asked, QuestionAsked):
        return QuestionAnswered(
            question_id=asked.question_id,
            call_id=asked.call_id,
            answer=said.answer,
            by=said.by,
            expired=said.expired,
            control_id=control_id,
        )
    return ApprovalDecided(
        approval_id=asked.approval_id,
        call_id=asked.call_id,
        decision="expired" if said.expired or said.decision is None else said.decision,
        note=said.note,
        by=said.by,
        remember=said.remember,
        digest=asked.digest,
        profile=asked.profile,
        why=asked.why,
        expires_at=asked.expires_at,
        control_id=control_id,
    )
