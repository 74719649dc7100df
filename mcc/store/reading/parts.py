"""The entries of a journal in short: from stored parts, and where there are none yet, from the journal."""

from collections.abc import Sequence

import sqlalchemy as sa

from mcc.contracts.entry import Entry
from mcc.contracts.entry_lines import EntryLine, line_of
from mcc.contracts.ids import is_identifier
from mcc.contracts.status import OrderStatus
from mcc.store.database.engine import Database
from mcc.store.database.tables import JOURNAL_PARTS, STATE
from mcc.store.rows.order_rows import entries_numbered
from mcc.store.rows.part_rows import PART_ENTRIES, keep_part, kept_parts, packed_part
from mcc.store.rows.views import check_whole, has_status, unknown_order
from mcc.store.work.journal import JournalStore

READ_AT_ONCE = 50
"""How many entries are read from the journal at a time, so that few large ones are in memory."""

PARTS_AT_ONCE = 200
_BEHIND = (
    sa.select(STATE.c.order_id)
    .where(
        has_status(STATE.c.status, frozenset({OrderStatus.RUNNING})),
        STATE.c.last_seq
        >= PART_ENTRIES
        * (
            1
            + sa.select(sa.func.count())
            .select_from(JOURNAL_PARTS)
            .where(JOURNAL_PARTS.c.order_id == STATE.c.order_id)
            .scalar_subquery()
        ),
    )
    .order_by(STATE.c.order_id)
    .limit(sa.bindparam("most"))
)


class PartStore:
    """Every method blocks. They raise `UnknownOrder` and `JournalPruned`."""

    def __init__(self, database: Database, journal: JournalStore) -> None:
        self._database = database
        self._journal = journal

    def stored(self, order_id: str, after: int) -> Sequence[EntryLine]:
        """The lines of stored parts after entry `after`, a multiple of `PART_ENTRIES`, without a gap."""
        if not is_identifier(order_id):
            raise unknown_order(order_id)
        first = after // PART_ENTRIES
        return self._database.read(lambda connection: kept_parts(connection, order_id, first, PARTS_AT_ONCE))

    def next(self, order_id: str, after: int) -> Sequence[EntryLine]:
        """The next lines after entry `after`, up to the end of its part, from the journal; fewer where it has fewer."""
        lines: list[EntryLine] = []
        most = PART_ENTRIES - after % PART_ENTRIES
        more = True
        while more and len(lines) < most:
            wanted = min(READ_AT_ONCE, most - len(lines))
            entries = self._journal.read(order_id, after=after + len(lines), limit=wanted)
            lines += map(line_of, entries)
            more = len(entries) == wanted
        return lines

    def keep(self, order_id: str, lines: Sequence[EntryLine]) -> None:
        """Store the lines of a whole part, unless they are stored already."""
        part, packed = lines[0].seq // PART_ENTRIES, packed_part(lines)
        self._database.write(lambda connection: keep_part(connection, order_id, part, packed), repeatable=True)

    def behind(self, most: int) -> Sequence[str]:
        """Ids of running orders that have whole parts which are not stored, at most `most`."""
        return self._database.read(lambda connection: connection.execute(_BEHIND, {"most": most}).scalars().all())

    def entries(self, order_id: str, numbers: Sequence[int]) -> Sequence[Entry]:
        """The entries with these numbers, in order, as far as they are there."""

        def read(connection: sa.Connection) -> Sequence[Entry]:
            check_whole(connection, order_id)
            return entries_numbered(connection, order_id, numbers)

        return self._database.read(read)
