"""Holding orders: claiming one, handing it back, laying it aside to wait, ending it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.control import Control
from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order_facts import OrderClaimed, OrderHandedBack, OrderResumed, OrderWaiting
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason, sources_of
from mcc.store.clock import micros, moment
from mcc.store.control_rows import controls_of, settle_applied
from mcc.store.endings import end, end_by_store
from mcc.store.engine import Database, DatabaseTime
from mcc.store.errors import ControlsPending, Fenced, WorkspaceNeeded
from mcc.store.leases import has_lease
from mcc.store.rows import State, insert_entries, is_held, lock, take, write
from mcc.store.tables import DRONES, JOURNAL, ORDERS, STATE
from mcc.store.texts import parsed
from mcc.store.transitions import (
    SOLO,
    applied_draft,
    cancelled_by,
    check_ending,
    check_workspace,
    is_solo,
    keeps_from_waiting,
    must_be_read,
    order_draft,
    stops_all,
    unsettled,
    waits_until,
)
from mcc.store.values import Claim, Claimable, Ending, Parking, Waiting, WorkspaceHold
from mcc.store.views import ORDER, claimable, has_status, is_claimable, work_order

_CLAIMED = ORDER.where(ORDERS.c.id == sa.bindparam("wanted"))
_REGISTERED = sa.select(DRONES.c.incarnation).where(DRONES.c.incarnation == sa.bindparam("wanted"))

_AFTER_PARKING = sa.select(JOURNAL.c.kind, JOURNAL.c.epoch).where(
    JOURNAL.c.order_id == sa.bindparam("wanted"), JOURNAL.c.seq == sa.bindparam("seq")
)
_WAITING = (
    sa.select(STATE.c.order_id, STATE.c.workspace_key, ORDERS.c.spec_json, JOURNAL.c.at)
    .join(ORDERS, ORDERS.c.id == STATE.c.order_id)
    .join(JOURNAL, sa.and_(JOURNAL.c.order_id == STATE.c.order_id, JOURNAL.c.seq == STATE.c.last_seq))
    .where(
        has_status(STATE.c.status, frozenset({OrderStatus.WAITING})),
        STATE.c.reason == sa.bindparam("reason"),
        STATE.c.order_id > sa.bindparam("after"),
    )
    .order_by(STATE.c.order_id)
    .limit(sa.bindparam("most"))
)


class _WorkspaceTaken(Exception):
    """Undoes the transaction of a claim whose workspace another order holds."""


@lru_cache(maxsize=8)
def _claim(time: DatabaseTime) -> sa.UpdateBase:
    """Parameters `wanted`, `by`, `token`, `at`, `alone` and `lasting`."""
    return (
        sa.update(STATE)
        .where(
            STATE.c.order_id == sa.bindparam("wanted"),
            has_status(STATE.c.status, sources_of("claim")),
            is_claimable(time),
            has_lease(time, sa.bindparam("by")),
            sa.or_(STATE.c.barren < SOLO, sa.bindparam("alone", type_=sa.Boolean)),
        )
        .values(
            status=OrderStatus.RUNNING.value,
            reason=None,
            epoch=STATE.c.epoch + 1,
            attempt=STATE.c.attempt + 1,
            last_seq=STATE.c.last_seq + 1,
            incarnation=sa.bindparam("by"),
            claim_token=sa.bindparam("token"),
            journal_version=JOURNAL_VERSION,
            workspace_key=sa.func.coalesce(STATE.c.workspace_key, sa.bindparam("lasting", type_=sa.String)),
            started_at=sa.func.coalesce(STATE.c.started_at, sa.bindparam("at")),
        )
        .returning(STATE)
    )


class Claims:
    def __init__(self, database: Database) -> None:
        self._database = database

    def claimable(self, queues: Sequence[str], limit: int, *, besides: Collection[str] = ()) -> Sequence[Claimable]:
        """Orders that a drone could claim now, best first: heads of their sessions, due, by priority, then age.

        `besides` are ids to leave out, of orders whose workspace is taken, say: they must not hide those behind them.
        """
        asked = {"queues": list(queues), "most": limit, "besides": list(besides)}
        rows = self._database.read(lambda connection: connection.execute(claimable(self._database.time), asked).all())
        return [Claimable(row.order_id, row.queue, row.priority, row.last_seq, is_solo(row.barren)) for row in rows]

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
        if not is_identifier(order_id):
            return None
        at = self._database.clock.now()
        asked = {
            "wanted": order_id,
            "by": incarnation,
            "token": claim_token,
            "at": micros(at),
            "alone": alone,
            "lasting": workspace.key if workspace and workspace.lasting else None,
        }

        def work(connection: Connection) -> Claim | None:
            row = connection.execute(_claim(self._database.time), asked).mappings().first()
            if row is None:
                return _claimed_before(connection, order_id, incarnation, claim_token)
            state = State.of(row)
            if workspace is not None:
                check_workspace(order_id, state.workspace_key, workspace)
                if not take(connection, order_id, state.epoch, workspace):
                    raise _WorkspaceTaken
            fact = OrderClaimed(attempt=state.attempt, epoch=state.epoch, drone=drone, incarnation=incarnation)
            draft = order_draft(at, fact)
            insert_entries(connection, state, [draft], first=state.last_seq)
            claim = replace(_claim_of(connection, state), entry=draft.numbered(order_id, state.last_seq))
            if claim.order.workspace is not None and workspace is None and not unseen:
                raise WorkspaceNeeded(claim.order, begun=claim.attempt > 1)
            return claim

        try:
            return self._database.write(work, repeatable=True)
        except _WorkspaceTaken:
            return None

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

        def work(connection: Connection) -> int:
            state = lock(connection, ending.order_id)
            if state is None:
                raise _fenced(ending)
            if _was_finished(state, ending):
                return state.last_seq
            if not is_held(state, ending.epoch) or state.last_seq != ending.last_seq:
                raise _fenced(ending)
            controls = controls_of(connection, state.order_id) if state.control_seq else []
            if any(must_be_read(control, ending) for control in controls):
                raise _controls_pending(state)
            return end(connection, state, ending.drafts, ending.outcome, ending.record, epoch=state.epoch).last_seq

        return self._database.write(work, repeatable=True)

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


def _claimed_before(connection: Connection, order_id: str, incarnation: str, token: str) -> Claim | None:
    state = lock(connection, order_id)
    if state and state.status is OrderStatus.RUNNING and (state.incarnation, state.claim_token) == (incarnation, token):
        return _claim_of(connection, state)
    if connection.execute(_REGISTERED, {"wanted": incarnation}).first() is None:
        raise ValueError(f"incarnation {incarnation} is not registered: a drone registers before it claims")
    return None


def _claim_of(connection: Connection, state: State) -> Claim:
    order = work_order(connection.execute(_CLAIMED, {"wanted": state.order_id}).mappings().one())
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    seen = unsettled(controls, state.control_seq)
    return Claim(order, state.epoch, state.attempt, state.last_seq, control_seq=seen)


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
