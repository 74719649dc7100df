"""Grants: remembered approvals, for an order until it ends, for a session, or for a workspace."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.approvals import Grant
from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.inbox_facts import ApprovalRequested, Remember
from mcc.contracts.permission import SavedRule
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, CannotRemember, UnknownGrant
from mcc.store.database.tables import GRANTS, STATE
from mcc.store.rows.actors import token_name, who
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import OrderState, text_json, text_of
from mcc.store.rows.texts import parsed
from mcc.store.rows.values import Page

MADE, REVOKED = "grant.made", "grant.revoked"

_ADD = sa.insert(GRANTS)
_ONE = sa.select(GRANTS).where(GRANTS.c.id == sa.bindparam("wanted"))
_SAME = sa.select(GRANTS.c.id).where(
    GRANTS.c.scope == sa.bindparam("scope"),
    GRANTS.c.scope_id == sa.bindparam("scope_id"),
    GRANTS.c.rule_json == sa.bindparam("rule_json"),
)
_DROP = sa.delete(GRANTS).where(GRANTS.c.id == sa.bindparam("wanted"))
_OF_ORDER = (
    sa.select(GRANTS.c.rule_json)
    .join(
        STATE,
        sa.or_(
            sa.and_(GRANTS.c.scope == "order", GRANTS.c.scope_id == STATE.c.order_id),
            sa.and_(GRANTS.c.scope == "session", GRANTS.c.scope_id == STATE.c.session_id),
            sa.and_(GRANTS.c.scope == "workspace", GRANTS.c.scope_id == STATE.c.workspace_key),
        ),
    )
    .where(STATE.c.order_id == sa.bindparam("of"))
    .order_by(GRANTS.c.id)
)


class GrantStore:
    """Remembered approvals. `Approvals.decide` makes them; those of an order end with it (`update_inbox`)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, *, cursor: str | None = None, limit: int = 50) -> Page[Grant]:
        """Newest first. Raises `BadCursor`."""
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of grants gave; begin without one")
        found = sa.select(GRANTS, token_name(GRANTS)).order_by(GRANTS.c.id.desc()).limit(limit + 1)
        found = found if cursor is None else found.where(GRANTS.c.id < cursor)
        rows = self._database.read(lambda connection: connection.execute(found).mappings().all())
        return Page([_grant(row) for row in rows[:limit]], rows[limit - 1]["id"] if len(rows) > limit else None)

    def of_order(self, order_id: str) -> Sequence[SavedRule]:
        """The rules that allow calls of this order now: its own, those of its session and those of its workspace."""
        rows = self._database.read(lambda connection: connection.execute(_OF_ORDER, {"of": order_id}).all())
        return [SavedRule.model_validate(parsed(row.rule_json)) for row in rows]

    def revoke(self, grant_id: str, *, by: Actor) -> None:
        """Remove a grant, with an audit note: it allows no further calls. Raises `UnknownGrant`."""
        at = self._database.clock.now()

        def work(connection: Connection) -> None:
            row = connection.execute(_ONE, {"wanted": grant_id}).mappings().first()
            if row is None:
                raise UnknownGrant(f"there is no grant {grant_id[:80]!r}")
            connection.execute(_DROP, {"wanted": grant_id})
            detail = {"grant": parsed(row["rule_json"]), "scope": row["scope"], "scope_id": row["scope_id"]}
            add_note(connection, at, REVOKED, by=by, order_id=None, detail=detail)

        if not is_identifier(grant_id):
            raise UnknownGrant(f"there is no grant {grant_id[:80]!r}")
        self._database.write(work)


def remember(
    connection: Connection, state: OrderState, asked: ApprovalRequested, scope: Remember, by: Actor, at: datetime
) -> None:
    """Store the rule of this approval as a grant. The caller holds the order's lock. Raises `CannotRemember`."""
    if asked.would_save is None:
        raise CannotRemember("nothing of this call can be remembered: approve it as it is, without remember")
    scope_id = {"order": state.order_id, "session": state.session_id, "workspace": state.workspace_key}[scope]
    if scope_id is None:
        raise CannotRemember("this order has no workspace with a lasting mark: remember it for the order or session")
    row: dict[str, Any] = {
        "id": fresh_id(),
        "scope": scope,
        "scope_id": scope_id,
        "workspace_json": text_json(asked.workspace) if scope == "workspace" else None,
        "rule_json": to_json(asked.would_save).decode(),
        **by.columns,
        "approval_id": asked.approval_id,
        "created_at": micros(at),
    }
    # Approving twice by one rule must not leave a second grant behind when the first is revoked.
    if connection.execute(_SAME, row).first() is None:
        connection.execute(_ADD, row)
        # It may outlive the journal in which the approval stands.
        detail = {"grant": row["id"], "rule": parsed(row["rule_json"]), "scope": scope, "scope_id": scope_id}
        add_note(connection, at, MADE, by=by, order_id=state.order_id, detail=detail)


def _grant(row: sa.RowMapping) -> Grant:
    return Grant.model_validate(
        {
            **parsed(row["rule_json"]),
            "id": row["id"],
            "scope": row["scope"],
            "scope_id": row["scope_id"],
            "workspace": text_of(row["workspace_json"]),
            "by": row["principal"],
            **who(row),
            "approval_id": row["approval_id"],
            "created_at": moment(row["created_at"]),
        }
    )
