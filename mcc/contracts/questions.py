"""Questions to people: what is asked, how each question ends, and whether what a person says answers them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from mcc.contracts.shape import Closed, Moment, Text

MOST_QUESTIONS = 10
"""The most questions that are asked at once."""

MOST_CHOICES = 20
ANSWER_CHARACTERS = 20_000
QUESTION_CHARACTERS = 1_000
"""How much of a question is repeated with an answer that came late."""

ONLY = "1"
"""The id of a question that is asked alone."""

RUNTIME = "runtime"
"""Who declines a question where no person can be asked."""

AnswerStatus: TypeAlias = Literal["answered", "declined", "expired"]
AnswerText = Annotated[str, StringConstraints(min_length=1, max_length=ANSWER_CHARACTERS)]
QuestionId = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class OneQuestion(Closed):
    """One question. `free`: any text is an answer, not only one of `choices`. `default`: what counts when nobody
    answers in time."""

    id: str
    question: Text
    choices: tuple[Text, ...] = ()
    free: bool = True
    default: Text | None = None


class OneAnswer(Closed):
    """How a question ended. `answer`: of an expired one its default, of a declined one None. `by`: who said it, None =
    no user of the service; "runtime": nobody could be asked."""

    id: str
    status: AnswerStatus
    answer: Text | None = None
    by: Text | None = None


class NewAnswer(Closed):
    """The answer to a question (`answer`), to each of several (`answers`, by the question's id), or that nobody will
    answer (`decline`). Exactly one of them."""

    answer: AnswerText | None = None
    answers: Annotated[dict[QuestionId, AnswerText], Field(max_length=MOST_QUESTIONS)] | None = None
    decline: bool = False


class BadAnswer(Exception):
    """What a person said does not answer the questions; the message says what to send instead. `field`: the part of the
    answer that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def answers_to(questions: Sequence[OneQuestion], said: NewAnswer) -> Mapping[str, str] | None:
    """The answer to each question by its id; None where the person declines. Raises `BadAnswer`."""
    if (said.answer is not None) + (said.answers is not None) + said.decline != 1:
        raise BadAnswer("answer", "give one of answer, answers and decline (true).")
    if said.decline:
        return None
    if said.answer is not None:
        if len(questions) != 1:
            raise BadAnswer("answer", f"there are {len(questions)} questions: give answers, with {_listed(questions)}.")
        answers: Mapping[str, str] = {questions[0].id: said.answer}
    else:
        answers = said.answers or {}
    ids = {question.id for question in questions}
    if missing := [question for question in questions if question.id not in answers]:
        raise BadAnswer("answers", f"answers are missing: {_listed(missing)}.")
    if unknown := [id for id in answers if id not in ids]:
        raise BadAnswer("answers", f"there is no question {unknown[0][:64]!r}: there is {_listed(questions)}.")
    for question in questions:
        if not question.free and answers[question.id] not in question.choices:
            field = "answer" if said.answer is not None else f"answers.{question.id}"
            raise BadAnswer(field, f"it has to be one of: {' | '.join(question.choices)}.")
    return answers


def _listed(questions: Sequence[OneQuestion]) -> str:
    return ", ".join(question.id for question in questions)


def ended(
    questions: Sequence[OneQuestion],
    status: AnswerStatus,
    answers: Mapping[str, str] | None = None,
    by: str | None = None,
) -> tuple[OneAnswer, ...]:
    """How each question ended, all with this status; `answers`: of answered ones, by id."""
    texts: Mapping[str, str | None] = answers or {}
    if status != "answered":
        texts = {question.id: question.default for question in questions if status == "expired"}
    ids = (question.id for question in questions)
    return tuple(OneAnswer(id=id, status=status, answer=texts.get(id), by=by) for id in ids)


class SessionWords(Closed):
    """What a person said to a session when none of its turns ran any more; its next turn is shown it above the prompt.

    `question`: what it answers, None = it is a message.
    """

    at: Moment
    text: Text
    question: Text | None = None
    by: Text | None = None

    @property
    def in_words(self) -> str:
        return stamped(self.at, late_answer(self.question, self.text) if self.question else self.text)


def stamped(at: Moment, text: str) -> str:
    """A person's words as an agent is shown them: begun with their time."""
    return f"[{at:%Y-%m-%dT%H:%M:%SZ}] {text}"


def late_answer(question: str, answer: str) -> str:
    """An answer as a message to an agent that does not wait for it. The question, which an agent wrote, is one line of
    it: whatever it says, it cannot pass for words of a person."""
    line = " ".join(question.split()).replace("”", '"')
    return f"The answer to the earlier question “{line[:QUESTION_CHARACTERS]}”: {answer}"


def with_words(words: Sequence[SessionWords], prompt: str) -> str:
    """The prompt as an agent is shown it: below what was said to its session before."""
    return "\n\n".join((*(one.in_words for one in words), prompt))
