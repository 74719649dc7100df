"""Gives orders the words by which they are found: those placed lately, and older ones that have none yet, newest
first."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import lowest_id
from mcc.contracts.status import UNFINISHED
from mcc.store.database.direct import execute_later
from mcc.store.database.engine import Database
from mcc.store.database.tables import LIST_PROGRESS, ORDER_WORDS, ORDERS, STATE, among, size_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.views import is_status
from mcc.store.rows.words import TEXT_CHARACTERS, stored_words

AT_ONCE, OLD_AT_ONCE, BYTES_AT_ONCE = 200, 1_000, 4_000_000
"""Bounds of one transaction: orders placed lately, older ones, and bytes of what older ones say."""

READ_AT_ONCE = 20
ROUNDS = 5
"""Transactions of one sweep for orders placed lately."""

YOUNG_SECONDS = 2.0
"""Orders are left alone for this long: many end meanwhile, and get all their words at once then."""

OVERLAP_SECONDS = 60
"""So far back it is looked again for orders without words: orders are committed after they get their ids, and clocks of
services differ. An order that comes later still gets its words when it has ended."""

# Not `exists`, for which PostgreSQL might read the words of all orders into a hash table.
_ITS_NUMBER = sa.select(ORDER_WORDS.c.number).where(ORDER_WORDS.c.order_id == STATE.c.order_id)
_WORDLESS = _ITS_NUMBER.correlate(STATE).scalar_subquery().is_(None)


def _recent() -> sa.Select[Any]:
    """Unfinished orders without words, oldest first; in one statement, as an order changes its status meanwhile."""
    parts = [
        sa.select(STATE.c.order_id)
        .where(
            is_status(STATE.c.status, status),
            STATE.c.order_id > sa.bindparam("above"),
            STATE.c.order_id < sa.bindparam("below"),
            _WORDLESS,
        )
        .order_by(STATE.c.order_id)
        .limit(AT_ONCE)
        .subquery()
        for status in sorted(UNFINISHED)
    ]
    either = sa.union_all(*(sa.select(part.c.order_id) for part in parts)).subquery("recent")
    return sa.select(either.c.order_id).order_by(either.c.order_id).limit(AT_ONCE)


_RECENT = _recent()
_OLDER = (
    sa.select(
        ORDERS.c.id, (size_of(ORDERS.c.spec_json) + sa.func.coalesce(size_of(ORDERS.c.outcome_json), 0)).label("size")
    )
    .where(ORDERS.c.id < sa.bindparam("below"))
    .order_by(ORDERS.c.id.desc())
    .limit(OLD_AT_ONCE)
)
_SAID = sa.select(ORDERS.c.id, ORDERS.c.spec_json, ORDERS.c.outcome_json).where(among(ORDERS.c.id, "ids"))
# Until the transaction ends nobody deletes these orders; everything else about them may change.
_STILL = sa.select(ORDERS.c.id).where(among(ORDERS.c.id, "ids")).with_for_update(read=True, key_share=True)
_TAKEN = sa.select(ORDER_WORDS.c.number, ORDER_WORDS.c.order_id).where(
    sa.or_(among(ORDER_WORDS.c.number, "numbers"), among(ORDER_WORDS.c.order_id, "ids"))
)
_INSERT = (
    "INSERT INTO order_words (number, order_id, words) VALUES (:number, :order_id, :words) ON CONFLICT (order_id) DO"
)
_ADD = sa.text(f"{_INSERT} NOTHING")
_REPLACE = sa.text(f"{_INSERT} UPDATE SET words = excluded.words")
_REACHED = sa.select(LIST_PROGRESS.c.name, LIST_PROGRESS.c.reached)
_UPTO = sa.text(
    "INSERT INTO list_progress (name, reached) VALUES ('words_upto', :reached)"
    " ON CONFLICT (name) DO UPDATE SET reached = excluded.reached WHERE list_progress.reached < excluded.reached"
)
_WAS_AT = (LIST_PROGRESS.c.name == "words", LIST_PROGRESS.c.reached == sa.bindparam("was"))
_GO_ON = sa.update(LIST_PROGRESS).where(*_WAS_AT).values(reached=sa.bindparam("now"))
_DONE = sa.delete(LIST_PROGRESS).where(*_WAS_AT)


@dataclass(frozen=True, slots=True)
class WordsOfOrder:
    """The words of an order's prompt and, once it has ended, of its answer."""

    order_id: str
    words: str


class OrderWords:
    def __init__(self, database: Database, *, older_bytes: int = BYTES_AT_ONCE) -> None:
        self._database = database
        self._older_bytes = older_bytes

    def of(self, order_ids: Sequence[str]) -> Sequence[WordsOfOrder]:
        """The words of these orders, by their ids; those that are gone are left out."""
        words: list[WordsOfOrder] = []
        ids = sorted(order_ids)
        # A few at a time, as what one order says may have megabytes.
        for start in range(0, len(ids), READ_AT_ONCE):
            wanted = {"ids": ids[start : start + READ_AT_ONCE]}
            rows = self._database.read(lambda one: one.execute(_SAID, wanted).all())  # noqa: B023
            for row in sorted(rows, key=lambda row: str(row.id)):
                answer = parsed(row.outcome_json).get("answer") if row.outcome_json else None
                said = (parsed(row.spec_json).get("prompt", ""), answer or "")
                words.append(WordsOfOrder(row.id, f" {' '.join(map(stored_words, said))} "))
        return words

    def advance(self, *, young_seconds: float = YOUNG_SECONDS) -> int:
        """Give words to some orders placed more than `young_seconds` ago that have not ended, and to some older ones of
        a version before; answers how many were looked at."""
        reached = self._database.read(
            lambda connection: {row.name: row.reached for row in connection.execute(_REACHED)}
        )
        looked = 0
        upto = reached.get("words_upto")
        for _ in range(ROUNDS):
            recent = self._recent(upto, young_seconds)
            looked += len(recent)
            if len(recent) < AT_ONCE:
                break
            upto = max(upto or "", recent[-1])
        return looked + (self._older(reached["words"]) if "words" in reached else 0)

    def _recent(self, upto: str | None, young_seconds: float) -> Sequence[str]:
        # The clock by which ids are made, which no test sets.
        now = time.time_ns() // 1_000_000
        reached = 0 if upto is None else int(upto.replace("-", ""), 16) >> 80
        above = lowest_id(reached - 1_000 * OVERLAP_SECONDS)
        between = {"above": above, "below": lowest_id(now + 1 - round(1_000 * young_seconds))}
        ids = self._database.read(lambda connection: connection.execute(_RECENT, between).scalars().all())
        if not ids:
            return ()
        words = self.of(ids)

        def add(connection: Connection) -> None:
            add_words(connection, words, ended=False)
            execute_later(connection, _UPTO, {"reached": ids[-1]})

        self._database.write(add, repeatable=True)
        return ids

    def _older(self, below: str) -> int:
        ids = self._database.read(lambda connection: self._fitting(connection, below))
        words = self.of(ids)

        def add(connection: Connection) -> None:
            add_words(connection, words, ended=False)
            if ids:
                connection.execute(_GO_ON, {"was": below, "now": ids[-1]})
            else:
                connection.execute(_DONE, {"was": below})

        self._database.write(add, repeatable=True)
        return len(ids)

    def _fitting(self, connection: Connection, below: str) -> Sequence[str]:
        ids: list[str] = []
        size = 0
        for row in connection.execute(_OLDER, {"below": below}):
            size += min(row.size, 2 * TEXT_CHARACTERS)
            if ids and size > self._older_bytes:
                break
            ids.append(row.id)
        return ids


def add_words(connection: Connection, words: Sequence[WordsOfOrder], *, ended: bool) -> None:
    """Store the words of orders that are still there, sorted by their ids. `ended`: in place of those that they have,
    which are of their prompts alone; else orders that have words keep them."""
    still = set(connection.execute(_STILL, {"ids": [each.order_id for each in words]}).scalars()) if words else ()
    rows = [{"order_id": each.order_id, "words": each.words} for each in words if each.order_id in still]
    if rows:
        numbers = _numbers(connection, [each.order_id for each in words if each.order_id in still])
        execute_later(
            connection, _REPLACE if ended else _ADD, [{**row, "number": numbers[row["order_id"]]} for row in rows]
        )


def _numbers(connection: Connection, order_ids: Sequence[str]) -> Mapping[str, int]:
    """The numbers that these orders have, or get: the first 63 bits that tell ids apart, or the next free number."""
    wanted = {order_id: _number(order_id) for order_id in order_ids}
    near = [number + more for number in wanted.values() for more in range(2)]
    taken = {row.order_id: row.number for row in connection.execute(_TAKEN, {"numbers": near, "ids": order_ids})}
    used, numbers = set(taken.values()), dict[str, int]()
    for order_id, number in wanted.items():
        if order_id not in taken:
            while number in used:
                number += 1
            used.add(number)
        numbers[order_id] = taken.get(order_id, number)
    return numbers


def _number(order_id: str) -> int:
    """Time and fraction of the id (48 and 12 bits, see `fresh_id`), and the first ten of its random bits. Time counts
    from 2020, so that 63 bits last until 2089."""
    value = int(order_id.replace("-", ""), 16)
    milliseconds = max(0, (value >> 80) - 1_577_836_800_000)
    fraction, random_bits = value >> 64 & 0xFFF, value >> 52 & 0x3FF
    return milliseconds << 22 | fraction << 10 | random_bits
