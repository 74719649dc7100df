"""Facts of the inbox: approvals and questions that agents request, and the decisions and answers of people."""

from typing import ClassVar, Literal, TypeAlias

from pydantic import Field

from mcc.contracts.fact import NotedFact
from mcc.contracts.permission import Effects, SavedRule, Why
from mcc.contracts.questions import ONLY, AnswerStatus, OneAnswer, OneQuestion, ended
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
    door: str | None = None
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
    """One question, or several (`questions`) that are answered together; `question` is then the first of them.

    `expires_at`: when their time is over; None: they have none. `waits_until`: when the order stops waiting for people,
    which ends questions without a time of their own; None: they wait as long as the order.
    """

    kind: ClassVar[str] = "question.asked"
    question_id: str
    call_id: str
    question: Text
    choices: tuple[Text, ...] = ()
    default: Text | None = None
    expires_at: Moment | None = None
    questions: tuple[OneQuestion, ...] = ()
    waits_until: Moment | None = None

    @property
    def all_questions(self) -> tuple[OneQuestion, ...]:
        """What is asked, at least one question; journals of versions before `questions` have one."""
        alone = OneQuestion(id=ONLY, question=self.question, choices=self.choices, default=self.default)
        return self.questions or (alone,)

    @property
    def in_words(self) -> Text:
        more = len(self.questions) - 1
        return self.question + (f" (and {more} more)" if more > 0 else "")


class QuestionAnswered(NotedFact):
    """How the questions ended: `answers` has each of them. `answer` is that of the only one, None if there are several.

    `expired`: nobody answered in time; the answers are then the defaults, None without one.
    """

    kind: ClassVar[str] = "question.answered"
    question_id: str
    call_id: str
    answer: Text | None
    by: Text | None = None
    door: str | None = None
    expired: bool = False
    control_id: str | None = None
    answers: tuple[OneAnswer, ...] = ()

    def answers_to(self, asked: QuestionAsked) -> tuple[OneAnswer, ...]:
        """How each question of `asked` ended; journals of versions before `answers` have one answer."""
        status: Literal["answered", "expired"] = "expired" if self.expired else "answered"
        before = (OneAnswer(id=ONLY, status=status, answer=self.answer, by=self.by),)
        return self.answers or before[: len(asked.all_questions)]

    @property
    def declined(self) -> bool:
        return any(one.status == "declined" for one in self.answers)

    @property
    def in_words(self) -> Text:
        if self.declined:
            return "answer declined" + (f" by {self.by}" if self.by else "")
        said = self.answer
        if said is None and len(self.answers) > 1:
            said = "; ".join(f"{one.id}: {one.answer}" for one in self.answers if one.answer is not None) or None
        if not self.expired:
            return said or ""
        return "nobody answered in time" + (f", so it is: {said}" if said is not None else "")


InboxRequest: TypeAlias = ApprovalRequested | QuestionAsked
InboxReply: TypeAlias = ApprovalDecided | QuestionAnswered

INBOX_FACTS = frozenset(fact.kind for fact in (ApprovalRequested, QuestionAsked, ApprovalDecided, QuestionAnswered))
"""Kinds of entries by which an item of the inbox appears or is settled."""


class Said(Closed):
    """The reply to an inbox item: a decision, or the answers to its questions, by the question's id.

    `answer`: that of a question asked alone. `declined`: a person will not answer. `expired`: nobody replied in time.
    `by` None: no user of the service; else `door` and `token_id` tell which way the reply came (`Actor`).
    """

    item_id: str
    decision: Decision | None = None
    answer: Text | None = None
    note: Text | None = None
    remember: Remember | None = None
    by: Text | None = None
    door: str | None = None
    token_id: str | None = None
    expired: bool = False
    answers: dict[str, Text] | None = None
    declined: bool = False


def reply_fact(request: InboxRequest, said: Said, control_id: str | None = None) -> InboxReply:
    """The fact that records the reply `said` to `request`."""
    if isinstance(request, QuestionAsked):
        questions = request.all_questions
        texts = {questions[0].id: said.answer} if said.answers is None and said.answer is not None else said.answers
        status: AnswerStatus = "expired" if said.expired else "declined" if said.declined else "answered"
        answers = ended(questions, status, texts, said.by)
        return QuestionAnswered(
            question_id=request.question_id,
            call_id=request.call_id,
            answer=answers[0].answer if len(answers) == 1 else None,
            by=said.by,
            door=said.door,
            expired=said.expired,
            control_id=control_id,
            answers=answers,
        )
    return ApprovalDecided(
        approval_id=request.approval_id,
        call_id=request.call_id,
        decision="expired" if said.expired or said.decision is None else said.decision,
        note=said.note,
        by=said.by,
        door=said.door,
        remember=said.remember,
        digest=request.digest,
        profile=request.profile,
        why=request.why,
        expires_at=request.expires_at,
        control_id=control_id,
    )
