"""What people say to a session when no turn of it runs any more: kept until its next turn is placed, which shows it."""

from collections.abc import Sequence

import sqlalchemy as sa
from pydantic import TypeAdapter
from sqlalchemy.engine import Connection

from mcc.contracts.order import OrderKind
from mcc.contracts.questions import SessionWords
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros
from mcc.store.database.direct import execute_later
from mcc.store.database.tables import SESSION_WORDS
from mcc.store.rows.texts import parsed

MOST_CHARACTERS = 50_000
"""How many characters of words a turn is shown above its prompt; the rest waits for the turn after it."""

_ALL: TypeAdapter[tuple[SessionWords, ...]] = TypeAdapter(tuple[SessionWords, ...])
_ADD = sa.insert(SESSION_WORDS)
_WAITING = (
    sa.select(SESSION_WORDS.c.id, SESSION_WORDS.c.words_json)
    .where(SESSION_WORDS.c.session_id == sa.bindparam("of"), SESSION_WORDS.c.taken_by.is_(None))
    .order_by(SESSION_WORDS.c.said_at, SESSION_WORDS.c.id)
    .limit(1_000)
)
_TAKE = (
    sa.update(SESSION_WORDS)
    .where(SESSION_WORDS.c.id == sa.bindparam("wanted"))
    .values(taken_by=sa.bindparam("by_order"))
)


def words_in(text: str | None) -> tuple[SessionWords, ...]:
    """The words in a column."""
    return _ALL.validate_python(parsed(text)) if text else ()


def add_words(
    connection: Connection,
    id: str,
    session_id: str,
    words: Sequence[SessionWords],
    *,
    steered: str | None = None,
) -> None:
    """Keep words for the session's next turn. `id`: the control or question that brought them. `steered`: they became a
    steer of this order instead, which is only noted."""
    row = {
        "id": id,
        "session_id": session_id,
        "words_json": to_json(list(words)).decode(),
        "became": "next_turn" if steered is None else "steer",
        "said_at": micros(words[0].at),
        "taken_by": steered,
    }
    execute_later(connection, _ADD, row)


def take_words(connection: Connection, session_id: str, order_id: str) -> tuple[SessionWords, ...]:
    """The words that wait for the session's next turn, oldest first; from now on they are those of this order. The
    caller holds the session's lock."""
    taken: list[SessionWords] = []
    room = MOST_CHARACTERS
    for row in connection.execute(_WAITING, {"of": session_id}).all():
        words = words_in(row.words_json)
        room -= sum(len(said.text) for said in words)
        if taken and room < 0:
            break
        taken += words
        connection.execute(_TAKE, {"wanted": row.id, "by_order": order_id})
    return tuple(taken)


def reads_words(kind: object) -> bool:
    """Whether an order of this kind has an agent that is shown words above its prompt; None: the default kind."""
    return kind in (None, OrderKind.CHAT, OrderKind.CHAT.value)
