"""Sessions: conversations whose turns are orders, and the context that earlier turns give to a new one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import EarlierTurn, NewSession, OrderOrigin, Session, WorkOrder
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, UnknownSession
from mcc.store.database.tables import JOURNAL, ORDERS, SESSIONS, STATE, among
from mcc.store.rows.order_rows import kept_blobs, text_json, text_of
from mcc.store.rows.packs import packs_of
from mcc.store.rows.texts import digests, parsed, whole
from mcc.store.rows.values import Page
from mcc.store.rows.views import has_status

MOST_TURNS = 200
"""The most earlier turns in a context, however short they are."""

LEFT_OUT = "\n[… {} characters are left out …]\n"


@dataclass(frozen=True, slots=True)
class TurnPlace:
    """The place of an order in its session, and the order it was derived from, if any."""

    session_id: str
    session_seq: int
    origin: OrderOrigin | None


AT_ONCE = 20
"""Turns per query; few, because prompts may be long."""

_PLACES = sa.select(ORDERS.c.session_id, ORDERS.c.session_seq, ORDERS.c.origin_json)
_WANTED = _PLACES.where(ORDERS.c.id == sa.bindparam("wanted"))
_FIRST = _PLACES.where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.session_seq).limit(1)
_TURNS = (
    sa.select(
        ORDERS.c.id,
        ORDERS.c.session_seq,
        ORDERS.c.spec_json,
        ORDERS.c.outcome_json,
        STATE.c.status,
        sa.or_(STATE.c.control_seq > 0, ORDERS.c.origin_json.is_not(None)).label("steered"),
    )
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(
        ORDERS.c.session_id == sa.bindparam("of"),
        ORDERS.c.session_seq < sa.bindparam("before"),
        ORDERS.c.left_out.is_(False),
        has_status(STATE.c.status, FINAL),
    )
    .order_by(ORDERS.c.session_seq.desc())
    .limit(AT_ONCE)
)
_STEERS = (
    sa.select(JOURNAL.c.order_id, JOURNAL.c.data_json, JOURNAL.c.large_json)
    .where(
        among(JOURNAL.c.order_id, "ids"),
        JOURNAL.c.kind == ControlApplied.kind,
        JOURNAL.c.record_id.is_not(None),
        JOURNAL.c.parent_id.is_(None),
    )
    .order_by(JOURNAL.c.order_id, JOURNAL.c.seq)
)


class History:
    """Reads earlier turns of sessions backwards, a few at a time, through one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def place(self, order_id: str) -> TurnPlace:
        return _place(self._connection.execute(_WANTED, {"wanted": order_id}).mappings().one())

    def first(self, session_id: str) -> TurnPlace:
        return _place(self._connection.execute(_FIRST, {"of": session_id}).mappings().one())

    def before(self, place: TurnPlace) -> Iterator[EarlierTurn]:
        """Earlier turns of the same session, newest first, that have ended and were not rolled back."""
        before = place.session_seq
        # A few at a time: a session may have thousands of turns, of which some dozen fit into a context.
        while rows := self._connection.execute(_TURNS, {"of": place.session_id, "before": before}).mappings().all():
            steers = self._steers({row["id"]: row["steered"] for row in rows})
            yield from (_turn(row, steers[row["id"]]) for row in rows)
            before = rows[-1]["session_seq"]

    def _steers(self, steered: Mapping[str, bool]) -> defaultdict[str, list[str]]:
        """The steering messages that people sent to the masters of these orders, by order id.

        `steered`: whether an order may have any; packs of the others are not opened.
        """
        rows: list[Any] = list(self._connection.execute(_STEERS, {"ids": list(steered)}))
        others = sorted({order_id for order_id, may in steered.items() if may} - {row.order_id for row in rows})
        packed = packs_of(self._connection, others) if others else []
        rows += [row for row in packed if row.kind == ControlApplied.kind and row.record_id and not row.parent_id]
        blobs = kept_blobs(self._connection, digests(row.large_json for row in rows))
        messages: defaultdict[str, list[str]] = defaultdict(list)
        for row in rows:
            data = whole(row.data_json, row.large_json, blobs)
            if data["control"] == "steer" and data.get("message"):
                messages[row.order_id].append(data["message"])
        return messages


def _place(row: sa.RowMapping) -> TurnPlace:
    origin = OrderOrigin.model_validate(parsed(row["origin_json"])) if row["origin_json"] else None
    return TurnPlace(row["session_id"], row["session_seq"], origin)


def _turn(row: sa.RowMapping, steers: Sequence[str]) -> EarlierTurn:
    outcome = parsed(row["outcome_json"]) if row["outcome_json"] else {}
    return EarlierTurn(
        order_id=row["id"],
        session_seq=row["session_seq"],
        prompt=with_steers(parsed(row["spec_json"])["prompt"], steers),
        status=OrderStatus(row["status"]),
        answer=outcome.get("answer"),
    )


_ADD = sa.insert(SESSIONS)
_ONE = sa.select(SESSIONS).where(SESSIONS.c.id == sa.bindparam("wanted"))


def context(order: WorkOrder, history: History, characters: int) -> Sequence[EarlierTurn]:
    """See `SessionStore.context`."""
    place = TurnPlace(order.session_id, order.session_seq, order.origin)
    return newest(_backwards(place, history), characters)


def newest(turns: Iterable[EarlierTurn], characters: int) -> Sequence[EarlierTurn]:
    """The newest turns without gaps that fit into `characters`, `MOST_TURNS` at most, oldest first. `turns` is sorted
    newest first.

    If even the newest turn does not fit, it alone is answered, shortened.
    """
    kept: list[EarlierTurn] = []
    for turn in islice(turns, MOST_TURNS):
        if not kept and turn.characters > characters:
            return [_shortened(turn, characters)]
        characters -= turn.characters
        # No gaps: an earlier turn that would still fit says little without the one that is left out.
        if characters < 0:
            break
        kept.append(turn)
    return kept[::-1]


def with_steers(prompt: str, steers: Iterable[str]) -> str:
    """A turn's prompt, followed by the steering messages of people."""
    return "\n\n".join((prompt, *steers))


def _backwards(place: TurnPlace, history: History) -> Iterator[EarlierTurn]:
    """The earlier turns that a turn builds on, newest first.

    A session that a fork opened continues with the turns before the fork's source. A retry leaves out the turn that it
    repeats.
    """
    repeated = frozenset(_retried(place, history))
    while True:
        yield from (turn for turn in history.before(place) if turn.order_id not in repeated)
        # Of the session's first order: a fork opens a session, and only its first turn knows what it was forked from.
        origin = history.first(place.session_id).origin
        if origin is None or origin.kind != "fork":
            return
        place = history.place(origin.order_id)


def _retried(place: TurnPlace, history: History) -> Iterator[str]:
    """The ids of the orders that this one retries, directly or through other retries."""
    while place.origin is not None and place.origin.kind == "retry":
        yield place.origin.order_id
        place = history.place(place.origin.order_id)


def _shortened(turn: EarlierTurn, characters: int) -> EarlierTurn:
    """The turn with prompt and answer cut to half of `characters` each; a mark states how much is missing."""
    answer = None if turn.answer is None else _ends_of(turn.answer, characters // 2)
    return turn.model_copy(update={"prompt": _ends_of(turn.prompt, characters // 2), "answer": answer})


def _ends_of(text: str, characters: int) -> str:
    """The text, or its beginning and its end if it is longer than `characters`."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return text[:half] + LEFT_OUT.format(f"{len(text) - 2 * half:,}") + text[len(text) - half :]


class SessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, new: NewSession, *, principal: str) -> Session:
        """Create a session without turns."""
        session_id = fresh_id()
        row = {
            "id": session_id,
            "title_json": text_json(new.title),
            "principal": principal,
            "created_at": micros(self._database.clock.now()),
            "turns": 0,
        }
        self._database.write(lambda connection: connection.execute(_ADD, row))
        return self.get(session_id)

    def get(self, session_id: str) -> Session:
        """Raises `UnknownSession`."""
        row = None
        if is_identifier(session_id):
            row = self._database.read(lambda one: one.execute(_ONE, {"wanted": session_id}).mappings().first())
        if row is None:
            raise UnknownSession(f"there is no session {session_id!r}")
        return _session(row)

    def list(self, *, part: str | None = None, cursor: str | None = None, limit: int = 50) -> Page[Session]:
        """Newest first; `part`: those whose id begins or ends so. Raises `BadCursor`."""
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of sessions gave; begin without one")
        statement = sa.select(SESSIONS).order_by(SESSIONS.c.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(SESSIONS.c.id < cursor)
        if part is not None:
            at_an_end = (SESSIONS.c.id.startswith(part, autoescape=True), SESSIONS.c.id.endswith(part, autoescape=True))
            statement = statement.where(sa.or_(*at_an_end))

        def page(connection: Connection) -> Page[Session]:
            found = [_session(row) for row in connection.execute(statement).mappings()]
            return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)

        return self._database.read(page)

    def context(self, order: WorkOrder, *, characters: int) -> Sequence[EarlierTurn]:
        """The context of a turn: the ended turns of its session before it, oldest first.

        Rolled back turns are left out, and for a retry the turn that it repeats. Only the newest turns are answered:
        `MOST_TURNS` at most, with at most `characters` characters together.
        """
        return self._database.read(lambda connection: context(order, History(connection), characters))


def _session(row: sa.RowMapping) -> Session:
    return Session(
        id=row["id"],
        title=text_of(row["title_json"]) or "",
        created_at=moment(row["created_at"]),
        turns=row["turns"],
        last_order_id=row["last_order_id"],
    )
