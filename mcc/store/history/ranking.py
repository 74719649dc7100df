"""Which entries match a question best: alike on both databases, as each only says which entries have a word."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from heapq import nsmallest

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.tables import HISTORY, among
from mcc.store.history.scope import PastTurn
from mcc.store.rows.words import Term, having_all, session_word

MOST_WITH_A_WORD = 5_000
"""Entries that a word may have. A more common one says little: it counts only where no word of the question is rarer,
and then in the entries that have all of them, and in the newest that have one."""

_HAVING = {
    # Materialized, so that the words of an entry are never split anew to see whether it has one.
    "postgresql": sa.text(
        "WITH found AS MATERIALIZED (SELECT id, order_id FROM history_entries"
        " WHERE to_tsvector('simple', words) @@ to_tsquery('simple', :query))"
        " SELECT id FROM found WHERE order_id = ANY (CAST(:ids AS text[])) ORDER BY id DESC LIMIT :most"
    ),
    "sqlite": sa.text(
        "SELECT e.id FROM history_words w JOIN history_entries e ON e.id = w.rowid"
        " WHERE history_words MATCH :query AND e.order_id IN (SELECT value FROM json_each(:ids))"
        " ORDER BY w.rowid DESC LIMIT :most"
    ),
}
_COUNT = sa.select(sa.func.count()).select_from(HISTORY).where(among(HISTORY.c.order_id, "ids"))


def best_matches(
    connection: Connection,
    turns: Sequence[PastTurn],
    terms: Sequence[Term],
    most: int,
    *,
    common: int = MOST_WITH_A_WORD,
) -> Sequence[int]:
    """Numbers of the entries of these turns that have at least one of the words, best first, then newest.

    An entry counts the more, the more of the words it has, and the rarer these are in the turns. `common`: a word that
    more entries have is left out where another one is rarer.
    """
    ids = [turn.order_id for turn in turns]
    if not ids or not terms:
        return ()
    sessions = sorted({session_word(turn.session_id) for turn in turns})
    matches = {term: _having(connection, sessions, ids, [term], common + 1) for term in terms}
    rare = {term: having for term, having in matches.items() if 0 < len(having) <= common}
    total = connection.execute(_COUNT, {"ids": ids}).scalar_one()
    scores: defaultdict[int, int] = defaultdict(int)
    weights = 0
    for having in (rare or matches).values():
        # A whole number, so that the sequence in which they are added does not matter.
        weight = round(1_000 * math.log1p(total / len(having))) if having else 0
        weights += weight
        for number in having[:common]:
            scores[number] += weight
    if not rare and len(terms) > 1:
        scores |= dict.fromkeys(_having(connection, sessions, ids, terms, common), weights)
    return nsmallest(most, scores, key=lambda number: (-scores[number], -number))


def _having(
    connection: Connection, sessions: Sequence[str], ids: Sequence[str], terms: Sequence[Term], most: int
) -> Sequence[int]:
    """The newest entries that have all of these words."""
    is_postgres = connection.dialect.name == "postgresql"
    quote, also, either = ("'", "&", "|") if is_postgres else ('"', "AND", "OR")
    any_session = f" {either} ".join(f"{quote}{word}{quote}" for word in sessions)
    query = f"({any_session}) {also} {having_all(terms, connection.dialect.name)}"
    parameters = {"query": query, "ids": list(ids) if is_postgres else json.dumps(ids), "most": most}
    return connection.execute(_HAVING[connection.dialect.name], parameters).scalars().all()
