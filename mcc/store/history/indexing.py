"""Fills the index of the history from journals, a page at a time, each page in a transaction of its own."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.clock import micros
from mcc.store.database.direct import execute_later
from mcc.store.database.engine import Database
from mcc.store.database.tables import HISTORY, ORDERS
from mcc.store.history.scope import PastTurn
from mcc.store.history.spoken import LASTING, EntryText, spoken_in
from mcc.store.rows.order_rows import entries_after
from mcc.store.rows.texts import parsed
from mcc.store.rows.words import session_word, stored_words

PAGE = 200
"""Entries that are read and indexed at a time."""

EPOCH_MILLISECONDS = 1_577_836_800_000
"""2020, from which on the numbers of entries count; 63 bits last until 2089."""

Redact = Callable[[str], str]
"""Removes secrets from a text."""

_ADD = sa.text(
    "INSERT INTO history_entries (id, session_id, order_id, seq, turn, record_id, agent, kind, at, words) VALUES"
    " (:id, :session_id, :order_id, :seq, :turn, :record_id, :agent, :kind, :at, :words) ON CONFLICT DO NOTHING"
)
_REACHED = sa.text(
    "INSERT INTO history_indexed (order_id, seq) VALUES (:order_id, :seq)"
    " ON CONFLICT (order_id) DO UPDATE SET seq = excluded.seq WHERE history_indexed.seq < excluded.seq"
)
# Shared with those who mark a journal as pruned: what they then remove from the index is all that there is.
_IS_PRUNED = sa.select(ORDERS.c.pruned_at).where(ORDERS.c.id == sa.bindparam("wanted")).with_for_update(read=True)
_STORED = sa.select(ORDERS.c.spec_json, ORDERS.c.outcome_json).where(ORDERS.c.id == sa.bindparam("wanted"))
_FORGET = sa.delete(HISTORY).where(HISTORY.c.order_id == sa.bindparam("of"), HISTORY.c.kind.not_in(sorted(LASTING)))


class StoredWords(NamedTuple):
    """What is stored of an order beside its journal."""

    prompt: str
    answer: str | None


class Indexer:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def index(self, turns: Iterable[PastTurn], redact: Redact, seconds: float) -> Sequence[PastTurn]:
        """Index what these turns said and is not indexed yet; answers those that were not done within `seconds`, as far
        as each is indexed by then."""
        until = time.monotonic() + seconds
        late: list[PastTurn] = []
        pages: list[_IndexedPage] = []
        for turn in (turn for turn in turns if turn.indexed < turn.last_seq):
            reached = turn.indexed
            for page in self._pages(turn, redact, until):
                pages.append(page)
                reached = page.reached
                # Short turns share a transaction: each commit waits for the disk.
                if sum(len(page.rows) + 1 for page in pages) >= PAGE:
                    self._write(pages)
                    pages.clear()
            if reached < turn.last_seq:
                late.append(replace(turn, indexed=reached))
        self._write(pages)
        return late

    def _pages(self, turn: PastTurn, redact: Redact, until: float) -> Iterator["_IndexedPage"]:
        """What is not indexed of a turn, page by page, until the time is over."""
        if time.monotonic() >= until:
            return
        stored = self._database.read(lambda connection: stored_words_of(connection, turn.order_id))
        if stored is None:
            yield _IndexedPage(turn.order_id, (), turn.last_seq, False)
            return
        reached = turn.indexed
        while reached < turn.last_seq and time.monotonic() < until:
            page = self._database.read(partial(said_after, turn=turn, stored=stored, after=reached))
            rows = [_row(turn, said, redact(f"{said.spoken.name} {said.spoken.text}")) for said in page.said]
            reached = page.reached
            yield _IndexedPage(turn.order_id, rows, reached, page.is_whole)

    def _write(self, pages: Sequence["_IndexedPage"]) -> None:
        def add(connection: Connection) -> None:
            for page in pages:
                order = connection.execute(_IS_PRUNED, {"wanted": page.order_id}).first()
                if order is None or (order.pruned_at is not None and page.is_whole):
                    continue
                if page.rows:
                    execute_later(connection, _ADD, list(page.rows))
                execute_later(connection, _REACHED, {"order_id": page.order_id, "seq": page.reached})

        if pages:
            self._database.write(add, repeatable=True)


class _IndexedPage(NamedTuple):
    """Rows for the index, of the entries of an order up to number `reached`; see `SaidPage`."""

    order_id: str
    rows: Sequence[dict[str, Any]]
    reached: int
    is_whole: bool


class SaidEntry(NamedTuple):
    """What an entry says, which one it is, and whose."""

    seq: int
    at: int
    record_id: str | None
    agent: str | None
    spoken: EntryText


class SaidPage(NamedTuple):
    """What entries up to number `reached` say. `is_whole`: none of them was pruned."""

    said: Sequence[SaidEntry]
    reached: int
    is_whole: bool


def said_after(connection: Connection, turn: PastTurn, stored: StoredWords, after: int, limit: int = PAGE) -> SaidPage:
    """What the next entries of a turn say. Of a pruned one all that is left, at once."""
    entries = entries_after(connection, turn.order_id, after, limit)
    said = [
        SaidEntry(entry.seq, micros(entry.at), entry.record_id, entry.agent, spoken)
        for entry in entries
        if (spoken := spoken_in(entry.data, of_root=entry.parent_id is None, prompt=stored.prompt)) is not None
    ]
    if not turn.pruned and entries and entries[0].seq == after + 1:
        return SaidPage(said, entries[-1].seq, True)
    first = SaidEntry(1, turn.at, None, None, EntryText("prompt", stored.prompt))
    left = [first, *(entry for entry in said if entry.spoken.kind == "steer")]
    if stored.answer is not None:
        left.append(SaidEntry(turn.last_seq, turn.at, None, None, EntryText("answer", stored.answer)))
    return SaidPage(left, turn.last_seq, False)


def _row(turn: PastTurn, said: SaidEntry, text: str) -> dict[str, Any]:
    of_order = int(hashlib.sha256(turn.order_id.encode()).hexdigest()[:3], 16)
    milliseconds = max(0, said.at // 1_000 - EPOCH_MILLISECONDS)
    return {
        # Newer ones are larger. Two have the same number if they are of one millisecond, their numbers in their
        # journals alike in ten bits, and their orders in twelve of a digest: the second is not indexed then.
        "id": milliseconds << 22 | of_order << 10 | said.seq & 1023,
        "session_id": turn.session_id,
        "order_id": turn.order_id,
        "seq": said.seq,
        "turn": turn.number,
        "record_id": said.record_id,
        "agent": said.agent,
        "kind": said.spoken.kind,
        "at": said.at,
        "words": f"{session_word(turn.session_id)} {stored_words(text)}",
    }


def stored_words_of(connection: Connection, order_id: str) -> StoredWords | None:
    """Prompt and answer as the order's row has them; None when the order is gone."""
    row = connection.execute(_STORED, {"wanted": order_id}).first()
    if row is None:
        return None
    outcome = parsed(row.outcome_json) if row.outcome_json else {}
    return StoredWords(parsed(row.spec_json)["prompt"], outcome.get("answer"))


def forget_pruned(connection: Connection, order_id: str) -> None:
    """Remove from the index what a pruned journal does not have any more."""
    connection.execute(_FORGET, {"of": order_id})
