"""A caller's function as the approver of a turn, for the runtime without a service."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from drone.agent.control.inbox import EXPIRE_SECONDS
from mcc.contracts.approvals import AnyItem, ApprovalItem, NewDecision, QuestionItem
from mcc.contracts.entry import Origin
from mcc.contracts.inbox_facts import ApprovalRequested, InboxRequest, Said
from mcc.contracts.permission import SavedRule
from mcc.contracts.questions import BadAnswer, NewAnswer, answers_to
from mcc.contracts.shape import now

Answer: TypeAlias = NewDecision | NewAnswer | str | Mapping[str, str] | bool
"""A decision about a call (True approves, False denies), or the answer to a question; to several by their ids."""

Approver: TypeAlias = Callable[[AnyItem], Answer | Awaitable[Answer]]


class Asking:
    """Calls `approver` with each item, concurrently for concurrent tool calls. Approvals that it lets stand
    (`remember`) last as long as this object."""

    reaches = True
    wait_seconds: float | None = None

    def __init__(self, approver: Approver, *, expire_seconds: float = EXPIRE_SECONDS) -> None:
        self._approver = approver
        self.expire_seconds = expire_seconds
        self._stand: list[SavedRule] = []

    async def grants(self) -> Sequence[SavedRule]:
        return tuple(self._stand)

    async def ask(self, origin: Origin, asked: InboxRequest) -> Said | None:
        item = item_of(origin, asked)
        left = None if asked.expires_at is None else max(0.0, (asked.expires_at - now()).total_seconds())
        try:
            async with asyncio.timeout(left):
                answered = self._approver(item)
                said = await answered if inspect.isawaitable(answered) else answered
        except TimeoutError:
            return Said(item_id=item.id, expired=True)
        return self._heard(item, said)

    def _heard(self, item: AnyItem, said: Answer) -> Said:
        if isinstance(said, str):
            said = NewAnswer(answer=said)
        if isinstance(said, Mapping):
            said = NewAnswer(answers=dict(said))
        if isinstance(said, bool):
            said = NewDecision(decision="approve" if said else "deny")
        if isinstance(said, NewAnswer) != (item.kind == "question"):
            raise TypeError(f"the approver answers a {item.kind} with {said!r}")
        if isinstance(said, NewAnswer):
            return said_to(item, said)
        if said.remember is not None and isinstance(item, ApprovalItem) and item.would_save is not None:
            self._stand.append(item.would_save)
        return Said(item_id=item.id, decision=said.decision, note=said.note, remember=said.remember)


def said_to(item: AnyItem, answer: NewAnswer) -> Said:
    """The answer to a question item. Raises TypeError where it does not answer what was asked."""
    assert isinstance(item, QuestionItem)
    try:
        answers = answers_to(item.questions, answer)
    except BadAnswer as problem:
        raise TypeError(f"the approver answers {answer!r}: {problem}") from problem
    return Said(item_id=item.id, answers=None if answers is None else dict(answers), declined=answers is None)


def item_of(origin: Origin, asked: InboxRequest, order_id: str = "") -> AnyItem:
    """A request just made, as a pending inbox item."""
    at, agent = now(), origin.agent
    place = {"order_id": order_id, "record_id": origin.record_id, "agent": agent, "depth": origin.depth}
    known = {**place, "call_id": asked.call_id, "status": "pending", "requested_at": at}
    if isinstance(asked, ApprovalRequested):
        told = {name: getattr(asked, name) for name in type(asked).model_fields if not name.endswith("_id")}
        return ApprovalItem.model_validate({**told, **known, "id": asked.approval_id})
    told = {name: getattr(asked, name) for name in ("question", "choices", "default", "expires_at")}
    return QuestionItem.model_validate({**told, **known, "id": asked.question_id, "questions": asked.all_questions})
