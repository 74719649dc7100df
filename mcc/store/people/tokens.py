"""Tokens of people, of the operator and of services: made, listed, revoked. The store has their digests alone."""

from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import PERSON, SERVICE, AccessScope, Actor, Role
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.people import PREFIX_CHARACTERS, ApiToken, NewApiToken
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, TooManyTokens, UnknownToken
from mcc.store.database.tables import API_TOKENS
from mcc.store.people.budgets import budget_in, budget_json, note_budget
from mcc.store.people.people import locked_person
from mcc.store.rows.audit import add_note
from mcc.store.rows.budget_rows import TOKEN
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.values import Page

MOST_TOKENS = 100
"""How many tokens of one maker count at a time."""

MOST_A_DAY = 1_000
"""How many one maker makes within 24 hours, as also those that were revoked are kept."""

_ALL = sa.select(API_TOKENS).order_by(API_TOKENS.c.id.desc())
_ONE = sa.select(API_TOKENS).where(API_TOKENS.c.id == sa.bindparam("wanted"))
_COUNT = sa.select(sa.func.count()).where(
    API_TOKENS.c.created_by == sa.bindparam("by"),
    API_TOKENS.c.revoked_at.is_(None),
    sa.or_(API_TOKENS.c.expires_at.is_(None), API_TOKENS.c.expires_at > sa.bindparam("now", type_=sa.BigInteger)),
)
_MADE = sa.select(sa.func.count()).where(
    API_TOKENS.c.created_by == sa.bindparam("by"),
    API_TOKENS.c.created_at > sa.bindparam("after", type_=sa.BigInteger),
)
_REVOKE = (
    sa.update(API_TOKENS)
    .where(API_TOKENS.c.id == sa.bindparam("wanted"), API_TOKENS.c.revoked_at.is_(None))
    .values(revoked_at=sa.bindparam("at"))
)


class TokenStore:
    """Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def make(self, secret: str, digest: str, new: NewApiToken, *, by: Actor) -> ApiToken:
        """Keep the token `secret`, of which `digest` is the SHA-256: a personal one is of the principal `by`. Raises
        `UnknownPerson`, `TooManyTokens`."""
        at = self._database.clock.now()
        return self._database.write(lambda connection: add_token(connection, at, secret, digest, new, by=by))

    def list(self, principal: str | None = None, *, cursor: str | None = None, limit: int = 50) -> Page[ApiToken]:
        """Those of the principal, None: all, the newest first; those that count no longer too. Raises `BadCursor`."""
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of tokens gave; begin without one")
        wanted = _ALL if principal is None else _ALL.where(API_TOKENS.c.principal == principal)
        wanted = (wanted if cursor is None else wanted.where(API_TOKENS.c.id < cursor)).limit(limit + 1)
        rows = self._database.read(lambda connection: connection.execute(wanted).mappings().all())
        return Page([token_of(row) for row in rows[:limit]], rows[limit - 1]["id"] if len(rows) > limit else None)

    def revoke(self, token_id: str, *, by: Actor, anybodys: bool = False) -> None:
        """From now on it counts for nothing. Raises `UnknownToken`, also for another principal's unless `anybodys`."""
        at = self._database.clock.now()

        def work(connection: Connection) -> None:
            row = connection.execute(_ONE, {"wanted": token_id}).mappings().first() if is_identifier(token_id) else None
            if row is None or not (anybodys or row["principal"] == by.principal):
                raise UnknownToken("there is no such token")
            if connection.execute(_REVOKE, {"wanted": token_id, "at": micros(at)}).rowcount:
                detail = {"token": token_id, "of": row["principal"]}
                add_note(connection, at, "token.revoked", by=by, order_id=None, detail=detail)

        self._database.write(work)


def add_token(
    connection: Connection, at: datetime, secret: str, digest: str, new: NewApiToken, *, by: Actor
) -> ApiToken:
    """Keep a token in the transaction of what it is made by. Raises `UnknownPerson`, `TooManyTokens`."""
    token_id, days = fresh_id(), new.expires_in_days
    row = {
        "id": token_id,
        "digest": digest,
        "kind": new.kind,
        "principal": by.principal if new.kind == "personal" else SERVICE + token_id,
        "name_json": text_json(new.name),
        "role": None if new.role is None else new.role.value,
        "scopes": " ".join(sorted(new.scopes)),
        "prefix": secret[:PREFIX_CHARACTERS],
        "created_at": micros(at),
        "created_by": by.principal,
        "expires_at": None if days is None else micros(at + timedelta(days=days)),
        "budget_json": budget_json(new.budget),
    }
    # Locked, so that a person who is removed meanwhile leaves no token behind.
    if by.principal.startswith(PERSON):
        locked_person(connection, by.principal)
    if (connection.scalar(_COUNT, {"by": by.principal, "now": micros(at)}) or 0) >= MOST_TOKENS:
        raise TooManyTokens(f"{MOST_TOKENS} tokens that you made count at a time: revoke one")
    made = connection.scalar(_MADE, {"by": by.principal, "after": micros(at - timedelta(days=1))}) or 0
    if made >= MOST_A_DAY:
        raise TooManyTokens(f"you made {MOST_A_DAY:,} tokens within 24 hours: use those, or wait")
    connection.execute(sa.insert(API_TOKENS), row)
    detail = {"token": token_id, "of": row["principal"], "scopes": sorted(new.scopes), "days": days}
    detail |= {} if new.role is None else {"role": new.role.value}
    add_note(connection, at, "token.made", by=by, order_id=None, detail=detail)
    if new.budget is not None:
        owner = TOKEN + token_id if new.kind == "personal" else SERVICE + token_id
        note_budget(connection, at, owner, new.budget, None, by)
    return token_of(connection.execute(_ONE, {"wanted": token_id}).mappings().one())


def token_of(row: sa.RowMapping) -> ApiToken:
    return ApiToken(
        id=row["id"],
        kind=row["kind"],
        principal=row["principal"],
        name=text_of(row["name_json"]) or "",
        role=None if row["role"] is None else Role(row["role"]),
        scopes=tuple(map(AccessScope, row["scopes"].split())),
        prefix=row["prefix"],
        budget=budget_in(row),
        created_at=moment(row["created_at"]),
        created_by=row["created_by"],
        expires_at=moment_or_none(row["expires_at"]),
        last_used_at=moment_or_none(row["last_used_at"]),
        revoked_at=moment_or_none(row["revoked_at"]),
    )
