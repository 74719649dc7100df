"""The history of an order's session in the store, as its agents read it."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import structlog

from drone.agent.ports.history import FoundEntries, FoundEntry, HistoryRefused, Piece
from drone.worker.journal import OrderJournal
from drone.worker.loop import AsyncStore
from mcc.contracts.ids import root_record_id
from mcc.contracts.order import WorkOrder
from mcc.redaction import Redactor
from mcc.store.database.clock import moment
from mcc.store.database.errors import UnknownOrder
from mcc.store.history.history import CATCH_UP_SECONDS
from mcc.store.history.indexing import PAGE, SaidEntry
from mcc.store.history.scope import PastTurn, turn_of
from mcc.store.store import Store

T = TypeVar("T")
log = structlog.get_logger("drone.history")

BACK = "^"
"""Stands before the number of a turn of the session that this one was forked from."""

SLICE_SECONDS = 0.25
"""How long one call indexes: journals of running orders are written by the same threads."""

DIGITS = 9
HANDLE_CHARACTERS = (16, 64)
OF_CHILDREN = frozenset({"task", "report"})


class OrderHistory:
    """The history that an order's agents read: `drone.agent.ports.history.HistoryPort`."""

    def __init__(self, store: AsyncStore, journal: OrderJournal, order: WorkOrder, redactor: Redactor) -> None:
        self._store = store
        self._journal = journal
        self._order = order
        self._redact = redactor.text
        self._indexing: asyncio.Task[None] | None = None

    async def search(self, question: str, turn: int | None, most: int) -> FoundEntries:
        turns = await self._turns()
        if turn is not None:
            turns = [_named(turns, str(turn))]
        late = await self._index(turns)
        done = await self._in_store(
            lambda store: store.history.search(
                turns, question, self._redact, limit=most, seconds=0, asker=self._order.id
            )
        )
        entries = [
            FoundEntry(f"{BACK * match.back}{item.turn}/{item.seq}", item.at, item.agent, item.kind, item.excerpt)
            for match in done.matches
            for item in (match.item,)
        ]
        return FoundEntries(entries, [*map(_name, late)], [*map(_name, done.pruned)])

    async def read(self, place: str, start: int, length: int) -> Piece:
        name, _, seq = place.strip().partition("/")
        turn = _named(await self._turns(), name)
        if "/" not in place:
            return await self._whole(turn, start, length)
        if not _is_number(seq) or not 1 <= int(seq) <= turn.last_seq:
            raise HistoryRefused(f"Turn {name} has entries {name}/1 to {name}/{turn.last_seq}")
        said = next((text for text in await self._said(turn, int(seq) - 1, 1) if text.seq == int(seq)), None)
        if said is None and turn.pruned:
            left = " and ".join(f"{name}/{text.seq}" for text in await self._said(turn, 0, PAGE))
            raise HistoryRefused(f"Most of turn {name} was pruned; of it are left {left}")
        if said is None:
            raise HistoryRefused(f"Entry {place} has no words of its own; history_search names entries that have")
        rest = f"The whole is longer: artifact {said.spoken.artifact[:16]}" if said.spoken.artifact else ""
        return _piece(self._redact(said.spoken.text), start, length, note=rest)

    async def artifact(self, handle: str) -> str | None:
        least, most = HANDLE_CHARACTERS
        if not least <= len(handle) <= most or not all(one in "0123456789abcdef" for one in handle):
            return None
        turns = await self._turns()
        return await self._in_store(lambda store: store.history.artifact(turns, handle))

    async def order_of(self, record_id: str) -> str | None:
        """The order before this one in which an agent has this record; None when there is none, or it was not reached
        in time. Raises `JournalError`."""
        turns = [turn for turn in await self._turns() if turn.order_id != self._order.id]
        await self._index(turns)
        return await self._in_store(lambda store: store.history.order_of(turns, record_id))

    def put_away(self) -> None:
        if self._indexing is None:
            self._indexing = asyncio.create_task(self._index_before(), name=f"history before {self._order.id}")

    async def _index_before(self) -> None:
        try:
            # Also when the order does not run here any more: what is indexed is committed.
            left = (await self._store.patiently(lambda store: store.history.before(self._order)))[1:]
            while left := [*await self._store.patiently(partial(self._index_some, left))]:
                pass
        except Exception:
            # A search tries again.
            log.exception("turns that are put away are not indexed", order_id=self._order.id)
        finally:
            self._indexing = None

    async def _index(self, turns: Sequence[PastTurn]) -> Sequence[PastTurn]:
        """Index these turns, a slice at a time; answers those that were not done in time."""
        until = time.monotonic() + CATCH_UP_SECONDS
        late = [turn for turn in turns if turn.indexed < turn.last_seq]
        while late and time.monotonic() < until:
            late = [*await self._in_store(partial(self._index_some, late))]
        return late

    def _index_some(self, turns: Sequence[PastTurn], store: Store) -> Sequence[PastTurn]:
        return store.history.index(turns, self._redact, SLICE_SECONDS)

    async def _whole(self, turn: PastTurn, start: int, length: int) -> Piece:
        """A piece of what the turn's own agent was told and said; of its subagents, their tasks and reports."""
        parts: list[str] = []
        characters = after = 0
        while characters <= start + length and after < turn.last_seq:
            page = await self._in_store(lambda store: store.history.said(turn, after))  # noqa: B023
            lines = list(_lines(turn, page.said))
            parts += map(self._redact, lines)
            characters += sum(map(len, lines))
            after = page.reached
        return _piece("\n".join(parts), start, length, note="Most of it was pruned." if turn.pruned else "")

    async def _said(self, turn: PastTurn, after: int, limit: int) -> Sequence[SaidEntry]:
        return (await self._in_store(lambda store: store.history.said(turn, after, limit))).said

    async def _turns(self) -> Sequence[PastTurn]:
        return await self._in_store(lambda store: store.history.before(self._order))

    async def _in_store(self, work: Callable[[Store], T]) -> T:
        self._journal.check_open()
        try:
            return await self._store.patiently(work)
        except UnknownOrder as gone:
            raise HistoryRefused("This turn was deleted") from gone


def _name(turn: PastTurn) -> str:
    return f"{BACK * turn.back}{turn.number}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS


def _named(turns: Sequence[PastTurn], name: str) -> PastTurn:
    """The turn of this name; without a ^ the one of this number that is the fewest forks back. Raises
    `HistoryRefused`."""
    back, number = name.count(BACK), name.lstrip(BACK)
    if _is_number(number):
        turn = turn_of(turns, int(number), back or None)
        if turn is not None:
            return turn
    known = sorted({turn.number for turn in turns if turn.back == 0})
    span = f"{known[0]} to {known[-1]}" if len(known) > 1 else str(known[0]) if known else "none"
    raise HistoryRefused(f"There is no turn {name[:40]!r} in this history; those of this session are {span}")


def _lines(turn: PastTurn, said: Sequence[SaidEntry]) -> Iterator[str]:
    root = root_record_id(turn.order_id)
    for one in said:
        if one.record_id in (None, root) or one.spoken.kind in OF_CHILDREN:
            name = f" {one.spoken.name}" if one.spoken.name else ""
            head = f"[{_name(turn)}/{one.seq} {moment(one.at):%Y-%m-%d %H:%M} {one.agent or 'person'}"
            yield f"{head} {one.spoken.kind}{name}]\n{one.spoken.text}\n"


def _piece(text: str, start: int, length: int, *, note: str) -> Piece:
    """Raises `HistoryRefused`."""
    if start and start >= len(text):
        raise HistoryRefused(f"It has {len(text):,} characters, counted from 0: start must be below {len(text)}")
    end = min(start + length, len(text))
    return Piece(text[start:end], start, end, end < len(text), note)
