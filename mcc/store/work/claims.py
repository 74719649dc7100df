"""Operations of a drone on the orders it holds: claim, hand back, park, resume, finish."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import is_identifier
from mcc.contracts.order_facts import OrderHandedBack, OrderWaiting
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason, sources_of
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database, DatabaseTime
from mcc.store.database.errors import BadEntry, ControlsPending, StoreError, StoreFenced
from mcc.store.database.tables import JOURNAL, ORDERS, STATE
from mcc.store.rows.control_rows import controls_of
from mcc.store.rows.order_rows import OrderState, is_held, lock, write
from mcc.store.rows.texts import parsed
from mcc.store.rows.transcript_rows import keep_base, keep_turn
from mcc.store.rows.transitions import (
    SOLO,
    cancelled_by,
    cancels_order,
    check_ending,
    must_be_read,
    order_draft,
    prevents_parking,
    waits_until,
)
from mcc.store.rows.values import (
    Claim,
    Claimable,
    ClaimingDrone,
    ClaimRequest,
    EndedOrder,
    Ending,
    Parking,
    Waiting,
    WorkspaceHold,
)
from mcc.store.rows.views import BEGUN_BEHIND, claimable, has_status, is_status
from mcc.store.work.claiming import ClaimAnswer, GroupClaim, needing_workspaces
from mcc.store.work.compact_orders import EndedTurn, place_when_idle
from mcc.store.work.endings import end, end_by_store
from mcc.store.work.resuming import resume

_FOLLOWING = (
    sa.select(STATE.c.order_id, STATE.c.queue, STATE.c.priority, STATE.c.last_seq, STATE.c.barren)
    .where(STATE.c.session_id == sa.bindparam("wanted"), has_status(STATE.c.status, frozenset({OrderStatus.QUEUED})))
    .order_by(STATE.c.session_seq)
    .limit(1)
)

_AFTER_PARKING = sa.select(JOURNAL.c.kind, JOURNAL.c.epoch).where(
    JOURNAL.c.order_id == sa.bindparam("wanted"), JOURNAL.c.seq == sa.bindparam("seq")
)


_HELD_BY = sa.select(STATE.c.order_id, STATE.c.epoch).where(
    STATE.c.incarnation == sa.bindparam("holder"), is_status(STATE.c.status, OrderStatus.RUNNING)
)


@lru_cache(maxsize=8)
def _waiting(most: int) -> sa.Select[Any]:
    return (
        sa.select(STATE.c.order_id, STATE.c.workspace_key, ORDERS.c.spec_json, JOURNAL.c.at)
        .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
        .join(JOURNAL, sa.and_(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.seq == STATE.c.last_seq))
        .where(
            is_status(STATE.c.status, OrderStatus.WAITING),
            STATE.c.reason == sa.bindparam("reason"),
            STATE.c.wants_key.is_(None),
            STATE.c.order_id > sa.bindparam("after"),
        )
        .order_by(STATE.c.order_id)
        .limit(most)
    )


class Claims:
    def __init__(self, database: Database) -> None:
        self._database = database

    def claimable(self, queues: Sequence[str], limit: int, *, besides: Collection[str] = ()) -> Sequence[Claimable]:
        """Orders that a drone can claim now, best first: due, first in their session, by priority, then by age.

        `besides`: ids to leave out, such as orders whose workspace this drone does not see, so that they do not use up
        the limit.
        """

        def first(connection: Connection) -> list[sa.Row[Any]]:
            # One query per queue: for several queues at once, a database sorts all queued orders to find the first.
            each = ({"wanted": queue, "besides": list(besides)} for queue in dict.fromkeys(queues))
            # Rounded up to a power of two, so that there are few statements to prepare.
            statement = claimable(self._database.time, 1 << max(0, limit - 1).bit_length())
            return [row for one in each for row in connection.execute(statement, one)]

        rows = sorted(self._database.read(first), key=lambda row: (row.priority, row.order_id))[:limit]
        return list(map(_claimable, rows))

    def begun_behind(self, order_id: str) -> Mapping[str, float]:
        """Which of the next hundred orders behind this one, of its queue and priority, have begun, and how many
        seconds ago."""
        rows = self._database.read(lambda connection: connection.execute(BEGUN_BEHIND, {"of": order_id}).all())
        now = micros(self._database.clock.now())
        return {row.order_id: (now - row.started_at) / 1_000_000 for row in rows}

    def claim(
        self,
        order_id: str,
        *,
        incarnation: str,
        claim_token: str,
        drone: str,
        alone: bool = True,
        workspace: WorkspaceHold | None = None,
        workspace_optional: bool = True,
    ) -> Claim | None:
        """One conditional UPDATE: epoch + 1, attempt + 1, entry `order.claimed`. None: not claimable (any more).

        Claiming again with the same token answers the same claim. `alone`: this process holds no other order, which is
        required for orders that lost several drones in a row.

        The first `workspace` with a lasting key is the one in which the order begins; a claim with another key raises
        `AnotherWorkspace` and changes nothing, until the order is parked because of that other directory and a resume
        accepts it. The claim locks nothing there: see `WorkspaceLines.acquire`.

        `workspace_optional` False: for an order that names a workspace, a claim without `workspace` raises
        `WorkspaceNeeded` and changes nothing.
        """
        claimant = ClaimingDrone(drone, incarnation, claim_token, alone)
        answer = self.claim_together([ClaimRequest(order_id, workspace, workspace_optional)], claimant)[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def claim_together(self, requests: Sequence[ClaimRequest], claimant: ClaimingDrone) -> Sequence[ClaimAnswer]:
        """Claim several orders in one transaction. Answers the result of `claim` for each, in order, with errors as
        values; an order that cannot be claimed does not affect the others.

        Orders whose rows another transaction has locked are claimed last, one by one.
        """
        named = [
            request.order_id for request in requests if request.workspace is None and not request.workspace_optional
        ]
        answers: dict[str, ClaimAnswer] = {}
        if named:
            # Read outside the transaction, which may then be unnecessary: the workspace that an order names is fixed.
            answers |= self._database.read(lambda connection: needing_workspaces(connection, named))
        rest = [request for request in requests if request.order_id not in answers and is_identifier(request.order_id)]
        group = self._group(rest, claimant)
        if rest:
            answers |= self._database.write(group.work, repeatable=True)
        for request in group.requests:
            if request.order_id in group.passed_over:
                answers |= self._database.write(self._group([request], claimant).work, repeatable=True)
        return [answers.get(request.order_id) for request in requests]

    def _group(self, requests: Sequence[ClaimRequest], claimant: ClaimingDrone) -> GroupClaim:
        at = micros(self._database.clock.now())
        return GroupClaim(requests, claimant, at, self._database.time, skip_locked=len(requests) > 1)

    def held_by(self, incarnation: str) -> Sequence[tuple[str, int]]:
        """The running orders that this incarnation holds, each with the epoch of its claim."""
        rows = self._database.read(lambda connection: connection.execute(_HELD_BY, {"holder": incarnation}).all())
        return [(row.order_id, row.epoch) for row in rows]

    def hand_back(self, held: Sequence[tuple[str, int]], *, drone: str, message: str) -> Sequence[str]:
        """Requeue those of these (order id, epoch) pairs that are still held; answers their ids.

        Open calls stay open for the next holder. An order with an open cancel ends instead.
        """
        at = self._database.clock.now()

        def work(connection: Connection) -> list[str]:
            locked = [(lock(connection, order_id), epoch) for order_id, epoch in sorted(dict(held).items())]
            # All are locked before one is changed, in the order of their ids, as all writers do: otherwise two could
            # deadlock.
            still = [state for state, epoch in locked if state and is_held(state, epoch)]
            for state in still:
                _hand_back(connection, state, drone, message, at)
            return [state.order_id for state in still]

        return self._database.write(work)

    def finish(self, ending: Ending) -> int:
        """Write status, outcome, record rows and last entries in one transaction; answers the last entry's number.

        Open controls are settled. Repeating a committed ending answers the same. Raises `StoreFenced`, or
        `ControlsPending` when a control came after `control_seq` or an open cancel of the whole order is not honoured;
        ValueError for drafts that do not end with one `order.finished`.
        """
        check_ending(ending)
        return self._database.write(
            lambda connection: _finish_one(connection, ending, self._database.time), repeatable=True
        ).last_seq

    def finish_together(self, endings: Sequence[Ending]) -> Sequence[EndedOrder | StoreError]:
        """End several orders in one transaction. Answers the result of `finish` for each, in order, with errors as
        values; an order that cannot be ended does not affect the others.

        Raises `StoreUnavailable`, and ValueError as `finish` does.
        """
        for ending in endings:
            check_ending(ending)
        try:
            ended = self._database.write(
                lambda connection: _finish_all(connection, endings, self._database.time), repeatable=True
            )
        except BadEntry:
            # One order with data that the database refuses must not keep the others from ending.
            ended = {ending.order_id: self._finished_alone(ending) for ending in endings}
        # Read after the commit: a turn placed earlier is found here, and one placed later finds its session free and
        # sends a nudge of its own.
        following = self._database.read(
            lambda connection: {
                order_id: connection.execute(_FOLLOWING, {"wanted": done.session_id}).first()
                for order_id, done in ended.items()
                if isinstance(done, OrderState)
            }
        )
        answers = ((ended[order_id], following.get(order_id)) for order_id in (ending.order_id for ending in endings))
        return [
            EndedOrder(done.last_seq, row and _claimable(row)) if isinstance(done, OrderState) else done
            for done, row in answers
        ]

    def _finished_alone(self, ending: Ending) -> OrderState | StoreError:
        try:
            return self._database.write(
                lambda connection: _finish_one(connection, ending, self._database.time), repeatable=True
            )
        except (BadEntry, ControlsPending, StoreFenced) as refused:
            return refused

    def park(self, parking: Parking) -> int:
        """Let the held order wait without a holder; answers the number of its entry `order.waiting`.

        The order waits until it expires, or for a day from the moment at which it could have resumed. Repeating a
        committed parking answers the same.

        Raises `StoreFenced`, or `ControlsPending` when a control came after `control_seq`, or when a cancel or a
        resume of the whole order is open, whatever its number.
        """
        return self._database.write(lambda connection: self._park(connection, parking), repeatable=True)

    def _park(self, connection: Connection, parking: Parking) -> int:
        state, number = lock(connection, parking.order_id), parking.last_seq + 1
        if state is None or not is_held(state, parking.epoch) or state.last_seq != parking.last_seq:
            # Asked of the journal, since the order may have been resumed and claimed again since.
            if _was_parked(connection, parking, number):
                return number
            raise _fenced(parking)
        controls = controls_of(connection, state.order_id) if state.control_seq else []
        if any(prevents_parking(control, parking) for control in controls):
            raise _controls_pending(state)
        fact = OrderWaiting(
            reason=parking.reason,
            message=parking.message,
            until=parking.until,
            found=parking.found,
            tries=parking.tries,
        )
        due = micros(parking.until) if parking.until else None
        leaves = {} if parking.in_line or state.wants_key is None else {"wants_key": None, "wants_at": None}
        since = max(due or 0, int(connection.scalar(sa.select(self._database.time.now)) or 0))
        write(
            connection,
            state,
            [order_draft(self._database.clock.now(), fact)],
            status=OrderStatus.WAITING,
            reason=parking.reason.value,
            epoch=state.epoch + 1,
            incarnation=None,
            claim_token=None,
            not_before=due,
            waits_until=waits_until(since, state.expires_at),
            **leaves,
        )
        return number

    def waiting(self, reason: WaitingReason, limit: int, *, after: str = "") -> Sequence[Waiting]:
        """Orders that wait for this reason, by id (oldest first), starting behind the id `after`; without those in the
        line for a workspace, whose turn others find out."""
        page = {"reason": reason.value, "after": after}
        rows = self._database.read(lambda connection: connection.execute(_waiting(limit), page).all())
        return [
            Waiting(row.order_id, parsed(row.spec_json).get("workspace"), moment(row.at), row.workspace_key)
            for row in rows
        ]

    def resume(self, order_id: str, reason: WaitingReason, message: str) -> bool:
        """Queue an order that waits for this reason again, with an entry `order.resumed` that says `message`.

        False: the order does not wait (any more), or waits for another reason.
        """
        at = self._database.clock.now()

        def work(connection: Connection) -> bool:
            state = lock(connection, order_id)
            if state is None or state.status not in sources_of("resume") or state.reason != reason.value:
                return False
            resume(connection, state, at, message)
            return True

        return is_identifier(order_id) and self._database.write(work)


def _claimable(row: Any) -> Claimable:
    return Claimable(row.order_id, row.queue, row.priority, row.last_seq, alone=row.barren >= SOLO)


def _finish_one(connection: Connection, ending: Ending, time: DatabaseTime) -> OrderState:
    """As `_finish`, with the order that compacts the session."""
    planned: list[EndedTurn] = []
    ended = _finish(connection, ending, planned)
    place_when_idle(connection, time, planned)
    return ended


def _finish(connection: Connection, ending: Ending, planned: list[EndedTurn]) -> OrderState:
    """Answers the order's row afterwards. Nothing is changed when `StoreFenced` or `ControlsPending` is raised.
    `planned` gets the compaction that is to follow, once no more orders are ended."""
    state = lock(connection, ending.order_id)
    if state is None:
        raise _fenced(ending)
    if _was_finished(state, ending):
        return state
    if not is_held(state, ending.epoch) or state.last_seq != ending.last_seq:
        raise _fenced(ending)
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    if any(must_be_read(control, ending) for control in controls):
        raise _controls_pending(state)
    ended = end(connection, state, ending.drafts, ending.outcome, ending.record, epoch=state.epoch)
    if ending.turn is not None:
        keep_turn(connection, ending.turn)
    for base in filter(None, (ending.begun_with, ending.base)):
        turn, at = ending.turn, micros(ending.drafts[-1].at)
        if base.session_id is not None:
            keep_base(connection, base, ending.order_id, base.session_id, base.through_seq, at)
        elif turn is not None:
            keep_base(connection, base, ending.order_id, turn.session_id, turn.session_seq, at)
    if ending.compaction is not None:
        planned.append((ending.order_id, ending.compaction, ending.drafts[-1].at))
    return ended


def _finish_all(
    connection: Connection, endings: Sequence[Ending], time: DatabaseTime
) -> dict[str, OrderState | StoreError]:
    """The results by order id. Rows are locked in the order of the ids, as all writers do. Raises `BadEntry`."""
    ended: dict[str, OrderState | StoreError] = {}
    planned: list[EndedTurn] = []
    for ending in sorted(endings, key=lambda one: one.order_id):
        try:
            ended[ending.order_id] = _finish(connection, ending, planned)
        except (ControlsPending, StoreFenced) as refused:
            ended[ending.order_id] = refused
    place_when_idle(connection, time, planned)
    return ended


def _fenced(held: Ending | Parking) -> StoreFenced:
    return StoreFenced(f"order {held.order_id} is not held under epoch {held.epoch} at entry {held.last_seq}")


def _was_finished(state: OrderState, ending: Ending) -> bool:
    """Whether this ending was committed before and only the answer was lost."""
    reached = ending.last_seq + len(ending.drafts)
    return state.status in FINAL and (state.epoch, state.last_seq) == (ending.epoch, reached)


def _controls_pending(state: OrderState) -> ControlsPending:
    return ControlsPending(f"order {state.order_id} has controls up to number {state.control_seq}: read them first")


def _hand_back(connection: Connection, state: OrderState, drone: str, message: str, at: datetime) -> None:
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    cancel = next((control for control in controls if cancels_order(control)), None)
    if cancel is not None:
        end_by_store(connection, state, cancelled_by(cancel), at)
        return
    back = OrderHandedBack(epoch=state.epoch + 1, drone=drone, message=message)
    release = {"epoch": state.epoch + 1, "incarnation": None, "claim_token": None}
    write(connection, state, [order_draft(at, back)], status=OrderStatus.QUEUED, **release)


def _was_parked(connection: Connection, parking: Parking, number: int) -> bool:
    """Whether this parking was committed before and only the answer was lost, whatever happened to the order since."""
    row = connection.execute(_AFTER_PARKING, {"wanted": parking.order_id, "seq": number}).first()
    return row is not None and (row.kind, row.epoch) == (OrderWaiting.kind, parking.epoch + 1)
