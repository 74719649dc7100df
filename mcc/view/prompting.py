"""Inbox items of an order, asked and answered at the terminal."""

import select
import sys
from collections.abc import Callable
from typing import TypeAlias

from mcc.contracts.approvals import (
    ANSWER_CHARACTERS,
    NOTE_CHARACTERS,
    AnyItem,
    NewAnswer,
    NewDecision,
    QuestionItem,
)
from mcc.view.inbox import chosen, in_full
from mcc.view.output import say, show, window

IsOver: TypeAlias = Callable[[], bool]
ReadLine: TypeAlias = Callable[[str, IsOver], str | None]
Prompt: TypeAlias = Callable[[str], str | None]


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
    item: AnyItem, is_over: IsOver, read: ReadLine = read_line, preview_lines: int | None = None
) -> NewDecision | NewAnswer | None:
    """Show the item and ask the person at this terminal; None where input ends, or `is_over`, before an answer.

    `preview_lines`: how many lines of its preview to show, None = all. Blocks.
    """
    show(f"\n{in_full(item, preview_lines, window(stderr=True))}")

    def prompt(text: str) -> str | None:
        return read(text, is_over)

    return _answer(item, prompt) if item.kind == "question" else _decision(item, prompt)


def _decision(item: AnyItem, prompt: Prompt) -> NewDecision | None:
    saves = item.kind == "approval" and item.would_save is not None
    text = f"May it? y(es), n(o){', a(lways in this session)' if saves else ''}, or say why not: "
    while (typed := prompt(text)) is not None:
        match typed.lower():
            case "":
                continue
            case "y" | "yes":
                return NewDecision(decision="approve")
            case "a" | "always" if saves:
                return NewDecision(decision="approve", remember="session")
            case "a" | "always":
                say("Nothing of this call can be remembered.")
            case "n" | "no":
                return NewDecision(decision="deny")
            case _:
                return NewDecision(decision="deny", note=typed[:NOTE_CHARACTERS])
    return None


def _answer(item: QuestionItem, prompt: Prompt) -> NewAnswer | None:
    default = f" ({item.default})" if item.default is not None else ""
    while (typed := prompt(f"Answer{default}: ")) is not None:
        answer = chosen(typed, item.choices) if typed else item.default
        if answer:
            return NewAnswer(answer=answer[:ANSWER_CHARACTERS])
    return None
