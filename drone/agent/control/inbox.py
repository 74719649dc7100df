"""The inbox of one turn: what its agents ask people, and the people's decisions and answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from drone.agent.ports.inbox_item import InboxItem, item_id
from drone.agent.state.tree import Tree
from mcc.contracts.control import Control
from mcc.contracts.entry import Origin
from mcc.contracts.inbox_facts import InboxReply, InboxRequest, Said, reply_fact
from mcc.contracts.permission import SavedRule

NOBODY_ASKS = "Nobody waits for this any more: its agent has ended, or was never there."
SAID_BEFORE = "This was decided before."
EXPIRE_SECONDS = 86_400.0


class People(Protocol):
    """How to ask people. `reaches`: whether anybody can be asked; `expire_seconds`: how long a request waits;
    `wait_seconds`: how long an order waits for answers to questions without a deadline, None = as long as it takes."""

    reaches: bool
    expire_seconds: float
    wait_seconds: float | None

    async def grants(self) -> Sequence[SavedRule]:
        """The approvals that people have let stand so far."""

    async def ask(self, origin: Origin, asked: InboxRequest) -> Said | None:
        """Their decision or answer, or that the request expired; None: it arrives later as a control."""


class Nobody:
    """Stands for people where nobody can be asked."""

    reaches = False
    expire_seconds = EXPIRE_SECONDS
    wait_seconds: float | None = None

    async def grants(self) -> Sequence[SavedRule]:
        return ()

    async def ask(self, origin: Origin, asked: InboxRequest) -> Said | None:
        raise AssertionError("nobody is asked who cannot be reached")


class TurnInbox:
    """One per turn. Use on one event loop only. Its state is the journal's (`RecordState.items`)."""

    def __init__(
        self, tree: Tree, write: Callable[[Origin, InboxReply], Awaitable[None]], people: People | None = None
    ) -> None:
        """`write` commits one fact, even if its caller is cancelled."""
        self.people: People = people or Nobody()
        self._tree = tree
        self._write = write
        self._told: dict[str, asyncio.Event] = {}

    async def said(self, origin: Origin, item: InboxItem) -> InboxReply:
        """Wait for people's decision on, or answer to, an item. Raises `JournalError`."""
        if item.heard is None and (said := await self.people.ask(origin, item.asked)) is not None:
            await self._tell(origin, reply_fact(item.asked, said))
        while item.heard is None:
            await self._told.setdefault(item_id(item.asked), asyncio.Event()).wait()
        return item.heard

    async def take(self, control: Control) -> str | None:
        """Apply a decision or answer that arrives as a control; returns why when it cannot. Raises `JournalError`."""
        said = control.said
        entry = None if said is None else self._found(said.item_id)
        if said is None or entry is None:
            return NOBODY_ASKS
        origin, item = entry
        if item.heard is not None:
            return SAID_BEFORE
        await self._tell(origin, reply_fact(item.asked, said, control.id))
        return None

    async def _tell(self, origin: Origin, fact: InboxReply) -> None:
        await self._write(origin, fact)
        if (waiting := self._told.pop(item_id(fact), None)) is not None:
            waiting.set()

    def _found(self, id: str) -> tuple[Origin, InboxItem] | None:
        """The item and its agent, also when that agent has not restarted yet under this drone."""
        for record in self._tree.records.values():
            if id in record.conversation.items and record.finished is None:
                return record.origin, record.conversation.items[id]
        return None
