"""Command lines that ask to be let in: what each calls itself, what was decided, and the token that it gets once."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import PERSON, SCOPES_OF, AccessScope, Actor, Role
from mcc.contracts.login import DeviceQuestion, DeviceState, LoginError
from mcc.contracts.people import ApiToken, NewApiToken
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment
from mcc.store.database.engine import Database
from mcc.store.database.errors import SpentCode, StoreUnavailable, TooManyLogins, UnknownPerson
from mcc.store.database.tables import ONE_TIME, SIGNINS
from mcc.store.people.people import locked_person
from mcc.store.people.signins import TAKE, drop_expired
from mcc.store.people.tokens import add_token
from mcc.store.rows.audit import add_note
from mcc.store.rows.texts import parsed

DEVICE, USER_CODE = "device", "user_code"
"""The kinds of the two secrets of a login: the command line's own, and the one that a person types at the page."""

MOST_LOGINS = 10_000
"""How many wait for somebody at a time, as anybody may ask."""

SPENT = "no command line waits with this code: it was decided, is too old, or never was"

_KEPT = sa.select(ONE_TIME).where(ONE_TIME.c.digest == sa.bindparam("wanted"), ONE_TIME.c.kind == sa.bindparam("of"))
_WAITING = sa.select(sa.func.count()).where(
    ONE_TIME.c.kind == DEVICE, ONE_TIME.c.expires_at > sa.bindparam("now", type_=sa.BigInteger)
)
_KEEP = sa.text(
    "INSERT INTO one_time (digest, kind, data_json, expires_at) VALUES (:digest, :kind, :data, :expires_at)"
    " ON CONFLICT (digest) DO NOTHING"
)
_DECIDE = (
    sa.update(ONE_TIME)
    .where(ONE_TIME.c.digest == sa.bindparam("wanted"), ONE_TIME.c.kind == DEVICE)
    .values(data_json=sa.bindparam("document"))
)
_SIGNED_IN = sa.select(sa.literal(True)).where(
    SIGNINS.c.id == sa.bindparam("wanted"), SIGNINS.c.expires_at > sa.bindparam("now", type_=sa.BigInteger)
)


class NewSecret(NamedTuple):
    """A token that was just thought of, and its SHA-256."""

    text: str
    digest: str


class DeviceStore:
    """Knows secrets by their SHA-256 in hexadecimal. Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(self, device: str, code: str, *, client: str, address: str, seconds: float) -> datetime:
        """A command line asks to be let in; answers until when. `device`: of its own secret, `code`: of the one that a
        person types. Raises `TooManyLogins`."""
        at = self._database.clock.now()
        expires_at = at + timedelta(seconds=seconds)
        question = {"client": client, "address": address, "state": "pending"}

        def work(connection: Connection) -> None:
            drop_expired(connection, at)
            if (connection.scalar(_WAITING, {"now": micros(at)}) or 0) >= MOST_LOGINS:
                raise TooManyLogins("too many command lines wait to be let in: try again in a few minutes")
            for kind, digest, data in ((DEVICE, device, question), (USER_CODE, code, {"device": device})):
                row = {"digest": digest, "kind": kind, "data": _text(data), "expires_at": micros(expires_at)}
                if not connection.execute(_KEEP, row).rowcount:
                    raise StoreUnavailable("another command line waits with the same code: ask again")

        self._database.write(work)
        return expires_at

    def question(self, code: str) -> DeviceQuestion:
        """Which command line waits with this code. Raises `SpentCode`."""
        at = self._database.clock.now()

        def look(connection: Connection) -> DeviceQuestion:
            row = _kept(connection, code, USER_CODE, at)
            return _question(row and _kept(connection, parsed(row.data_json)["device"], DEVICE, at))

        return self._database.read(look)

    def decide(self, code: str, state: DeviceState, *, by: Actor, signin_id: str) -> DeviceQuestion:
        """Let the command line with this code in as `by`, or refuse it; the code counts for nothing then.

        It is let in as long as the sign-in is that decided it: who is disabled, or signed out, lets nobody in. Raises
        `SpentCode`.
        """
        # By a read first: whoever guesses must not hold up those who write.
        self.question(code)
        at = self._database.clock.now()

        def work(connection: Connection) -> DeviceQuestion:
            # The DELETE lets one of two decide that come at once.
            taken = connection.execute(TAKE.returning(ONE_TIME), {"wanted": code, "of": USER_CODE}).first()
            digest = parsed(taken.data_json)["device"] if taken is not None else ""
            row = _kept(connection, digest, DEVICE, at)
            decided = _question(row, state)
            said = {"state": state, "principal": by.principal, "signin": signin_id}
            data = {"client": decided.client, "address": decided.address, **said}
            connection.execute(_DECIDE, {"wanted": digest, "document": _text(data)})
            kind = "token.approved" if state == "approved" else "token.denied"
            detail = {"signin": signin_id, "address": decided.address}
            add_note(connection, at, kind, by=by, order_id=None, detail=detail)
            return decided

        return self._database.write(work)

    def redeem(self, device: str, secret: NewSecret, *, days: int) -> ApiToken | LoginError:
        """The token of the command line with this digest, `secret` from now on, which counts so many `days`; or why it
        gets none. However many ask at once, one gets it. Raises `TooManyTokens`, and then it may ask again."""
        at = self._database.clock.now()
        row = self._database.read(lambda connection: _kept(connection, device, DEVICE, at))
        if row is None:
            return "expired_token"
        if parsed(row.data_json)["state"] == "pending":
            return "authorization_pending"

        def work(connection: Connection) -> ApiToken | LoginError:
            taken = connection.execute(TAKE.returning(ONE_TIME), {"wanted": device, "of": DEVICE}).first()
            if taken is None:
                return "expired_token"
            decided = parsed(taken.data_json)
            role = _role_now(connection, decided, at) if decided["state"] == "approved" else None
            if role is None:
                return "access_denied"
            scopes = tuple(sorted(SCOPES_OF[role] - {AccessScope.ADMIN}))
            new = NewApiToken(name=decided["client"], scopes=scopes, expires_in_days=days)
            by = Actor(decided["principal"], "page")
            return add_token(connection, at, secret.text, secret.digest, new, by=by)

        return self._database.write(work)


def _kept(connection: Connection, digest: str, kind: str, at: datetime) -> sa.Row[Any] | None:
    row = connection.execute(_KEPT, {"wanted": digest, "of": kind}).first()
    return row if row is not None and row.expires_at > micros(at) else None


def _question(row: sa.Row[Any] | None, state: DeviceState = "pending") -> DeviceQuestion:
    if row is None:
        raise SpentCode(SPENT)
    data = parsed(row.data_json)
    return DeviceQuestion(
        client=data["client"], address=data["address"], state=state, expires_at=moment(row.expires_at)
    )


def _role_now(connection: Connection, decided: Mapping[str, Any], at: datetime) -> Role | None:
    """The role of who let a command line in; None where they were disabled, removed or signed out meanwhile."""
    role = Role.ADMIN
    if decided["principal"].startswith(PERSON):
        # Locked before the sign-in is looked at: whoever disables the person meanwhile ends that first, or waits.
        try:
            role = Role(locked_person(connection, decided["principal"])["role"])
        except UnknownPerson:
            return None
    is_signed_in = connection.scalar(_SIGNED_IN, {"wanted": decided["signin"], "now": micros(at)})
    return role if is_signed_in else None


def _text(data: Mapping[str, object]) -> str:
    return to_json(data).decode()
