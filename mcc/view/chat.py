"""A turn of a conversation at the terminal: what its agents do, and the master's text as it comes, in whole lines."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from mcc.contracts.entry import Entry
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked
from mcc.contracts.journal import AgentFinished, AgentStarted, AgentStep, ControlApplied
from mcc.contracts.model_facts import ModelReplied, ModelRetried
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderQueued, OrderResumed, OrderWaiting
from mcc.contracts.status import WaitingReason
from mcc.contracts.wire import Delta, OrderEvent, OrderWaits
from mcc.view.lines import Lines
from mcc.view.output import clean

Write = Callable[[str, str], None]
"""Writes a line that is `clean`, in a style."""

_CLOCK = len("12:00:00 ")
_ASKED = frozenset({WaitingReason.APPROVAL, WaitingReason.QUESTION})


class ChatScreen:
    """Writes a turn line by line, so that a line being typed below it stays whole.

    `said`: the text of the master's last reply. `waits`: what the order waits for, "" for nothing.
    """

    needs_all = needs_deltas = True

    def __init__(self, write: Write, width: int) -> None:
        self.said = ""
        self.waits = ""
        self._write = write
        self._width = max(20, width)
        self._lines = Lines()
        self._open = ""
        self._try = (0, 0)

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def show(self, item: OrderEvent) -> None:
        match item:
            case Entry():
                self._entry(item)
            case Delta(kind="model.delta", depth=0):
                self._asked(item.round, item.attempt)
                if item.offset <= len(self.said):
                    self._say(item.text[len(self.said) - item.offset :])
            case OrderWaits():
                self.waits = item.waits_for.message if item.waits_for is not None else ""

    def _entry(self, entry: Entry) -> None:
        fact = entry.fact
        if isinstance(fact, ModelReplied) and entry.depth == 0:
            self._asked(fact.round, fact.attempt)
            # Pieces of it may have been left out.
            self._say(fact.text[len(self.said) :])
            self._end_line()
        line = self._lines.line_of(entry)
        if isinstance(fact, OrderClaimed | OrderFinished):
            self.waits = ""
        if line and not _is_silent(entry):
            self._end_line()
            failed = isinstance(fact, ModelRetried) or " failed: " in line
            self._write("yellow" if failed else "dim", line[_CLOCK:])

    def _asked(self, number: int, attempt: int) -> None:
        """The text that follows is of this try of this round, which may have begun before its entry is there."""
        if (number, attempt) != self._try:
            self._end_line()
            self._try, self.said = (number, attempt), ""

    def _say(self, text: str) -> None:
        self.said += text
        *lines, self._open = (self._open + clean(text)).split("\n")
        for line in lines:
            self._write("", line)
        while len(self._open) > self._width and " " in self._open[1 : self._width]:
            cut = self._open.rindex(" ", 1, self._width)
            self._write("", self._open[:cut])
            self._open = self._open[cut + 1 :]

    def _end_line(self) -> None:
        if self._open:
            self._write("", self._open)
            self._open = ""


def _is_silent(entry: Entry) -> bool:
    """Whether an entry tells nothing new to who has just asked, and is asked for decisions by other words."""
    match entry.fact:
        case OrderQueued() | OrderClaimed() | OrderFinished() | OrderResumed() | ApprovalRequested() | QuestionAsked():
            return True
        case AgentStarted() | AgentFinished():
            return entry.depth == 0
        case AgentStep(name="provisioned"):
            return True
        case ControlApplied(control="cancel"):
            return entry.parent_id is None  # How the turn ended says it.
        case OrderWaiting(reason=reason):
            return reason in _ASKED
    return False
