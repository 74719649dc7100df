"""The transaction in which a drone claims several orders, each under an epoch of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.entry import Draft
from mcc.contracts.journal import JOURNAL_VERSION
from mcc.contracts.order_facts import OrderClaimed
from mcc.contracts.status import OrderStatus, sources_of
from mcc.store.database.clock import moment, moment_or_none
from mcc.store.database.engine import DatabaseTime
from mcc.store.database.errors import AnotherWorkspace, WorkspaceNeeded
from mcc.store.database.tables import DRONES, ORDERS, STATE, among
from mcc.store.rows.control_rows import controls_of
from mcc.store.rows.order_rows import OrderState, insert_all
from mcc.store.rows.texts import parsed
from mcc.store.rows.transitions import SOLO, check_workspace, order_draft, unsettled
from mcc.store.rows.values import Claim, ClaimingDrone, ClaimRequest, WorkspaceHold
from mcc.store.rows.views import COLUMNS, ORDER, is_claimable, work_order
from mcc.store.work.leases import has_lease

ClaimAnswer: TypeAlias = Claim | WorkspaceNeeded | AnotherWorkspace | None


def _may_claim(time: DatabaseTime) -> sa.ColumnElement[bool]:
    """The order can be claimed now by this claimant; parameters `by` (its incarnation) and `alone`."""
    return sa.and_(
        is_claimable(time, by_id=True),
        has_lease(time, sa.bindparam("by")),
        sa.or_(STATE.c.barren < SOLO, sa.bindparam("alone", type_=sa.Boolean)),
    )


_NAME = sa.select(DRONES.c.name.label("name")).where(DRONES.c.incarnation == sa.bindparam("by")).scalar_subquery()


@lru_cache(maxsize=16)
def _candidates(time: DatabaseTime, skip_locked: bool) -> sa.Select[Any]:
    """Those of the orders `wanted` that can be claimed, their states locked in the order of their ids; parameters
    `wanted` and those of `_may_claim`."""
    return (
        ORDER.add_columns(STATE.c.epoch, STATE.c.workspace_key, _NAME.label("claimant"))
        .where(among(STATE.c.order_id, "wanted"), _may_claim(time))
        .order_by(STATE.c.order_id)
        # Only the state: a lock on the rows that are joined would stop writers of orders and sessions that have nothing
        # to do with it.
        .with_for_update(of=STATE, skip_locked=skip_locked)
    )


@lru_cache(maxsize=8)
def _claim(time: DatabaseTime) -> sa.UpdateBase:
    """Parameters `wanted`, `token`, `at`, `lasting` and those of `_may_claim`."""
    return (
        sa.update(STATE)
        .where(among(STATE.c.order_id, "wanted"), _may_claim(time))
        .values(
            status=OrderStatus.RUNNING.value,
            reason=None,
            epoch=STATE.c.epoch + 1,
            attempt=STATE.c.attempt + 1,
            last_seq=STATE.c.last_seq + 1,
            incarnation=sa.bindparam("by"),
            claim_token=sa.bindparam("token"),
            journal_version=JOURNAL_VERSION,
            # The first directory stays the order's: what was done in it must not be continued in another one.
            workspace_key=sa.func.coalesce(STATE.c.workspace_key, sa.bindparam("lasting", type_=sa.String)),
            started_at=sa.func.coalesce(STATE.c.started_at, sa.bindparam("at")),
        )
        .returning(STATE)
    )


@lru_cache(maxsize=8)
def _still_claimable(time: DatabaseTime) -> sa.Select[Any]:
    return sa.select(STATE.c.order_id).where(among(STATE.c.order_id, "wanted"), _may_claim(time))


_SHOWN = frozenset(column.name for column in COLUMNS)
_OWN = ORDER.add_columns(*(STATE.c[name] for name in OrderState.__slots__ if name not in _SHOWN)).where(
    among(STATE.c.order_id, "wanted"),
    # The + "" rules out the indexes that begin with these columns: by id, there are few rows.
    STATE.c.status + "" == OrderStatus.RUNNING.value,
    STATE.c.incarnation + "" == sa.bindparam("by"),
    STATE.c.claim_token == sa.bindparam("token"),
)
_NAMED = ORDER.where(among(ORDERS.c.id, "wanted"))
_REGISTERED = sa.select(DRONES.c.incarnation).where(DRONES.c.incarnation == sa.bindparam("by"))


def needing_workspaces(connection: Connection, order_ids: Sequence[str]) -> dict[str, ClaimAnswer]:
    """The claim results of those of these orders that name a workspace: `WorkspaceNeeded`, or None where the order
    cannot be claimed now."""
    rows = connection.execute(_NAMED, {"wanted": order_ids}).mappings().all()
    orders = [work_order(row) for row in rows if parsed(row["spec_json"]).get("workspace") is not None]
    return {
        order.id: WorkspaceNeeded(order, begun=order.attempt > 0) if order.status in sources_of("claim") else None
        for order in orders
    }


@dataclass(slots=True)
class GroupClaim:
    """One transaction that claims what it can of `requests`; `at` is the time in microseconds.

    `skip_locked`: orders whose rows are locked by others are skipped; `work` leaves those that look claimable in
    `passed_over`.
    """

    requests: Sequence[ClaimRequest]
    claimant: ClaimingDrone
    at: int
    time: DatabaseTime
    skip_locked: bool = False
    passed_over: frozenset[str] = frozenset()

    def work(self, connection: Connection) -> dict[str, ClaimAnswer]:
        """The answers by order id. Raises ValueError for a claimant that is not registered."""
        wanted = {request.order_id: request for request in self.requests}
        rows = connection.execute(_candidates(self.time, self.skip_locked), self._parameters(wanted)).mappings().all()
        answers: dict[str, ClaimAnswer] = dict.fromkeys(wanted)
        claimed: list[tuple[sa.RowMapping, sa.RowMapping]] = []
        plain: dict[str, sa.RowMapping] = {}
        for row in rows:
            request = wanted[row["id"]]
            if request.workspace is not None:
                answer = self._in_its_workspace(connection, row, request.workspace)
                claimed += [(row, answer)] if isinstance(answer, Mapping) else []
                answers[request.order_id] = answer if isinstance(answer, AnotherWorkspace) else None
            else:
                plain[request.order_id] = row
        if plain:
            states = connection.execute(_claim(self.time), self._parameters(plain, lasting=None)).mappings()
            claimed += ((plain[state["order_id"]], state) for state in states)
        answers |= self._written(connection, claimed)
        if missing := wanted.keys() - {row["id"] for row in rows}:
            answers |= self._claimed_before(connection, missing)
        return answers

    def _parameters(self, wanted: Sequence[str] | Mapping[str, object], **more: object) -> dict[str, object]:
        own = {"by": self.claimant.incarnation, "token": self.claimant.claim_token, "alone": self.claimant.alone}
        return {"wanted": list(wanted), "at": self.at, **own, **more}

    def _in_its_workspace(
        self, connection: Connection, row: sa.RowMapping, hold: WorkspaceHold
    ) -> sa.RowMapping | AnotherWorkspace | None:
        """Claim the order for this directory; the state afterwards, None where it cannot be claimed any more."""
        order_id = row["id"]
        try:
            check_workspace(order_id, row["workspace_key"], hold)
        except AnotherWorkspace as another:
            return another
        parameters = self._parameters([order_id], lasting=hold.key if hold.lasting else None)
        return connection.execute(_claim(self.time), parameters).mappings().first()

    def _written(
        self, connection: Connection, claimed: Sequence[tuple[sa.RowMapping, sa.RowMapping]]
    ) -> dict[str, ClaimAnswer]:
        """Write the entries `order.claimed`; answers the claims."""
        made: dict[str, ClaimAnswer] = {}
        drafts: list[tuple[OrderState, Draft]] = []
        for row, columns in claimed:
            state = OrderState.of(columns)
            fact = OrderClaimed(
                attempt=state.attempt,
                epoch=state.epoch,
                drone=self.claimant.drone,
                incarnation=self.claimant.incarnation,
            )
            draft = order_draft(moment(self.at), fact)
            drafts.append((state, draft))
            now = {name: columns[name] for name in ("status", "reason", "attempt", "started_at", "last_seq")}
            order = {**row, **now, "drone": row["claimant"]}
            made[state.order_id] = _claim_of(connection, order, state, draft)
        insert_all(connection, drafts)
        return made

    def _claimed_before(self, connection: Connection, missing: set[str]) -> dict[str, ClaimAnswer]:
        """The orders that this claimant holds under the same token already: the answer to that claim was lost."""
        parameters = self._parameters(sorted(missing))
        rows = connection.execute(_OWN, parameters).mappings().all()
        claims_before: dict[str, ClaimAnswer] = {
            row["id"]: _claim_of(connection, row, OrderState.of(row)) for row in rows
        }
        # Asked only when nothing was claimed, so that a claim that succeeds pays nothing for it.
        if not claims_before and connection.execute(_REGISTERED, parameters).first() is None:
            raise ValueError(
                f"incarnation {self.claimant.incarnation} is not registered: a drone registers before it claims"
            )
        if self.skip_locked and (rest := missing - claims_before.keys()):
            left = connection.execute(_still_claimable(self.time), self._parameters(sorted(rest))).scalars()
            self.passed_over = frozenset(left)
        return claims_before


def _claim_of(
    connection: Connection, row: sa.RowMapping | Mapping[str, Any], state: OrderState, draft: Draft | None = None
) -> Claim:
    controls = controls_of(connection, state.order_id) if state.control_seq else []
    return Claim(
        work_order(row),
        state.epoch,
        state.attempt,
        state.last_seq,
        control_seq=unsettled(controls, state.control_seq),
        entry=draft.numbered(state.order_id, state.last_seq) if draft else None,
        has_open_controls=any(control.open for control in controls),
        writes=state.writes,
        wants_since=moment_or_none(state.wants_at),
    )
