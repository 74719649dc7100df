"""What a reply says: the answer of an order, what became of it, its request and its cost, and where the rest is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mcc.contracts.invisible import escape_invisible
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.plain_text import cut, strip_controls
from mcc.contracts.status import OrderStatus
from mcc.forges.words import beginning, in_line, quoted
from mcc.redaction import Redactor
from mcc.store.doors.messages import Happening
from mcc.triggers.payload import REPLY_MARK

ANSWER_CHARACTERS = 60_000
DETAIL_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class ReplyText:
    """What is said of an ended order. `answer`, `detail`: words of others. `request`: the address of the request that
    it has opened or updated; `page`, `record`: those of the order, "" where nobody else could follow them."""

    order_id: str
    answer: str
    status: OrderStatus
    reason: str = ""
    detail: str = ""
    request: str = ""
    cost_usd: float | None = None
    page: str = ""
    record: str = ""

    @classmethod
    def of(cls, happening: Happening, public_url: str, redactor: Redactor) -> "ReplyText":
        """Without the secrets that are known here: nothing is cut before they are gone."""
        end, outcome, order = happening.entry and happening.entry.data, happening.outcome, happening.order
        if not isinstance(end, OrderFinished) or order is None:
            raise TypeError(f"a reply tells the end of an order, and this is {happening.type}")
        request = outcome.delivery.request if outcome and outcome.delivery else None
        return cls(
            order_id=order.id,
            answer=redactor.text((outcome and outcome.answer) or ""),
            status=end.status,
            reason=end.reason or "",
            detail=redactor.text(end.detail or ""),
            request=request.url if request else "",
            cost_usd=end.usage.cost_usd,
            page=f"{public_url}/orders/{order.id}" if public_url else "",
            record=f"{public_url}/api/v1/orders/{order.id}/record" if public_url else "",
        )

    @property
    def mark(self) -> str:
        """What a reply is known by where it stands."""
        return f"{REPLY_MARK}{self.order_id} -->"

    @property
    def markdown(self) -> str:
        """As a comment at a forge. Words of others are quoted, so that none of them is a command there."""
        return "\n\n".join(
            (f"{self.mark}\n{self._said(quoted, ANSWER_CHARACTERS)}".strip(), *self._ended(quoted), self._facts(linked))
        )

    def in_chat(self, most: int) -> str:
        """As a message in a chat, of at most so many characters. Words of others name and call nobody there."""
        around = "\n\n".join((*self._ended(escaped), self._facts(linked_in_chat)))
        said = self._said(escaped, min(ANSWER_CHARACTERS, most - len(around) - 2))
        return f"{said}\n\n{around}".strip()

    def _said(self, write: Callable[[str], str], most: int) -> str:
        answer = self.answer.strip()
        # Of any length: only as much is written as may fit.
        if len(answer) <= most and len(whole := write(answer)) <= most:
            return whole
        more = "(The answer is longer: the rest is in the record of the order.)"
        return f"{beginning(answer, write, most - len(more) - 2)}\n\n{more}"

    def _ended(self, write: Callable[[str], str]) -> Iterable[str]:
        if self.status is not OrderStatus.SUCCEEDED:
            yield f"The order has {'failed' if self.status is OrderStatus.FAILED else 'been cancelled'}" + (
                f" ({self.reason})." if self.reason else "."
            )
            if self.detail.strip():
                yield write(cut(self.detail, DETAIL_CHARACTERS))

    def _facts(self, link: Callable[[str, str], str]) -> str:
        facts = [link(self.request, "request")] if self.request else []
        if self.cost_usd is not None:
            facts.append(f"cost {self.cost_usd:,.4f} USD")
        facts.append(link(self.page, f"order {self.order_id}"))
        return " · ".join((*facts, link(self.record, "record")) if self.record else facts)


def linked(address: str, words: str) -> str:
    return f"[{words}]({in_line(address).replace(' ', '%20').replace(')', '%29')})" if address else words


def linked_in_chat(address: str, words: str) -> str:
    return f"<{escaped(address).replace('|', '%7C')}|{words}>" if address else words


def escaped(text: str) -> str:
    """Words of others for Slack, where what stands in angle brackets names people, channels and addresses."""
    shown = escape_invisible(strip_controls(text))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
