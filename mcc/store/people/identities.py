"""People whom a provider of identities vouches for: questions to it that count once, who came back from it with which
right, and whom it signs out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import PERSON, Actor, Role, Signin
from mcc.contracts.ids import fresh_id
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import DisabledPerson, SpentLogout
from mcc.store.database.tables import ONE_TIME, PEOPLE, SIGNINS
from mcc.store.people.people import credentials_of, end_tokens, sign_out
from mcc.store.people.signins import Browser, add_signin, drop_expired
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_json
from mcc.store.rows.texts import parsed

OIDC = "oidc"
"""How these people sign in; and the kind of one-time secrets by which a provider's answer is known."""

LOGOUT, LOGOUT_KEPT_SECONDS = "logout", 600.0
"""The kind of rows that say which logout tokens were used, and for how long; they are older then than any may be."""

_TAKE = sa.delete(ONE_TIME).where(ONE_TIME.c.digest == sa.bindparam("wanted"), ONE_TIME.c.kind == OIDC)
_ADD_PERSON = sa.text(
    "INSERT INTO people (id, name_json, email_json, role, created_at, issuer, subject)"
    " VALUES (:id, :name_json, :email_json, :role, :at, :issuer, :subject) ON CONFLICT DO NOTHING"
)
_USE_LOGOUT = sa.text(
    "INSERT INTO one_time (digest, kind, data_json, expires_at) VALUES (:digest, :kind, '{}', :expires_at)"
    " ON CONFLICT DO NOTHING"
)
_LOCKED = (
    sa.select(PEOPLE)
    .where(PEOPLE.c.issuer == sa.bindparam("issuer"), PEOPLE.c.subject == sa.bindparam("subject"))
    .with_for_update()
)
_PRINCIPAL = sa.literal(PERSON) + PEOPLE.c.id
_SIGNINS_OF = (
    sa.select(SIGNINS.c.id, SIGNINS.c.principal)
    .join(PEOPLE, SIGNINS.c.principal == _PRINCIPAL)
    .where(PEOPLE.c.issuer == sa.bindparam("issuer"))
    .order_by(SIGNINS.c.id)
)


@dataclass(frozen=True, slots=True)
class ProvidedPerson:
    """Somebody as their provider describes them now."""

    issuer: str
    subject: str
    name: str
    email: str | None
    role: Role
    sid: str | None


class NewSignin(NamedTuple):
    """A new sign-in. `credentials`: others of the person's, whose role has changed by it."""

    signin: Signin
    credentials: Sequence[str]


class IdentityStore:
    """Knows secrets by their digests alone. Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, digest: str, data: Mapping[str, Any], *, seconds: float) -> None:
        """Keep the digest of a question to the provider for so long, with what is to be known when its answer comes."""
        at = self._database.clock.now()
        expires_at = micros(at + timedelta(seconds=seconds))
        row = {"digest": digest, "kind": OIDC, "data_json": to_json(data).decode(), "expires_at": expires_at}

        def work(connection: Connection) -> None:
            drop_expired(connection, at)
            connection.execute(sa.insert(ONE_TIME), row)

        self._database.write(work)

    def answered(self, digest: str) -> Mapping[str, Any] | None:
        """What was kept with this question, which is used up; None where it was, is too old, or never was."""
        at = self._database.clock.now()
        known = sa.select(ONE_TIME.c.digest).where(ONE_TIME.c.digest == digest)
        # By a read: whoever guesses must not hold up those who write.
        if self._database.read(lambda connection: connection.scalar(known)) is None:
            return None

        def work(connection: Connection) -> Mapping[str, Any] | None:
            taken = connection.execute(_TAKE.returning(ONE_TIME), {"wanted": digest}).first()
            return None if taken is None or taken.expires_at <= micros(at) else parsed(taken.data_json)

        return self._database.write(work)

    def sign_in(self, person: ProvidedPerson, browser: Browser) -> NewSignin:
        """Sign the browser in as this person, who is added, or gets the name and the role that are told now. Raises
        `DisabledPerson`."""
        at = self._database.clock.now()
        who = {"issuer": person.issuer, "subject": person.subject}
        shown = {"name_json": text_json(person.name), "email_json": text_json(person.email), "role": person.role.value}
        new = {"id": fresh_id(), "at": micros(at), **who, **shown}

        def work(connection: Connection) -> NewSignin:
            drop_expired(connection, at)
            # Of two browsers that come at once, one adds the person and the other one waits for it.
            is_new = connection.execute(_ADD_PERSON, new).rowcount == 1
            row = connection.execute(_LOCKED, who).mappings().first()
            if row is None:
                # Somebody has just removed them.
                is_new = connection.execute(_ADD_PERSON, new).rowcount == 1
                row = connection.execute(_LOCKED, who).mappings().one()
            principal = PERSON + str(row["id"])
            if row["disabled_at"] is not None:
                raise DisabledPerson("this person is disabled here: an admin can enable them again")
            detail = {"person": principal, "role": person.role.value, "by": OIDC}
            changed: Sequence[str] = ()
            if is_new:
                add_note(connection, at, "person.added", by=Actor(principal, "page"), order_id=None, detail=detail)
            elif row["role"] != person.role.value:
                was = {**detail, "was": row["role"]}
                add_note(connection, at, "person.role", by=Actor(principal, "page"), order_id=None, detail=was)
                changed = credentials_of(connection, principal)
            connection.execute(sa.update(PEOPLE).where(PEOPLE.c.id == row["id"]), shown)
            return NewSignin(add_signin(connection, at, principal, browser, by=OIDC, sid=person.sid), changed)

        return self._database.write(work)

    def lose_right(self, issuer: str, subject: str) -> Sequence[str]:
        """The provider says that this person may do nothing here: sign-ins and tokens end, and what goes on by itself
        in their name, such as a schedule, has the least role. Answers the ids, none for somebody unknown."""
        at = self._database.clock.now()

        def work(connection: Connection) -> Sequence[str]:
            row = connection.execute(_LOCKED, {"issuer": issuer, "subject": subject}).mappings().first()
            if row is None:
                return ()
            ended = credentials_of(connection, principal := PERSON + str(row["id"]))
            if not ended and row["role"] == Role.VIEWER.value:
                return ()
            connection.execute(sa.update(PEOPLE).where(PEOPLE.c.id == row["id"]), {"role": Role.VIEWER.value})
            sign_out(connection, principal)
            end_tokens(connection, principal, at)
            detail = {"person": principal, "role": None, "was": row["role"], "by": OIDC}
            add_note(connection, at, "person.role", by=Actor(principal, "page"), order_id=None, detail=detail)
            return ended

        return self._database.write(work)

    def log_out(self, digest: str, issuer: str, *, subject: str | None, sid: str | None) -> Sequence[str]:
        """End the sign-ins of this person, of this session of theirs, or of the session, whoever's it is; answers their
        ids. `digest`: of what names the order. Raises `SpentLogout` where it was carried out before."""
        at = self._database.clock.now()
        expires_at = micros(at + timedelta(seconds=LOGOUT_KEPT_SECONDS))
        used = {"digest": digest, "kind": LOGOUT, "expires_at": expires_at}

        def work(connection: Connection) -> Sequence[str]:
            drop_expired(connection, at)
            if connection.execute(_USE_LOGOUT, used).rowcount != 1:
                raise SpentLogout("this logout token has been used")
            ended = connection.execute(_signins(subject, sid), {"issuer": issuer}).all()
            for principal in dict.fromkeys(row.principal for row in ended):
                ids = [row.id for row in ended if row.principal == principal]
                connection.execute(sa.delete(SIGNINS).where(SIGNINS.c.id.in_(ids)))
                detail = {"signins": len(ids), "of": principal, "by": OIDC}
                add_note(connection, at, "signout", by=Actor(principal), order_id=None, detail=detail)
            return [row.id for row in ended]

        return self._database.write(work)


def _signins(subject: str | None, sid: str | None) -> sa.Select[tuple[str, str]]:
    if subject is None:
        return _SIGNINS_OF.where(SIGNINS.c.sid == sid)
    of_person = _SIGNINS_OF.where(PEOPLE.c.subject == subject)
    # A sign-in of which no session is known may be of this one.
    return of_person if sid is None else of_person.where(sa.or_(SIGNINS.c.sid == sid, SIGNINS.c.sid.is_(None)))
