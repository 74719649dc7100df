"""Inbox items of an order, asked and answered at the terminal."""

import select
import sys
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mcc.contracts.approvals import NOTE_CHARACTERS, AnyItem, ApprovalItem, NewDecision, OutlineItem, QuestionItem
from mcc.contracts.questions import ANSWER_CHARACTERS, NewAnswer, OneQuestion
from mcc.view.inbox import PREVIEW_LINES, chosen, in_full, questions_of
from mcc.view.output import exact_line, say, show, window

IsOver: TypeAlias = Callable[[], bool]
ReadLine: TypeAlias = Callable[[str, IsOver], str | None]
Prompt: TypeAlias = Callable[[str], str | None]
Whole: TypeAlias = Callable[[], str | None]


def possible() -> bool:
    """Whether a person can be asked here: stdin and stderr are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_line(prompt: str, is_over: IsOver) -> str | None:
    """A line typed at the terminal; None at the end of input, or once `is_over` (called each second) answers True."""
    print(prompt, end="", file=sys.stderr, flush=True)
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        if is_over():
            return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def ask(
    item: AnyItem,
    is_over: IsOver,
    read: ReadLine = read_line,
    whole: Whole = lambda: None,
) -> NewDecision | NewAnswer | None:
    """Show the item and ask the person at this terminal; None where input ends, or `is_over`, before an answer.

    Of a long preview the beginning is shown, and all of it on request. `whole`: answers the whole of a preview that the
    item holds only a part of, None where it cannot be had. Blocks.
    """
    show(f"\n{in_full(item, PREVIEW_LINES, window(stderr=True))}")

    def prompt(text: str) -> str | None:
        return read(text, is_over)

    if item.kind == "note":
        return None  # nobody waits for its decision: mcc notes accept, or reject
    if item.kind == "question":
        return _answer(item, prompt)
    return _decision(item, prompt, partial(_show_whole, item, whole))


def _show_whole(item: AnyItem, whole: Whole) -> None:
    is_cut = item.kind == "approval" and item.preview is not None and item.preview.artifact is not None
    text = whole() if is_cut else None
    show(f"\n{in_full(item, None, window(stderr=True), text)}")
    if is_cut and text is None:
        say("The whole text is not available now.")


def _decision(item: ApprovalItem | OutlineItem, prompt: Prompt, show_whole: Callable[[], None]) -> NewDecision | None:
    saves = item.kind == "approval" and item.would_save is not None
    views = item.kind == "approval" and item.preview is not None
    options = f"y(es), n(o){', a(lways in this session)' if saves else ''}{', v(iew all of it)' if views else ''}"
    while (typed := prompt(f"May it? {options}, or say why not: ")) is not None:
        match typed.lower():
            case "":
                continue
            case "y" | "yes":
                return NewDecision(decision="approve")
            case "a" | "always" if saves:
                return NewDecision(decision="approve", remember="session")
            case "a" | "always":
                say("Nothing of this call can be remembered.")
            case "v" | "view" if views:
                show_whole()
            case "v" | "view":
                say("There is no more of it to see.")
            case "n" | "no":
                return NewDecision(decision="deny")
            case _:
                return NewDecision(decision="deny", note=typed[:NOTE_CHARACTERS])
    return None


def _answer(item: QuestionItem, prompt: Prompt) -> NewAnswer | None:
    """The answers, asked one after the other; None where input ends before the last one."""
    questions, answers = questions_of(item), dict[str, str]()
    for question in questions:
        label = "Answer" if len(questions) == 1 else f"Answer {exact_line(question.id)}"
        if (answer := _one_answer(question, label, prompt)) is None:
            return None
        answers[question.id] = answer[:ANSWER_CHARACTERS]
    return NewAnswer(answer=answers[questions[0].id]) if len(questions) == 1 else NewAnswer(answers=answers)


def _one_answer(question: OneQuestion, label: str, prompt: Prompt) -> str | None:
    default = f" ({exact_line(question.default)})" if question.default is not None else ""
    while (typed := prompt(f"{label}{default}: ")) is not None:
        answer = chosen(typed, question.choices) if typed else question.default
        if answer and not question.free and answer not in question.choices:
            say("It has to be one of the choices: type its number.")
        elif answer:
            return answer
    return None
