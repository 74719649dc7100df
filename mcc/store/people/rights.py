"""What a cookie or a token stands for now: whose it is, the role and the scopes it has, and whether it has ended."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import (
    ALL_SCOPES,
    OPERATOR,
    PERSON,
    SCOPES_OF,
    AccessScope,
    Role,
    Signin,
    SigninWay,
    TokenOfCaller,
    kind_of,
)
from mcc.contracts.ids import is_identifier
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.engine import Database
from mcc.store.database.tables import API_TOKENS, PEOPLE, SIGNINS, among
from mcc.store.rows.order_rows import text_of

SEEN_SECONDS = 60
"""How exact is when somebody was last seen: it is written at most so often."""

_OF_PERSON = tuple(
    PEOPLE.c[name] for name in ("name_json", "email_json", "role", "disabled_at", "removed_at", "issuer")
)


def _with_person(table: sa.Table, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Rows of the table, each with the person whose principal it has; without one for all other principals."""
    person_id = sa.func.substr(table.c.principal, len(PERSON) + 1)
    described = (column.label(f"person_{column.name}") for column in _OF_PERSON)
    return sa.select(*columns, *described).select_from(table.outerjoin(PEOPLE, PEOPLE.c.id == person_id))


_SIGNIN = _with_person(SIGNINS, *SIGNINS.c)
_TOKEN = _with_person(API_TOKENS, *API_TOKENS.c)
_BY_DIGEST = tuple(
    (select.where(table.c.digest == sa.bindparam("wanted")))
    for select, table in ((_SIGNIN, SIGNINS), (_TOKEN, API_TOKENS))
)
_BY_ID = tuple(
    (select.where(among(table.c.id, "wanted"))) for select, table in ((_SIGNIN, SIGNINS), (_TOKEN, API_TOKENS))
)
_PERSON = sa.select(*(column.label(f"person_{column.name}") for column in _OF_PERSON)).where(
    PEOPLE.c.id == sa.bindparam("wanted")
)
_SEEN = (
    sa.update(SIGNINS)
    .where(SIGNINS.c.id == sa.bindparam("wanted"), SIGNINS.c.last_seen_at < sa.bindparam("before"))
    .values(last_seen_at=sa.bindparam("at"))
)
_USED = (
    sa.update(API_TOKENS)
    .where(
        API_TOKENS.c.id == sa.bindparam("wanted"),
        sa.func.coalesce(API_TOKENS.c.last_used_at, 0) < sa.bindparam("before"),
    )
    .values(last_used_at=sa.bindparam("at"))
)
_PERSON_SEEN = (
    sa.update(PEOPLE)
    .where(PEOPLE.c.id == sa.bindparam("wanted"), sa.func.coalesce(PEOPLE.c.last_seen_at, 0) < sa.bindparam("before"))
    .values(last_seen_at=sa.bindparam("at"))
)

SIGNED_OUT = "this sign-in has ended"


@dataclass(frozen=True, slots=True)
class Right:
    """What a credential with this `id` may do. `ended`: why it counts no longer, "" while it does. `seen_at`: when it
    was used last, as far as was written. `by`: how its person signs in."""

    id: str
    principal: str
    name: str
    role: Role
    scopes: frozenset[AccessScope]
    email: str | None = None
    ended: str = ""
    expires_at: datetime | None = None
    seen_at: datetime | None = None
    signin: Signin | None = None
    token: TokenOfCaller | None = None
    by: SigninWay = "link"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a principal may do now, without a credential. `ended`: why nothing any more, "" while they may."""

    scopes: frozenset[AccessScope]
    ended: str = ""


class RightStore:
    """Knows credentials by the SHA-256 of their secrets, in hexadecimal. Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, digest: str) -> Right | None:
        """What the cookie or token of this digest stands for; None where there is none."""
        at = self._database.clock.now()

        def look(connection: Connection) -> Right | None:
            for statement, read in zip(_BY_DIGEST, (_by_signin, _by_token), strict=True):
                if (row := connection.execute(statement, {"wanted": digest}).mappings().first()) is not None:
                    return read(row, at)
            return None

        return self._database.read(look)

    def ended(self, credential_ids: Collection[str]) -> Mapping[str, str]:
        """Those of the credentials that count no longer, and why."""
        at, wanted = self._database.clock.now(), {"wanted": list(credential_ids)}

        def look(connection: Connection) -> Mapping[str, str]:
            known: dict[str, str] = {}
            for statement, read in zip(_BY_ID, (_by_signin, _by_token), strict=True):
                rights = (read(row, at) for row in connection.execute(statement, wanted).mappings().all())
                known |= {right.id: right.ended for right in rights}
            return known

        known = self._database.read(look)
        why = {each: known.get(each, SIGNED_OUT) for each in credential_ids}
        return {each: sentence for each, sentence in why.items() if sentence}

    def standing(self, principal: str) -> Standing:
        """What the principal may do whose thing goes on by itself: a person with or without tokens, a service while its
        token counts, the operator always."""
        at, (kind, _, id_text) = self._database.clock.now(), principal.partition(":")

        def look(connection: Connection) -> Standing:
            wanted = {"wanted": id_text if is_identifier(id_text) else ""}
            if f"{kind}:" == PERSON:
                person = connection.execute(_PERSON, wanted).mappings().first()
                ended = "this person was removed" if person is None else _why_gone({"principal": principal, **person})
                return Standing(SCOPES_OF[Role(person["person_role"])] if person else frozenset(), ended)
            row = connection.execute(_BY_ID[1], {"wanted": [wanted["wanted"]]}).mappings().first()
            right = None if row is None else _by_token(row, at)
            return Standing(right.scopes, right.ended) if right else Standing(frozenset(), "there is no such principal")

        return Standing(ALL_SCOPES) if principal == OPERATOR else self._database.read(look)

    def seen(self, right: Right) -> None:
        """It was used just now."""
        at = self._database.clock.now()
        marked = {"at": micros(at), "before": micros(at - timedelta(seconds=SEEN_SECONDS))}

        def mark(connection: Connection) -> None:
            connection.execute(_SEEN if right.token is None else _USED, {**marked, "wanted": right.id})
            if right.principal.startswith(PERSON):
                connection.execute(_PERSON_SEEN, {**marked, "wanted": right.principal.removeprefix(PERSON)})

        self._database.write(mark, repeatable=True)


def signin_of(row: sa.RowMapping) -> Signin:
    return Signin(
        id=row["id"],
        principal=row["principal"],
        created_at=moment(row["created_at"]),
        expires_at=moment(row["expires_at"]),
        last_seen_at=moment(row["last_seen_at"]),
        agent=text_of(row["agent_json"]) or "",
    )


def _by_signin(row: sa.RowMapping, at: datetime) -> Right:
    signin = signin_of(row)
    role = _role_of(row)
    return Right(
        id=signin.id,
        principal=signin.principal,
        name=text_of(row["person_name_json"]) or signin.principal,
        role=role,
        scopes=SCOPES_OF[role],
        email=text_of(row["person_email_json"]),
        ended=_why_gone(row) or ("this sign-in has expired" if signin.expires_at <= at else ""),
        expires_at=signin.expires_at,
        seen_at=signin.last_seen_at,
        signin=signin,
        by="link" if row["person_issuer"] is None else "oidc",
    )


def _by_token(row: sa.RowMapping, at: datetime) -> Right:
    expires_at, used_at = (moment_or_none(row[name]) for name in ("expires_at", "last_used_at"))
    token = TokenOfCaller(id=row["id"], name=text_of(row["name_json"]) or "", expires_at=expires_at)
    role = Role(row["role"]) if row["role"] is not None else _role_of(row)
    ended = "this token was revoked" if row["revoked_at"] is not None else _why_gone(row)
    if not ended and expires_at is not None and expires_at <= at:
        ended = "this token has expired"
    return Right(
        id=token.id,
        principal=row["principal"],
        name=text_of(row["person_name_json"]) or (token.name if row["role"] is not None else row["principal"]),
        role=role,
        scopes=SCOPES_OF[role] & frozenset(map(AccessScope, row["scopes"].split())),
        email=text_of(row["person_email_json"]),
        ended=ended,
        expires_at=expires_at,
        seen_at=used_at,
        token=token,
    )


def _role_of(row: sa.RowMapping) -> Role:
    """That of the person; of who is none, the operator's, and for anybody else the least."""
    if row["person_role"] is not None:
        return Role(row["person_role"])
    return Role.ADMIN if row["principal"] == OPERATOR else Role.VIEWER


def _why_gone(row: Mapping[str, Any] | sa.RowMapping) -> str:
    """Why the person of a credential has no right; "" where they have, or where there is no person to it."""
    if kind_of(row["principal"]) != "person":
        return ""
    if row["person_role"] is None or row["person_removed_at"] is not None:
        return "this person was removed"
    return "this person is disabled" if row["person_disabled_at"] is not None else ""
