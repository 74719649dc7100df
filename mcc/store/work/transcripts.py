"""What a turn is shown of its session: which stored turns, behind which base, and the turns that are not stored yet."""

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.journal import ControlApplied
from mcc.contracts.order import OrderOrigin, WorkOrder
from mcc.contracts.questions import with_words
from mcc.contracts.status import FINAL, OrderStatus
from mcc.contracts.turn_context import ContextMode, LastRequest, TurnBefore
from mcc.store.database.engine import Database
from mcc.store.database.tables import BASES, JOURNAL, ORDERS, SESSIONS, STATE, TRANSCRIPTS, among
from mcc.store.rows.order_rows import kept_blobs
from mcc.store.rows.packs import packs_of
from mcc.store.rows.session_rows import is_tainted
from mcc.store.rows.session_words import words_in
from mcc.store.rows.stored_turns import StoredTurn
from mcc.store.rows.texts import digests, parsed, whole
from mcc.store.rows.transcript_rows import SHORTENING, SHORTENS, keep_turn, lacks_base
from mcc.store.rows.views import has_status

LATER = 2**31 - 1
"""After every turn."""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """An ended turn that a later one is shown. `messages`: its own messages as JSON; None: not stored. `retries`: the
    order that it repeats."""

    order_id: str
    session_id: str
    session_seq: int
    messages: bytes | None = field(repr=False)
    retries: str | None = None


@dataclass(frozen=True, slots=True)
class SessionPast:
    """What a turn is shown: a base (the digest of its text; None: from the beginning), then these turns, in order.

    `left_out`: orders of which nothing is shown, though the base contains them, as a later turn repeats them. `mode`:
    what the session says of it, if anything. `before`: the newest of them that is stored. `tainted`: it may hold
    text from outside.
    """

    base: str | None
    turns: Sequence[EndedTurn]
    mode: ContextMode | None = None
    tainted: bool = False
    before: TurnBefore | None = None

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(turn.retries for turn in self.turns if turn.retries is not None)


@dataclass(frozen=True, slots=True)
class TurnRow:
    """How an ended turn went, as its order's row says. `steers`: what people told its master later. `pruned`: its
    journal may not be read any more. `prompt`: with the words above it."""

    order_id: str
    session_id: str
    session_seq: int
    prompt: str
    steers: Sequence[str]
    status: OrderStatus
    answer: str | None
    last_seq: int
    pruned: bool


@dataclass(frozen=True, slots=True)
class _Place:
    session_id: str
    session_seq: int
    origin: OrderOrigin | None


_PLACES = sa.select(ORDERS.c.session_id, ORDERS.c.session_seq, ORDERS.c.origin_json)
_WANTED = _PLACES.where(ORDERS.c.id == sa.bindparam("wanted"))
_FIRST = _PLACES.where(ORDERS.c.session_id == sa.bindparam("of")).order_by(ORDERS.c.session_seq).limit(1)
_SESSION = sa.select(SESSIONS.c.context, SESSIONS.c.forked_session_id, SESSIONS.c.forked_turn).where(
    SESSIONS.c.id == sa.bindparam("of")
)
_BASE = (
    sa.select(BASES.c.digest, BASES.c.through_seq, BASES.c.reason)
    .where(
        BASES.c.session_id == sa.bindparam("of"),
        BASES.c.through_seq < sa.bindparam("before"),
        BASES.c.voided_at.is_(None),
    )
    # Of two through the same turn the shorter one counts, whenever the order that compacted the session was placed; of
    # two of these the later one.
    .order_by(BASES.c.through_seq.desc(), SHORTENS.desc(), BASES.c.order_id.desc(), BASES.c.digest)
    .limit(1)
)
_LACKS_BASE = sa.select(SESSIONS.c.id).where(SESSIONS.c.id == sa.bindparam("of"), lacks_base(SESSIONS))
_IS_BASE = (
    sa.select(BASES.c.digest)
    .where(BASES.c.session_id == sa.bindparam("of"), BASES.c.digest == sa.bindparam("base"))
    .limit(1)
)
_LATER = ORDERS.alias("later")
_BEFORE = (
    sa.select(
        TRANSCRIPTS.c.session_seq,
        TRANSCRIPTS.c.setup_digest,
        TRANSCRIPTS.c.setup_key,
        TRANSCRIPTS.c.found_json,
        TRANSCRIPTS.c.last_json,
        sa.select(_LATER.c.id)
        .where(
            _LATER.c.session_id == sa.bindparam("of"),
            _LATER.c.session_seq > TRANSCRIPTS.c.session_seq,
            _LATER.c.session_seq < sa.bindparam("before"),
            _LATER.c.left_out.is_(True),
        )
        .exists()
        .label("rolled_back"),
    )
    .join(ORDERS, ORDERS.c.id == TRANSCRIPTS.c.order_id)
    .where(
        TRANSCRIPTS.c.session_id == sa.bindparam("of"),
        TRANSCRIPTS.c.session_seq < sa.bindparam("before"),
        ORDERS.c.left_out.is_(False),
    )
    .order_by(TRANSCRIPTS.c.session_seq.desc())
    .limit(1)
)
_REPEATED = sa.select(sa.func.min(ORDERS.c.session_seq)).where(
    among(ORDERS.c.id, "ids"),
    ORDERS.c.session_id == sa.bindparam("of"),
    sa.select(BASES.c.digest)
    .where(
        BASES.c.session_id == sa.bindparam("of"),
        BASES.c.through_seq >= ORDERS.c.session_seq,
        BASES.c.through_seq <= sa.bindparam("through"),
        BASES.c.voided_at.is_(None),
        BASES.c.reason.in_(sorted(SHORTENING)),
    )
    .exists(),
)
"""The first of these turns of which a summary, or a line, in the base through turn `through` tells."""
_TURN = sa.select(ORDERS.c.id, ORDERS.c.session_id, ORDERS.c.session_seq, ORDERS.c.origin_json, TRANSCRIPTS.c.data)
_WITH_ROWS = ORDERS.outerjoin(TRANSCRIPTS, TRANSCRIPTS.c.order_id == ORDERS.c.id)
_TURNS = (
    _TURN.select_from(_WITH_ROWS.join(STATE, STATE.c.order_id == ORDERS.c.id))
    .where(
        ORDERS.c.session_id == sa.bindparam("of"),
        ORDERS.c.session_seq > sa.bindparam("after"),
        ORDERS.c.session_seq < sa.bindparam("before"),
        ORDERS.c.left_out.is_(False),
        has_status(STATE.c.status, FINAL),
    )
    .order_by(ORDERS.c.session_seq)
)
_NAMED = _TURN.select_from(_WITH_ROWS).where(among(ORDERS.c.id, "ids"))
_ROWS = (
    sa.select(
        ORDERS.c.id,
        ORDERS.c.session_id,
        ORDERS.c.session_seq,
        ORDERS.c.spec_json,
        ORDERS.c.words_json,
        ORDERS.c.outcome_json,
        ORDERS.c.pruned_at,
        STATE.c.status,
        STATE.c.last_seq,
        sa.or_(STATE.c.control_seq > 0, ORDERS.c.origin_json.is_not(None)).label("steered"),
    )
    .join(STATE, STATE.c.order_id == ORDERS.c.id)
    .where(among(ORDERS.c.id, "ids"))
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


class TranscriptStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def past(self, order: WorkOrder, *, based: bool = True) -> SessionPast:
        """What a turn that begins is shown: the ended turns of its session before it, in order, behind the newest base
        (`based` false: from the beginning).

        Rolled back turns are left out, and turns that a shown one repeats. A retry is shown what the turn that it
        repeats was, and the turns of a fork's session follow those before the fork's source. Reads no journal.
        """
        return self._database.read(lambda connection: _past(connection, order, based))

    def is_base(self, order: WorkOrder, digest: str) -> bool:
        """Whether this is, or was, a base of the order's session, or of one that it was forked from."""

        def look(connection: Connection) -> bool:
            place: _Place | None = _Place(order.session_id, order.session_seq, order.origin)
            while place is not None:
                if connection.execute(_IS_BASE, {"of": place.session_id, "base": digest}).first() is not None:
                    return True
                place = _source(connection, place.session_id)
            return False

        return self._database.read(look)

    def rests_on_source(self, session_id: str) -> bool:
        """Whether a session was forked and has no base yet: its source may not be removed."""
        return self._database.read(lambda one: one.execute(_LACKS_BASE, {"of": session_id}).first()) is not None

    def named(self, order_ids: Sequence[str]) -> Sequence[EndedTurn]:
        """The known ones of these turns, in the order of the ids."""
        if not order_ids:
            return ()
        rows = self._database.read(lambda connection: connection.execute(_NAMED, {"ids": list(order_ids)}).all())
        turns = {row.id: _ended(row) for row in rows}
        return [turns[order_id] for order_id in order_ids if order_id in turns]

    def ends(self, order_ids: Sequence[str]) -> Sequence[TurnRow]:
        """How these turns went, in any order."""

        def turns(connection: Connection) -> Sequence[TurnRow]:
            rows = connection.execute(_ROWS, {"ids": list(order_ids)}).all()
            steers = _steers(connection, {row.id: row.steered for row in rows})
            return [_turn_row(row, steers[row.id]) for row in rows]

        return self._database.read(turns)

    def keep(self, turns: Sequence[StoredTurn]) -> None:
        """Store turns that were computed again from their journals."""

        def add(connection: Connection) -> None:
            for turn in sorted(turns, key=lambda one: one.order_id):
                keep_turn(connection, turn)

        if turns:
            self._database.write(add, repeatable=True)


def _past(connection: Connection, order: WorkOrder, based: bool) -> SessionPast:
    session = connection.execute(_SESSION, {"of": order.session_id}).one()
    if order.session_seq == 1 and order.origin is None and session.forked_session_id is None:
        return SessionPast(None, (), session.context)  # what most orders are, with this one statement
    turns: list[EndedTurn] = []
    base: str | None = None
    tainted = False
    before: TurnBefore | None = None
    place: _Place | None = _Place(order.session_id, order.session_seq, order.origin)
    while place is not None and base is None:
        while place is not None and place.origin is not None and place.origin.kind == "retry":
            place = _place(connection, place.origin.order_id)
        if place is None:
            break
        newest, behind = _behind_base(connection, place, based)
        is_of_source = newest is not None and newest.through_seq == 0
        # A turn that was shown what the source has, which may be gone, marked its session.
        tainted = tainted or is_tainted(connection, place.session_id, LATER if is_of_source else place.session_seq)
        before = before or _before(connection, place, newest)
        turns[:0] = behind
        base = None if newest is None else newest.digest
        place = _source(connection, place.session_id) if base is None or is_of_source else None
    if before is None and base is not None and place is not None:
        span = {"of": place.session_id, "before": place.session_seq}
        before = _before(connection, place, connection.execute(_BASE, span).first())
    left_out = SessionPast(base, turns).left_out
    if before is not None and left_out:
        before = before.model_copy(update={"repeated": True})
    shown = [turn for turn in turns if turn.order_id not in left_out]
    return SessionPast(base, shown, session.context, tainted, before)


def _behind_base(connection: Connection, place: _Place, based: bool) -> tuple[Any, list[EndedTurn]]:
    """The newest base of the place's session, and the turns after it. Where one of them repeats a turn of which the
    base tells in words that stand for several turns, it is one from before that turn: nothing can be left out of
    those words."""
    until: int | None = place.session_seq
    while True:
        newest = connection.execute(_BASE, {"of": place.session_id, "before": until}).first() if based else None
        after = 0 if newest is None else newest.through_seq
        span = {"of": place.session_id, "after": after, "before": place.session_seq}
        turns = [_ended(row) for row in connection.execute(_TURNS, span)]
        repeated = sorted(turn.retries for turn in turns if turn.retries is not None)
        if newest is None or not repeated:
            return newest, turns
        until = connection.scalar(_REPEATED, {"ids": repeated, "of": place.session_id, "through": after})
        if until is None:
            return newest, turns


def _before(connection: Connection, place: _Place, base: Any) -> TurnBefore | None:
    row = connection.execute(_BEFORE, {"of": place.session_id, "before": place.session_seq}).first()
    if row is None:
        return None
    is_in_base = base is not None and base.through_seq >= row.session_seq
    return TurnBefore(
        setup_digest=row.setup_digest,
        setup_key=row.setup_key,
        found=tuple(parsed(row.found_json)),
        last=LastRequest.model_validate(parsed(row.last_json)) if row.last_json else None,
        rolled_back=bool(row.rolled_back),
        compacted=is_in_base and base.reason in SHORTENING,
        clipped=is_in_base and base.reason == "results",
    )


def _source(connection: Connection, session_id: str) -> _Place | None:
    """The place before which the turns are that a session began with; None: it is no fork, or its source is gone."""
    # Of the session's first order: a fork of an order opens a session, and is its first turn.
    first = connection.execute(_FIRST, {"of": session_id}).first()
    origin = None if first is None else _origin(first)
    if origin is not None and origin.kind == "fork":
        return _place(connection, origin.order_id)
    session = connection.execute(_SESSION, {"of": session_id}).first()
    if session is None or session.forked_session_id is None:
        return None
    return _Place(session.forked_session_id, session.forked_turn + 1, None)


def _steers(connection: Connection, steered: Mapping[str, bool]) -> defaultdict[str, list[str]]:
    """The steering messages that people sent to the masters of these orders, by order id. A pruned journal keeps them.

    `steered`: whether an order may have any; packs of the others are not opened.
    """
    rows: list[Any] = list(connection.execute(_STEERS, {"ids": list(steered)}))
    others = sorted({order_id for order_id, may in steered.items() if may} - {row.order_id for row in rows})
    packed = packs_of(connection, others) if others else []
    rows += [row for row in packed if row.kind == ControlApplied.kind and row.record_id and not row.parent_id]
    blobs = kept_blobs(connection, digests(row.large_json for row in rows))
    messages: defaultdict[str, list[str]] = defaultdict(list)
    for row in rows:
        data = whole(row.data_json, row.large_json, blobs)
        if data["control"] == "steer" and data.get("message"):
            messages[row.order_id].append(data["message"])
    return messages


def _place(connection: Connection, order_id: str) -> _Place | None:
    """None when the order is gone with its session."""
    row = connection.execute(_WANTED, {"wanted": order_id}).first()
    return None if row is None else _Place(row.session_id, row.session_seq, _origin(row))


def _origin(row: Any) -> OrderOrigin | None:
    return OrderOrigin.model_validate(parsed(row.origin_json)) if row.origin_json else None


def _ended(row: Any) -> EndedTurn:
    origin = _origin(row)
    retries = origin.order_id if origin is not None and origin.kind == "retry" else None
    messages = None if row.data is None else zlib.decompress(row.data)
    return EndedTurn(row.id, row.session_id, row.session_seq, messages, retries)


def _turn_row(row: Any, steers: Sequence[str]) -> TurnRow:
    spec, outcome = parsed(row.spec_json), parsed(row.outcome_json) if row.outcome_json else {}
    return TurnRow(
        order_id=row.id,
        session_id=row.session_id,
        session_seq=row.session_seq,
        prompt=with_words(words_in(row.words_json), spec["prompt"]),
        steers=steers,
        status=OrderStatus(row.status),
        answer=outcome.get("answer"),
        last_seq=row.last_seq,
        pruned=row.pruned_at is not None,
    )
