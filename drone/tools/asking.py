"""The tool `ask_user`: an agent asks a person one or several questions, and waits for the answers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from drone.agent.control.idle_watch import Block
from drone.agent.turns.turn import Turn
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.contracts.inbox_facts import QuestionAnswered, QuestionAsked
from mcc.contracts.questions import MOST_CHOICES, MOST_QUESTIONS, ONLY, RUNTIME, OneAnswer, OneQuestion, ended
from mcc.contracts.shape import now
from mcc.contracts.status import WaitingReason

LONGEST_SECONDS = 2_592_000
"""The longest deadline that an agent can give its questions: thirty days."""

CALL_SECONDS = 32_000_000
"""The call lasts as long as its order waits for people, `wait_days` at most."""

Words = Annotated[str, StringConstraints(min_length=1, max_length=4_000)]
Choice = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Choices = Annotated[tuple[Choice, ...], Field(max_length=MOST_CHOICES)]


def _in_short(schema: dict[str, Any]) -> None:
    """What a model is shown of one of several questions: no limits, which every request would pay for."""
    text = {"type": "string"}
    several = {"type": "array", "items": text}
    properties = {"id": text, "question": text, "choices": several, "free": {"type": "boolean"}, "default": text}
    schema |= {"properties": properties, "additionalProperties": False}
    del schema["title"]


class WantedAnswer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra=_in_short)

    id: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    question: Words
    choices: Choices = ()
    free: bool = True
    default: Words | None = None


@tool(idempotent=True, effects="none", untrusted=False, seconds=CALL_SECONDS, background_safe=False)
async def ask_user(
    context: ToolContext,
    question: Words | None = None,
    choices: Choices = (),
    default: Words | None = None,
    questions: Annotated[tuple[WantedAnswer, ...], Field(max_length=MOST_QUESTIONS)] = (),
    wait_seconds: Annotated[int, Field(ge=1, le=LONGEST_SECONDS)] | None = None,
) -> dict[str, Any]:
    """Ask a person, who may take days; you wait. Only for what you cannot find out and must not guess.

    Of an answer that is declined (by nobody, or on purpose) or expired (it is then your default) you decide yourself,
    and say what you took for granted.

    Args:
        question: With all that is needed to answer it.
        choices: Answers to choose from.
        default: What counts when nobody answers in time.
        questions: Instead: several at once. free false: one of the choices is the answer.
        wait_seconds: Leave it out to wait until somebody answers.
    """
    asked = _questions(question, choices, default, questions)
    turn = context.turn
    if turn is None or not turn.inbox.people.reaches:
        return _told(ended(asked, "declined", by=RUNTIME))
    at = now()
    fact = QuestionAsked(
        question_id=derived_id(context.call_id, "question"),
        call_id=context.call_id,
        question=asked[0].question,
        choices=asked[0].choices,
        default=asked[0].default,
        expires_at=None if wait_seconds is None else at + timedelta(seconds=wait_seconds),
        questions=asked,
    )
    if wait_seconds is None and (seconds := turn.inbox.people.wait_seconds) is not None:
        until = at + timedelta(seconds=seconds)
        # Where the order expires before, that ends the wait.
        fact = fact if turn.idle.expires_before(until) else fact.model_copy(update={"waits_until": until})
    reply = await answered(turn, context.origin, fact)
    return _told(reply.answers_to(fact))


def _questions(
    question: str | None, choices: tuple[str, ...], default: str | None, questions: tuple[WantedAnswer, ...]
) -> tuple[OneQuestion, ...]:
    """What is asked. Raises `ToolFailed` where that is unclear."""
    if question is not None and not questions:
        return (OneQuestion(id=ONLY, question=question, choices=choices, default=default),)
    if question is not None or choices or default is not None or not questions:
        raise ToolFailed("Give either question (with choices and default) or questions, which have their own.")
    if len({wanted.id for wanted in questions}) < len(questions):
        raise ToolFailed("Give each question an id of its own.")
    for wanted in questions:
        if not wanted.free and not wanted.choices:
            raise ToolFailed(f"Question {wanted.id} has free false and no choices: give choices, or let it be free.")
    return tuple(OneQuestion(**wanted.model_dump()) for wanted in questions)


def _told(answers: tuple[OneAnswer, ...]) -> dict[str, Any]:
    return {"answers": [one.model_dump() for one in answers]}


async def answered(turn: Turn, origin: Origin, asked: QuestionAsked) -> QuestionAnswered:
    """Ask the questions, unless an earlier drone already wrote them to the journal, and wait for the answers.

    The turn's inbox must reach people.
    """
    items = turn.tree.record(origin).conversation.items
    # A resumed call asks nobody twice: the question stands in the journal under the same derived id.
    if asked.question_id not in items:
        await turn.journal.write(origin, asked)
    item = items[asked.question_id]
    assert isinstance(item.asked, QuestionAsked)
    if item.heard is None:
        who = origin.agent or "an agent"
        until = item.asked.expires_at or item.asked.waits_until
        block = Block(WaitingReason.QUESTION, f"{who} asks: {item.asked.in_words[:300]}", until)
        async with turn.blocked(asked.call_id, origin.record_id, block):
            await turn.inbox.said(origin, item)
    assert isinstance(item.heard, QuestionAnswered)
    return item.heard


ASKING_TOOLS: tuple[Callable[..., object], ...] = (ask_user,)
"""The tools of the group `coordination` that this module holds."""
