"""Counts what ended orders used, and gives them the words by which they are found."""

from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.engine import Database
from mcc.store.database.tables import USAGE_OUTBOX
from mcc.store.rows.usage_rows import count_usage
from mcc.store.upkeep.order_words import OrderWords, WordsOfOrder, add_words

AT_ONCE = 200
"""Orders of one transaction."""

ROUNDS = 10
"""Transactions of one sweep: it has to be quick, and the next one comes soon."""

_ENDED = sa.select(USAGE_OUTBOX.c.order_id).order_by(USAGE_OUTBOX.c.order_id).limit(AT_ONCE)


class Tallying:
    def __init__(self, database: Database, words: OrderWords) -> None:
        self._database = database
        self._words = words

    def advance(self) -> int:
        """Count orders that have ended and are not counted; answers how many. Several processes may do so at once."""
        total = 0
        for _ in range(ROUNDS):
            ended = self._database.read(lambda connection: connection.execute(_ENDED).scalars().all())
            if not ended:
                break
            # Split into words before the transaction, which on SQLite nobody else can write beside.
            words = self._words.of(ended)
            counted = self._database.write(partial(_count, ended=ended, words=words), repeatable=True)
            total += len(counted)
            if len(ended) < AT_ONCE or not counted:
                break
        return total


def _count(connection: Connection, ended: Sequence[str], words: Sequence[WordsOfOrder]) -> Sequence[str]:
    counted = count_usage(connection, ended)
    if counted:
        taken = set(counted)
        add_words(connection, [each for each in words if each.order_id in taken], ended=True)
    return counted
