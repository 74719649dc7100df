"""What an order that is followed on a terminal asks, shown and answered right there."""

import select
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from mcc.cli.command import say
from mcc.cli.inbox import chosen

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.approvals import AnyItem
    from mcc.contracts.wire import Seen

LEFT = "It stays in the inbox: mcc inbox."
ELSEWHERE = "Nothing to answer any more: somebody else did, its time is over, or its order has ended."


class Aside(Protocol):
    def aside(self) -> AbstractContextManager[None]:
        """Inside, nothing else is drawn on the terminal."""


def read_line(prompt: str, over: Callable[[], bool]) -> str | None:
    """A line of the terminal; None at the end of input, or once it is `over`, which is asked each second."""
    print(prompt, end="", file=sys.stderr, flush=True)
    while not select.select([sys.stdin], [], [], 1.0)[0]:
        if over():
            return None
    line = sys.stdin.readline()
    return line.strip() if line else None


class Prompt:
    """Asks the person at this terminal whatever the order asks; `read` as `read_line`."""

    def __init__(
        self, client: "MCC", order_id: str, read: Callable[[str, Callable[[], bool]], str | None] = read_line
    ) -> None:
        self._client = client
        self._order_id = order_id
        self._read = read

    @staticmethod
    def possible() -> bool:
        """Whether a person can read and type here."""
        return sys.stdin.isatty() and sys.stderr.isatty()

    def see(self, item: "Seen", screen: Aside) -> None:
        """Ask what this entry asks, unless somebody has answered it meanwhile. Raises `ClientError`."""
        from mcc.contracts.entry import Entry
        from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked

        if not isinstance(item, Entry) or not isinstance(item.data, ApprovalRequested | QuestionAsked):
            return
        id = item.data.approval_id if isinstance(item.data, ApprovalRequested) else item.data.question_id
        asked = self._pending(id)
        if asked is not None:
            with screen.aside():
                self._ask(asked)

    def _pending(self, id: str) -> "AnyItem | None":
        pending = self._client.inbox.list(order_id=self._order_id, limit=200).items
        return next((one for one in pending if one.id == id), None)

    def _line(self, prompt: str, item: "AnyItem") -> str | None:
        return self._read(prompt, lambda: self._pending(item.id) is None)

    def _ask(self, item: "AnyItem") -> None:
        from mcc.client.errors import Conflict, Refused
        from mcc.view.inbox import PREVIEW_LINES, whole

        say(f"\n{whole(item, PREVIEW_LINES)}")
        try:
            done = self._answered(item) if item.kind == "question" else self._decided(item)
        except (Conflict, Refused) as refusal:
            say(f"Not taken: {refusal}")
        else:
            if not done:
                say(f"\n{LEFT if self._pending(item.id) else ELSEWHERE}")

    def _decided(self, item: "AnyItem") -> bool:
        saves = item.kind == "approval" and item.would_save is not None
        prompt = f"May it? y(es), n(o){', a(lways in this session)' if saves else ''}, or say why not: "
        while (said := self._line(prompt, item)) is not None:
            match said.lower():
                case "":
                    continue
                case "y" | "yes":
                    self._client.inbox.approve(item.id)
                case "a" | "always" if saves:
                    self._client.inbox.approve(item.id, remember="session")
                case "a" | "always":
                    say("Nothing of this call can be remembered.")
                    continue
                case "n" | "no":
                    self._client.inbox.deny(item.id)
                case _:
                    self._client.inbox.deny(item.id, note=said)
            return True
        return False

    def _answered(self, item: "AnyItem") -> bool:
        assert item.kind == "question"
        default = f" ({item.default})" if item.default is not None else ""
        while (said := self._line(f"Answer{default}: ", item)) is not None:
            answer = chosen(said, item.choices) if said else item.default
            if answer:
                self._client.inbox.answer(item.id, answer)
                return True
        return False
