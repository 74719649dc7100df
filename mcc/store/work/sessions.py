"""Sessions: conversations whose turns are orders, and the context that earlier turns give to a new one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import EarlierTurn, OrderOrigin, WorkOrder
from mcc.contracts.sessions import (
    NewSession,
    NewSessionFork,
    PrunedTurn,
    Session,
    SessionChange,
    SessionDefaults,
    SessionWithTurns,
    TurnUsage,
)
from mcc.contracts.status import FINAL, OrderStatus
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.tables import JOURNAL, ORDERS, SESSIONS, STATE, among
from mcc.store.rows.order_rows import kept_blobs
from mcc.store.rows.packs import packs_of
from mcc.store.rows.session_rows import IS_THERE, defaults_of, session_row, shown_sessions, usage_by_turn
from mcc.store.rows.texts import digests, parsed, whole
from mcc.store.rows.values import Page
from mcc.store.rows.views import ORDER, has_status
from mcc.store.rows.waiting import work_orders
from mcc.store.work.session_changes import change_session, fork_session, mark_read, new_row, open_session
from mcc.store.work.session_search import SessionFilter, search_sessions

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
_FORKED = sa.select(SESSIONS.c.forked_session_id, SESSIONS.c.forked_turn).where(
    SESSIONS.c.id == sa.bindparam("of"), SESSIONS.c.forked_session_id.is_not(None)
)
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

    def place(self, order_id: str) -> TurnPlace | None:
        """None when the order is gone with its session."""
        row = self._connection.execute(_WANTED, {"wanted": order_id}).mappings().first()
        return None if row is None else _place(row)

    def source(self, session_id: str) -> TurnPlace | None:
        """The place before which the turns are that a session began with; None when it is no fork."""
        # Of the session's first order: a fork of an order opens a session, and is its first turn.
        first = self._connection.execute(_FIRST, {"of": session_id}).mappings().first()
        origin = None if first is None else _place(first).origin
        if origin is not None and origin.kind == "fork":
            return self.place(origin.order_id)
        forked = self._connection.execute(_FORKED, {"of": session_id}).first()
        return None if forked is None else TurnPlace(forked.forked_session_id, forked.forked_turn + 1, None)

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
        source = history.source(place.session_id)
        if source is None:
            return
        place = source


def _retried(place: TurnPlace, history: History) -> Iterator[str]:
    """The ids of the orders that this one retries, directly or through other retries."""
    repeats: TurnPlace | None = place
    while repeats is not None and repeats.origin is not None and repeats.origin.kind == "retry":
        yield repeats.origin.order_id
        repeats = history.place(repeats.origin.order_id)


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
    """Sessions as principals see them; those that were deleted are unknown."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, new: NewSession, *, principal: str) -> Session:
        """Create a session without turns."""
        row = new_row(new, principal, micros(self._database.clock.now()))
        session_id = self._database.write(lambda connection: open_session(connection, row))
        return self.get(session_id, principal=principal)

    def get(self, session_id: str, *, principal: str = "") -> Session:
        """The session as `principal` sees it; "" has read nothing. Raises `UnknownSession`."""

        def session(connection: Connection) -> Session:
            return shown_sessions(connection, [session_row(connection, session_id)], principal)[0]

        return self._database.read(session)

    def list(self, wanted: SessionFilter | None = None, *, principal: str = "", limit: int = 50) -> Page[Session]:
        """Newest first; `wanted` None: all of them.

        With `text`, at most `SEARCHED` sessions are looked through: a page with fewer than `limit` of them, or none,
        then has a cursor. Raises `BadCursor`.
        """

        def page(connection: Connection) -> Page[Session]:
            rows, following = search_sessions(connection, wanted or SessionFilter(), limit)
            return Page(shown_sessions(connection, rows, principal), following)

        return self._database.read(page)

    def turns(
        self, session_id: str, *, before: int | None = None, limit: int = 50, principal: str = ""
    ) -> SessionWithTurns:
        """A session with its newest `limit` turns before turn `before`, newest first. Raises `UnknownSession`."""

        def page(connection: Connection) -> SessionWithTurns:
            row = session_row(connection, session_id)
            newest = _NEWEST_TURNS if before is None else _NEWEST_TURNS.where(ORDERS.c.session_seq < before)
            rows = connection.execute(newest.limit(limit + 1), {"of": session_id}).mappings().all()
            following = rows[limit - 1]["session_seq"] if len(rows) > limit else None
            orders = work_orders(connection, rows[:limit], self._database.time)
            (session,) = shown_sessions(connection, [row], principal)
            return SessionWithTurns(**dict(session), orders=tuple(orders), next_before=following)

        return self._database.read(page)

    def exported(self, session_id: str, *, after: int, limit: int) -> Sequence[tuple[int, WorkOrder | PrunedTurn]]:
        """The next `limit` turns after turn `after`, oldest first, each with its number; of one whose journal was
        pruned, prompt and answer.

        Raises `UnknownSession`.
        """

        def page(connection: Connection) -> Sequence[tuple[int, WorkOrder | PrunedTurn]]:
            session_row(connection, session_id)
            rows = connection.execute(_TURNS_AFTER.limit(limit), {"of": session_id, "after": after}).mappings().all()
            marked = connection.execute(_PRUNED, {"ids": [row["id"] for row in rows]})
            pruned = {row.id: row.pruned_at for row in marked}
            turns: list[tuple[int, WorkOrder | PrunedTurn]] = []
            for order in work_orders(connection, rows, self._database.time):
                at = pruned.get(order.id)
                pruned_turn = at and PrunedTurn(
                    order_id=order.id, pruned_at=moment(at), prompt=order.prompt, answer=order.answer
                )
                turns.append((order.session_seq, pruned_turn or order))
            return turns

        return self._database.read(page)

    def usage(self, session_id: str) -> Sequence[TurnUsage]:
        """What each turn has used, in their sequence. Raises `UnknownSession`."""

        def by_turn(connection: Connection) -> Sequence[TurnUsage]:
            session_row(connection, session_id)
            return usage_by_turn(connection, session_id)

        return self._database.read(by_turn)

    def change(self, session_id: str, change: SessionChange, *, principal: str) -> Session:
        """Change the fields that are given. Raises `UnknownSession`, `ContextIsFixed`."""
        at = micros(self._database.clock.now())
        self._database.write(lambda one: change_session(one, session_id, change, at), repeatable=True)
        return self.get(session_id, principal=principal)

    def fork(self, session_id: str, asked: NewSessionFork, *, principal: str) -> Session:
        """A new session without turns of its own, whose next turn is shown the first `asked.turn` turns of this one.
        It has the same defaults and context.

        Raises `UnknownSession`, `UnknownTurn`, `OrderIsUnfinished`, `NotAConversation`.
        """
        at = micros(self._database.clock.now())
        made = self._database.write(
            lambda connection: open_session(connection, fork_session(connection, session_id, asked, principal, at))
        )
        return self.get(made, principal=principal)

    def read(self, session_id: str, turn: int, *, principal: str) -> None:
        """Mark the turns up to this one as read by `principal`; what was marked before stays so.

        Raises `UnknownSession`, `UnknownTurn`.
        """
        self._database.write(lambda one: mark_read(one, session_id, turn, principal), repeatable=True)

    def defaults(self, session_ids: Iterable[str]) -> Mapping[str, SessionDefaults]:
        """The defaults of those of these sessions that are there and have some, by id."""
        ids = [session_id for session_id in session_ids if is_identifier(session_id)]
        if not ids:
            return {}
        rows = self._database.read(lambda one: one.execute(_WITH_DEFAULTS, {"ids": ids}).mappings().all())
        return {row["id"]: defaults_of(row) for row in rows}

    def context(self, order: WorkOrder, *, characters: int) -> Sequence[EarlierTurn]:
        """The context of a turn: the ended turns of its session before it, oldest first.

        Rolled back turns are left out, and for a retry the turn that it repeats. Only the newest turns are answered:
        `MOST_TURNS` at most, with at most `characters` characters together.
        """
        return self._database.read(lambda connection: context(order, History(connection), characters))


_NEWEST_TURNS = ORDER.where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.session_seq.desc())
_TURNS_AFTER = ORDER.where(
    ORDERS.c.session_id == sa.bindparam("of"), ORDERS.c.session_seq > sa.bindparam("after")
).order_by(ORDERS.c.session_seq)
_PRUNED = sa.select(ORDERS.c.id, ORDERS.c.pruned_at).where(among(ORDERS.c.id, "ids"), ORDERS.c.pruned_at.is_not(None))
_WITH_DEFAULTS = sa.select(SESSIONS.c.id, SESSIONS.c.defaults_json).where(
    among(SESSIONS.c.id, "ids"), IS_THERE, SESSIONS.c.defaults_json.is_not(None)
)
