"""This room is for holding orders: claiming one, handing it back, ending it. Those that wait are next door."""

from collections.abc import Collection, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.ids import is_identifier
from mcc.contracts.journal import JOURNAL_VERSION, OrderClaimed, OrderHandedBack
from mcc.contracts.status import FINAL, OrderStatus, WaitingReason, sources_of
from mcc.store.clock import micros
from mcc.store.entries import cancelled_by, checked, must_be_read, stops_all, told, unsettled
from mcc.store.errors import ControlsPending, Fenced, WorkspaceNeeded
from mcc.store.losses import SOLO, is_solo
from mcc.store.sql.endings import end, end_by_store
from mcc.store.sql.engine import Database
from mcc.store.sql.leases import has_lease
from mcc.store.sql.parking import Parker
from mcc.store.sql.receipts import controls_of
from mcc.store.sql.rows import State, insert_entries, is_held, lock, write
from mcc.store.sql.tables import DRONES, ORDERS, STATE
from mcc.store.sql.views import ORDER, claimable, is_any, is_claimable, work_order
from mcc.store.sql.workspaces import take
from mcc.store.values import Claim, Claimable, Ending, Parking, Waiting, WorkspaceHold
from mcc.store.waiting import check_workspace

_ORDER = ORDER.where(ORDERS.c.id == sa.bindparam("wanted"))
_REGISTERED = sa.select(DRONES.c.incarnation).where(DRONES.c.incarnation == sa.bindparam("wanted"))


class _WorkspaceTaken(Exception):
    """The claim that is under way is undone."""


class SqlClaims:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._parker = Parker(database)
        self._claimable = claimable(database.time)
        self._claim = (
            sa.update(STATE)
            .where(
                STATE.c.order_id == sa.bindparam("wanted"),
                is_any(STATE.c.status, sources_of("claim")),
                is_claimable(database.time),
                has_lease(database.time, sa.bindparam("by")),
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

    def claimable(self, queues: Sequence[str], limit: int, *, besides: Collection[str] = ()) -> Sequence[Claimable]:
        asked = {"queues": list(queues), "most": limit, "besides": list(besides)}
        rows = self._database.read(lambda connection: connection.execute(self._claimable, asked).all())
        return [Claimable(row.order_id, row.queue, row.priority, is_solo(row.barren)) for row in rows]

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
            row = connection.execute(self._claim, asked).mappings().first()
            if row is None:
                return _claimed_before(connection, order_id, incarnation, claim_token)
            state = State.of(row)
            if workspace is not None:
                check_workspace(order_id, state.workspace_key, workspace)
                if not take(connection, order_id, state.epoch, workspace):
                    raise _WorkspaceTaken
            fact = OrderClaimed(attempt=state.attempt, epoch=state.epoch, drone=drone, incarnation=incarnation)
            insert_entries(connection, state, [told(at, fact)], first=state.last_seq)
            claim = _claim_of(connection, state)
            if claim.order.workspace is not None and workspace is None and not unseen:
                raise WorkspaceNeeded(claim.order, begun=claim.attempt > 1)
            return claim

        try:
            return self._database.write(work, repeatable=True)
        except _WorkspaceTaken:
            return None

    def hand_back(self, held: Sequence[tuple[str, int]], *, drone: str, message: str) -> Sequence[str]:
        at = self._database.clock.now()

        def work(connection: Connection) -> list[str]:
            locked = [(lock(connection, order_id), epoch) for order_id, epoch in sorted(dict(held).items())]
            still = [state for state, epoch in locked if state and is_held(state, epoch)]
            for state in still:
                _hand_back(connection, state, drone, message, at)
            return [state.order_id for state in still]

        return self._database.write(work)

    def finish(self, ending: Ending) -> int:
        checked(ending)

        def work(connection: Connection) -> int:
            state = lock(connection, ending.order_id)
            if state is None:
                raise _fenced(ending)
            if _was_finished(state, ending):
                return state.last_seq
            if not is_held(state, ending.epoch) or state.last_seq != ending.last_seq:
                raise _fenced(ending)
            _settled(connection, state, ending)
            return end(connection, state, ending.drafts, ending.outcome, ending.record, epoch=state.epoch).last_seq

        return self._database.write(work, repeatable=True)

    def park(self, parking: Parking) -> int:
        return self._parker.park(parking)

    def waiting(self, reason: WaitingReason, limit: int, *, after: str = "") -> Sequence[Waiting]:
        return self._parker.waiting(reason, limit, after)

    def wake(self, order_id: str, reason: WaitingReason, message: str) -> bool:
        return self._parker.wake(order_id, reason, message)


def _claimed_before(connection: Connection, order_id: str, incarnation: str, token: str) -> Claim | None:
    state = lock(connection, order_id)
    if state and state.status is OrderStatus.RUNNING and (state.incarnation, state.claim_token) == (incarnation, token):
        return _claim_of(connection, state)
    if connection.execute(_REGISTERED, {"wanted": incarnation}).first() is None:
        raise ValueError(f"incarnation {incarnation} is not registered: a drone registers before it claims")
    return None


def _claim_of(connection: Connection, state: State) -> Claim:
    order = work_order(connection.execute(_ORDER, {"wanted": state.order_id}).mappings().one())
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    seen = unsettled(controls, state.control_seq)
    return Claim(order, state.epoch, state.attempt, state.last_seq, control_seq=seen)


def _fenced(ending: Ending) -> Fenced:
    return Fenced(f"order {ending.order_id} is not held under epoch {ending.epoch} at entry {ending.last_seq}")


def _was_finished(state: State, ending: Ending) -> bool:
    """True when this very ending was committed before, and only the answer was lost."""
    reached = ending.last_seq + len(ending.drafts)
    return state.status in FINAL and (state.epoch, state.last_seq) == (ending.epoch, reached)


def _settled(connection: Connection, state: State, ending: Ending) -> None:
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    if any(must_be_read(control, ending) for control in controls):
        raise ControlsPending(f"order {state.order_id} has controls up to number {state.control_seq}: read them first")


def _hand_back(connection: Connection, state: State, drone: str, message: str, at: datetime) -> None:
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    cancel = next((control for control in controls if stops_all(control)), None)
    if cancel is not None:
        end_by_store(connection, state, cancelled_by(cancel), at)
        return
    back = OrderHandedBack(epoch=state.epoch + 1, drone=drone, message=message)
    release = {"epoch": state.epoch + 1, "incarnation": None, "claim_token": None}
    write(connection, state, [told(at, back)], status=OrderStatus.QUEUED, **release)
