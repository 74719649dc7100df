"""What an order asks, shown at a terminal and answered right there."""

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
from mcc.view.inbox import chosen, whole
from mcc.view.output import say, show, window

Over: TypeAlias = Callable[[], bool]
ReadLine: TypeAlias = Callable[[str, Over], str | None]
Line: TypeAlias = Callable[[str], str | None]


def possible() -> bool:
    """Whether a person can read and type here."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_line(prompt: str, over: Over) -> str | None:
    """A line of the terminal; None at the end of input, or once it is `over`, which is asked each second."""
    print(prompt, end="", file=sys.stderr, flush=True)
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        if over():
            return None
    line = sys.stdin.readline()
    return line.strip() if line else None


def ask(
    item: AnyItem, over: Over, read: ReadLine = read_line, preview_lines: int | None = None
) -> NewDecision | NewAnswer | None:
    """What the person at this terminal says to the item; None where nobody says anything before it is `over`.

    Of its preview the first lines are shown, None = all. Blocks.
    """
    show(f"\n{whole(item, preview_lines, window(stderr=True))}")

    def line(prompt: str) -> str | None:
        return read(prompt, over)

    return _answer(item, line) if item.kind == "question" else _decision(item, line)


def _decision(item: AnyItem, line: Line) -> NewDecision | None:
    saves = item.kind == "approval" and item.would_save is not None
    prompt = f"May it? y(es), n(o){', a(lways in this session)' if saves else ''}, or say why not: "
    while (typed := line(prompt)) is not None:
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


def _answer(item: QuestionItem, line: Line) -> NewAnswer | None:
    default = f" ({item.default})" if item.default is not None else ""
    while (typed := line(f"Answer{default}: ")) is not None:
        answer = chosen(typed, item.choices) if typed else item.default
        if answer:
            return NewAnswer(answer=answer[:ANSWER_CHARACTERS])
    return None
