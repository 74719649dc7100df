"""The history of sessions: searched by words, and read entry by entry, by agents and by people."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import fact_of
from mcc.contracts.history import HistoryFound, HistoryMatch, HistoryTurn
from mcc.contracts.order import WorkOrder
from mcc.store.database.clock import moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import StoreUnavailable
from mcc.store.database.tables import HISTORY, JOURNAL, ORDERS, SESSIONS, TEXT_USES, among
from mcc.store.history.indexing import PAGE, Indexer, Redact, SaidPage, said_after, stored_words_of
from mcc.store.history.ranking import best_matches
from mcc.store.history.scope import PastTurn, turns_before, turns_of
from mcc.store.history.spoken import EntryText, excerpt_of, spoken_in
from mcc.store.rows.order_rows import kept_blobs
from mcc.store.rows.packs import rows_in_pack
from mcc.store.rows.session_rows import session_row
from mcc.store.rows.texts import digests, whole
from mcc.store.rows.views import unknown_order
from mcc.store.rows.words import Term, terms_of

CATCH_UP_SECONDS = 5.0
"""How long a search reads journals that are not indexed yet."""

ALIKE = 4
"""So many times as many matches are looked at as are answered: some repeat what another one of their order says."""

_MATCHED = sa.select(HISTORY).where(among(HISTORY.c.id, "numbers"))
_ENTRIES = sa.select(JOURNAL).where(JOURNAL.c.order_id == sa.bindparam("of"), among(JOURNAL.c.seq, "numbers"))
_OF_RECORD = (
    sa.select(HISTORY.c.order_id)
    .where(among(HISTORY.c.order_id, "owners"), HISTORY.c.record_id == sa.bindparam("record"))
    .limit(1)
)
_TURN = ORDERS.alias("turn")
_COMPACTING = (
    sa.select(ORDERS.c.id)
    .join(SESSIONS, SESSIONS.c.id == ORDERS.c.session_id)
    .where(SESSIONS.c.compacts.in_(sa.select(_TURN.c.session_id).where(among(_TURN.c.id, "owners"))))
)
"""The orders that compact the sessions of these turns: what they put away is theirs."""
_TEXTS = (
    sa.select(TEXT_USES.c.digest)
    .where(
        TEXT_USES.c.digest >= sa.bindparam("handle"),
        TEXT_USES.c.digest < sa.bindparam("beyond"),
        sa.or_(among(TEXT_USES.c.owner, "owners"), TEXT_USES.c.owner.in_(_COMPACTING)),
    )
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that a search found. `item` shows it; `back`: see `PastTurn`."""

    item: HistoryMatch
    back: int


@dataclass(frozen=True, slots=True)
class Matches:
    """Best match first. `not_searched`: turns whose journals were not read in time, `pruned`: those that have none."""

    matches: Sequence[Match]
    not_searched: Sequence[PastTurn]
    pruned: Sequence[PastTurn]

    @property
    def found(self) -> HistoryFound:
        """The same as people are told it."""
        return HistoryFound(
            items=tuple(match.item for match in self.matches),
            not_searched=tuple(sorted({turn.number for turn in self.not_searched})),
            pruned=tuple(sorted({turn.number for turn in self.pruned})),
            turns_not_searched=tuple(map(_named, self.not_searched)),
            turns_pruned=tuple(map(_named, self.pruned)),
        )


class HistoryStore:
    """Every method blocks. `redact` removes secrets from what is indexed and answered."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._indexer = Indexer(database)

    def before(self, order: WorkOrder) -> Sequence[PastTurn]:
        """What agents of this order may read, newest first: see `turns_before`."""
        return self._database.read(lambda connection: turns_before(connection, order))

    def of_session(self, session_id: str) -> Sequence[PastTurn]:
        """What people may read of a session, newest first: see `turns_of`. Raises `UnknownSession`."""

        def turns(connection: Connection) -> Sequence[PastTurn]:
            session_row(connection, session_id)
            return turns_of(connection, session_id)

        return self._database.read(turns)

    def index(self, turns: Iterable[PastTurn], redact: Redact, seconds: float = CATCH_UP_SECONDS) -> Sequence[PastTurn]:
        """Make what these turns said findable; answers the turns that were not done within `seconds`."""
        return self._indexer.index(turns, redact, seconds)

    def search(
        self,
        turns: Sequence[PastTurn],
        question: str,
        redact: Redact,
        *,
        limit: int = 10,
        seconds: float = CATCH_UP_SECONDS,
        asker: str | None = None,
    ) -> Matches:
        """Entries of these turns that have at least one word of the question, the best `limit`.

        Turns that are not indexed yet are, for at most `seconds`. `asker`: the order that searches. Its prompt comes
        last: questions repeat its words, and it is shown to whoever asks.
        """
        try:
            late = self.index(turns, redact, seconds)
        except StoreUnavailable:
            # What is indexed can be searched also while nothing can be written.
            late = [turn for turn in turns if turn.indexed < turn.last_seq]
        terms = terms_of(question)
        by_order = {turn.order_id: turn for turn in turns}

        def matches(connection: Connection) -> Sequence[Match]:
            numbers = best_matches(connection, turns, terms, limit * ALIKE)
            rows = {row.id: row for row in connection.execute(_MATCHED, {"numbers": numbers})}
            once: dict[tuple[str, str], Any] = {}
            for row in (rows[number] for number in numbers if number in rows):
                once.setdefault((row.order_id, row.words), row)
            # Sorting keeps the rank of all others.
            best = sorted(once.values(), key=lambda row: row.order_id == asker and row.kind == "prompt")[:limit]
            texts = _texts(connection, [(by_order[row.order_id], row.seq) for row in best])
            return [
                _match(row, by_order[row.order_id], spoken, redact, terms)
                for row in best
                if (spoken := texts.get((row.order_id, row.seq))) is not None
            ]

        return Matches(self._database.read(matches), late, [turn for turn in turns if turn.pruned])

    def said(self, turn: PastTurn, after: int, limit: int = PAGE) -> SaidPage:
        """What the entries of a turn after number `after` say; see `said_after`. Raises `UnknownOrder`."""

        def page(connection: Connection) -> SaidPage:
            stored = stored_words_of(connection, turn.order_id)
            if stored is None:
                raise unknown_order(turn.order_id)
            return said_after(connection, turn, stored, after, limit)

        return self._database.read(page)

    def order_of(self, turns: Sequence[PastTurn], record_id: str) -> str | None:
        """The order among these turns to which the record of an agent belongs, as far as they are indexed; None when
        there is none."""
        among_turns = {"record": record_id, "owners": [turn.order_id for turn in turns]}
        return self._database.read(lambda connection: connection.execute(_OF_RECORD, among_turns).scalar())

    def artifact(self, turns: Sequence[PastTurn], handle: str) -> str | None:
        """The digest of a text of these turns that begins with `handle`; None when there is none."""
        span = {"handle": handle, "beyond": f"{handle}g", "owners": [turn.order_id for turn in turns]}
        return self._database.read(lambda connection: connection.execute(_TEXTS, span).scalar())


def _named(turn: PastTurn) -> HistoryTurn:
    return HistoryTurn(turn=turn.number, order_id=turn.order_id, session_id=turn.session_id, back=turn.back)


def _match(row: Any, turn: PastTurn, spoken: EntryText, redact: Redact, terms: Sequence[Term]) -> Match:
    excerpt = excerpt_of(redact(spoken.text), terms)
    item = HistoryMatch(
        turn=turn.number,
        order_id=turn.order_id,
        seq=row.seq,
        record_id=row.record_id,
        agent=row.agent,
        kind=row.kind,
        at=moment(row.at),
        excerpt=f"{spoken.name}: {excerpt}" if spoken.name else excerpt,
        left_out=turn.left_out,
        back=turn.back,
    )
    return Match(item, turn.back)


def _texts(connection: Connection, wanted: Iterable[tuple[PastTurn, int]]) -> Mapping[tuple[str, int], EntryText]:
    """What these entries say, by order and number."""
    numbers: defaultdict[PastTurn, list[int]] = defaultdict(list)
    for turn, seq in wanted:
        numbers[turn].append(seq)
    texts: dict[tuple[str, int], EntryText] = {}
    for turn, seqs in numbers.items():
        stored = stored_words_of(connection, turn.order_id)
        if stored is None:
            continue
        rows: Sequence[Any] = connection.execute(_ENTRIES, {"of": turn.order_id, "numbers": seqs}).all()
        rows = rows or [row for row in rows_in_pack(connection, turn.order_id) if row.seq in seqs]
        blobs = kept_blobs(connection, digests(row.large_json for row in rows))
        if turn.pruned:
            texts |= {(turn.order_id, seq): EntryText("answer", stored.answer or "") for seq in seqs}
            texts[turn.order_id, 1] = EntryText("prompt", stored.prompt)
        for row in rows:
            fact = fact_of(row.kind, whole(row.data_json, row.large_json, blobs))
            spoken = spoken_in(fact, of_root=row.parent_id is None, prompt=stored.prompt)
            if spoken is not None:
                texts[turn.order_id, row.seq] = spoken
    return texts
