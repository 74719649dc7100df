"""Holding orders: claiming them, handing them back, laying one aside to wait, ending it."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control
from mcc.contracts.ids import is_identifier
from mcc.contracts.order_facts import OrderHandedBack, OrderResumed, OrderWaiting
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason, sources_of
from mcc.store.claiming import ClaimAnswer, GroupClaim, needing_workspaces
from mcc.store.clock import micros, moment
from mcc.store.control_rows import controls_of, settle_applied
from mcc.store.endings import end, end_by_store
from mcc.store.engine import Database
from mcc.store.errors import BadEntry, ControlsPending, Fenced, StoreError
from mcc.store.rows import State, is_held, lock, write
from mcc.store.tables import JOURNAL, ORDERS, STATE
from mcc.store.texts import parsed
from mcc.store.transitions import (
    applied_draft,
    cancelled_by,
    check_ending,
    is_solo,
    keeps_from_waiting,
    must_be_read,
    order_draft,
    stops_all,
    waits_until,
)
from mcc.store.values import Claim, Claimable, ClaimedBy, Ended, Ending, Parking, ToClaim, Waiting, WorkspaceHold
from mcc.store.views import claimable, has_status, is_status

_FOLLOWING = (
    sa.select(STATE.c.order_id, STATE.c.queue, STATE.c.priority, STATE.c.last_seq, STATE.c.barren)
    .where(STATE.c.session_id == sa.bindparam("wanted"), has_status(STATE.c.status, frozenset({OrderStatus.QUEUED})))
    .order_by(STATE.c.session_seq)
    .limit(1)
)

_AFTER_PARKING = sa.select(JOURNAL.c.kind, JOURNAL.c.epoch).where(
    JOURNAL.c.order_id == sa.bindparam("wanted"), JOURNAL.c.seq == sa.bindparam("seq")
)
_WAITING = (
    sa.select(STATE.c.order_id, STATE.c.workspace_key, ORDERS.c.spec_json, JOURNAL.c.at)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .join(JOURNAL, sa.and_(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.seq == STATE.c.last_seq))
    .where(
        is_status(STATE.c.status, OrderStatus.WAITING),
        STATE.c.reason == sa.bindparam("reason"),
        STATE.c.order_id > sa.bindparam("after"),
    )
    .order_by(STATE.c.order_id)
    .limit(sa.bindparam("most"))
)


class Claims:
    def __init__(self, database: Database) -> None:
        self._database = database

    def claimable(self, queues: Sequence[str], limit: int, *, besides: Collection[str] = ()) -> Sequence[Claimable]:
        """Orders that a drone could claim now, best first: heads of their sessions, due, by priority, then age.

        `besides` are ids to leave out, of orders whose workspace is taken, say: they must not hide those behind them.
        """

        def first(connection: Connection) -> list[sa.Row[Any]]:
            # Each queue by itself: of several at once, a database puts all that is queued in order to find the first.
            asked = ({"wanted": queue, "most": limit, "besides": list(besides)} for queue in dict.fromkeys(queues))
            return [row for one in asked for row in connection.execute(claimable(self._database.time), one)]

        rows = sorted(self._database.read(first), key=lambda row: (row.priority, row.order_id))[:limit]
        return list(map(_claimable, rows))

    def claim(
        self,
        order_id: str,
        *,
        incarnation: str,
        claim_token: str,
        drone: str,
        alone: bool = True,
        workspace: WorkspaceHold | None = None,
        unseen: bool = True,
    ) -> Claim | None:
        """One conditional UPDATE; epoch + 1, attempt + 1, entry `order.claimed`. None: not claimable (any more).

        The same token again gives the same claim. `alone` says that this process holds no other order: orders under
        which drones were lost are claimed only so.

        `workspace` is locked for as long as the order runs under this claim. While another running order holds that
        workspace in a way that does not go together with this claim, None is answered and nothing changed. The first
        workspace with a lasting key is where the order begins. For another key `AnotherWorkspace` is raised and nothing
        changed, until the order is parked because of that directory and a resume lets it go on there.

        `unseen` False: an order that names a workspace is claimed with `workspace` only; without it `WorkspaceNeeded`
        is raised and nothing changed.
        """
        claimant = ClaimedBy(drone, incarnation, claim_token, alone)
        answer = self.claim_together([ToClaim(order_id, workspace, unseen)], claimant)[0]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def claim_together(self, asked: Sequence[ToClaim], claimant: ClaimedBy) -> Sequence[ClaimAnswer]:
        """What `claim` says of each of these, in one transaction; one that is not to be had keeps no other back.

        What somebody else is changing just now is waited for once all the others are claimed.
        """
        named = [one.order_id for one in asked if one.workspace is None and not one.unseen]
        found: dict[str, ClaimAnswer] = {}
        if named:
            # Before the transaction, which would be one for nothing; what an order asks for never changes.
            found |= self._database.read(lambda connection: needing_workspaces(connection, named))
        rest = [one for one in asked if one.order_id not in found and is_identifier(one.order_id)]
        group = self._group(rest, claimant)
        if rest:
            found |= self._database.write(group.work, repeatable=True)
        for one in group.asked:
            if one.order_id in group.passed_over:
                found |= self._database.write(self._group([one], claimant).work, repeatable=True)
        return [found.get(one.order_id) for one in asked]

    def _group(self, asked: Sequence[ToClaim], claimant: ClaimedBy) -> GroupClaim:
        at = micros(self._database.clock.now())
        return GroupClaim(asked, claimant, at, self._database.time, skip_locked=len(asked) > 1)

    def hand_back(self, held: Sequence[tuple[str, int]], *, drone: str, message: str) -> Sequence[str]:
        """Requeue these (order id, epoch) pairs that are still held; answers the ids.

        What is open stays open, for the next holder to go on with. An order that is to be cancelled ends instead.
        """
        at = self._database.clock.now()

        def work(connection: Connection) -> list[str]:
            locked = [(lock(connection, order_id), epoch) for order_id, epoch in sorted(dict(held).items())]
            still = [state for state, epoch in locked if state and is_held(state, epoch)]
            for state in still:
                _hand_back(connection, state, drone, message, at)
            return [state.order_id for state in still]

        return self._database.write(work)

    def finish(self, ending: Ending) -> int:
        """Final status, outcome, record rows and last entries in one transaction; answers the last sequence number.

        Open receipts are settled. Raises `Fenced`, or `ControlsPending` when a control came after `control_seq`.
        """
        check_ending(ending)
        return self._database.write(lambda connection: _finish(connection, ending), repeatable=True).last_seq

    def finish_together(self, endings: Sequence[Ending]) -> Sequence[Ended | StoreError]:
        """What `finish` says of each of these orders, in one transaction; one that cannot be ended keeps no other back.

        Raises `StoreUnavailable`.
        """
        for ending in endings:
            check_ending(ending)
        try:
            ended = self._database.write(lambda connection: _finish_all(connection, endings), repeatable=True)
        except BadEntry:
            ended = {ending.order_id: self._finished_alone(ending) for ending in endings}
        # After the commit: a turn that was placed until now is found here, and one that is placed now nudges itself.
        found = self._database.read(
            lambda connection: {
                order_id: _following(connection, done.session_id)
                for order_id, done in ended.items()
                if isinstance(done, State)
            }
        )
        answers = ((ended[one.order_id], found.get(one.order_id)) for one in endings)
        return [Ended(done.last_seq, after) if isinstance(done, State) else done for done, after in answers]

    def _finished_alone(self, ending: Ending) -> State | StoreError:
        try:
            return self._database.write(lambda connection: _finish(connection, ending), repeatable=True)
        except (BadEntry, ControlsPending, Fenced) as refused:
            return refused

    def park(self, parking: Parking) -> int:
        """The held order waits without a holder; answers the number of the entry `order.waiting`.

        It waits until it expires, or for a day after it could have gone on. A parking that was committed before, and
        whose answer was lost, is answered as it was then.

        Raises `Fenced`, or `ControlsPending` when a control came after `control_seq`, or when a cancel or a resume of
        the whole order is not settled, whatever its number.
        """
        return self._database.write(lambda connection: self._park(connection, parking), repeatable=True)

    def _park(self, connection: Connection, parking: Parking) -> int:
        state, number = lock(connection, parking.order_id), parking.last_seq + 1
        if state is None or not is_held(state, parking.epoch) or state.last_seq != parking.last_seq:
            if _was_parked(connection, parking, number):
                return number
            raise _fenced(parking)
        controls = controls_of(connection, state.order_id) if state.control_seq else []
        if any(keeps_from_waiting(control, parking) for control in controls):
            raise _controls_pending(state)
        fact = OrderWaiting(reason=parking.reason, message=parking.message, until=parking.until, found=parking.found)
        due = micros(parking.until) if parking.until else None
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
        )
        return number

    def waiting(self, reason: WaitingReason, limit: int, *, after: str = "") -> Sequence[Waiting]:
        """Orders that wait for this reason, by id (oldest first), those after the id `after`."""
        asked = {"reason": reason.value, "after": after, "most": limit}
        rows = self._database.read(lambda connection: connection.execute(_WAITING, asked).all())
        return [
            Waiting(row.order_id, parsed(row.spec_json).get("workspace"), moment(row.at), row.workspace_key)
            for row in rows
        ]

    def wake(self, order_id: str, reason: WaitingReason, message: str) -> bool:
        """An order that waits for this reason is queued again, with an entry that says `message`.

        False: it does not wait (any more), or for another reason.
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
    return Claimable(row.order_id, row.queue, row.priority, row.last_seq, is_solo(row.barren))


def _following(connection: Connection, session_id: str) -> Claimable | None:
    row = connection.execute(_FOLLOWING, {"wanted": session_id}).first()
    return None if row is None else _claimable(row)


def _finish(connection: Connection, ending: Ending) -> State:
    """The order as it is then. Nothing is changed where `Fenced` or `ControlsPending` is raised."""
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
    return end(connection, state, ending.drafts, ending.outcome, ending.record, epoch=state.epoch)


def _finish_all(connection: Connection, endings: Sequence[Ending]) -> dict[str, State | StoreError]:
    """By order, in the order of the ids, in which all writers lock rows. Raises `BadEntry`."""
    ended: dict[str, State | StoreError] = {}
    for ending in sorted(endings, key=lambda one: one.order_id):
        try:
            ended[ending.order_id] = _finish(connection, ending)
        except (ControlsPending, Fenced) as refused:
            ended[ending.order_id] = refused
    return ended


def _fenced(held: Ending | Parking) -> Fenced:
    return Fenced(f"order {held.order_id} is not held under epoch {held.epoch} at entry {held.last_seq}")


def _was_finished(state: State, ending: Ending) -> bool:
    """True when this very ending was committed before, and only the answer was lost."""
    reached = ending.last_seq + len(ending.drafts)
    return state.status in FINAL and (state.epoch, state.last_seq) == (ending.epoch, reached)


def _controls_pending(state: State) -> ControlsPending:
    return ControlsPending(f"order {state.order_id} has controls up to number {state.control_seq}: read them first")


def _hand_back(connection: Connection, state: State, drone: str, message: str, at: datetime) -> None:
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    cancel = next((control for control in controls if stops_all(control)), None)
    if cancel is not None:
        end_by_store(connection, state, cancelled_by(cancel), at)
        return
    back = OrderHandedBack(epoch=state.epoch + 1, drone=drone, message=message)
    release = {"epoch": state.epoch + 1, "incarnation": None, "claim_token": None}
    write(connection, state, [order_draft(at, back)], status=OrderStatus.QUEUED, **release)


def _was_parked(connection: Connection, parking: Parking, number: int) -> bool:
    """True when this very parking was committed before and only its answer was lost, whatever the order did since."""
    row = connection.execute(_AFTER_PARKING, {"wanted": parking.order_id, "seq": number}).first()
    return row is not None and (row.kind, row.epoch) == (OrderWaiting.kind, parking.epoch + 1)


def resume(
    connection: Connection,
    state: State,
    at: datetime,
    message: str,
    control: Control | None = None,
    *,
    workspace_key: str | None = None,
) -> State:
    """A waiting order becomes claimable again, also before the time for which it waited. This applies `control`.

    `workspace_key`: the order goes on in the directory with this key.
    """
    drafts = [applied_draft(control, at)] if control else []
    drafts.append(order_draft(at, OrderResumed(message=message)))
    settle_applied(connection, state.order_id, list(enumerate(drafts, start=state.last_seq + 1)))
    woken: dict[str, object] = {"reason": None, "not_before": None, "waits_until": None, "epoch": state.epoch + 1}
    if workspace_key is not None:
        woken["workspace_key"] = workspace_key
    return write(connection, state, drafts, status=OrderStatus.QUEUED, **woken)
