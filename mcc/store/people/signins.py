"""Sign-ins of browsers, the links that open them, and what the page remembers of a principal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import PERSON, Actor, Signin
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros
from mcc.store.database.engine import Database
from mcc.store.database.errors import SpentLink, UnknownSignin
from mcc.store.database.tables import ONE_TIME, PREFERENCES, SIGNINS
from mcc.store.people.people import LINK, link_data, locked_person, refuse_provided
from mcc.store.people.rights import signin_of
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_json
from mcc.store.rows.texts import parsed

SPENT = "this link has been used, or is too old: `mcc open` makes another one"

_OF_DIGEST = (ONE_TIME.c.digest == sa.bindparam("wanted"), ONE_TIME.c.kind == sa.bindparam("of"))
_IS_KEPT = sa.select(sa.literal(True)).where(*_OF_DIGEST)
TAKE = sa.delete(ONE_TIME).where(*_OF_DIGEST)
_DROP_OLD = tuple(sa.delete(table).where(table.c.expires_at <= sa.bindparam("at")) for table in (ONE_TIME, SIGNINS))
_BY_ID = sa.select(SIGNINS).where(SIGNINS.c.id == sa.bindparam("wanted"))
_OF_PRINCIPAL = (
    sa.select(SIGNINS)
    .where(SIGNINS.c.principal == sa.bindparam("of"), SIGNINS.c.expires_at > sa.bindparam("at"))
    .order_by(SIGNINS.c.created_at.desc(), SIGNINS.c.id.desc())
)
_END = sa.delete(SIGNINS).where(SIGNINS.c.id == sa.bindparam("wanted"), SIGNINS.c.principal == sa.bindparam("of"))
_END_ALL = sa.delete(SIGNINS).where(SIGNINS.c.principal == sa.bindparam("of")).returning(SIGNINS.c.id)
_PREFERENCES = sa.select(PREFERENCES.c.preferences_json).where(PREFERENCES.c.principal == sa.bindparam("of"))
_PUT = sa.text(
    "INSERT INTO preferences (principal, preferences_json) VALUES (:of, :document)"
    " ON CONFLICT (principal) DO UPDATE SET preferences_json = :document"
)


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser that is about to be signed in for so many `hours`. `cookie`: the digest of its new cookie; `agent`:
    what it calls itself; `address`: where it calls from, for the audit."""

    cookie: str
    hours: float
    agent: str
    address: str


class SigninStore:
    """Knows secrets by their digests alone. Every method blocks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def offer(self, digest: str, principal: str, *, seconds: float, by: Actor | None = None) -> datetime:
        """Keep the digest of a link that signs in as `principal` for so long; answers when it expires. `by`: who made
        it for somebody else, which the audit keeps. Raises `UnknownPerson`, `PersonOfProvider`."""
        at = self._database.clock.now()
        expires_at = at + timedelta(seconds=seconds)
        row = {
            "digest": digest,
            "kind": LINK,
            "data_json": link_data(principal),
            "expires_at": micros(expires_at),
        }

        def work(connection: Connection) -> None:
            drop_expired(connection, at)
            if principal.startswith(PERSON):
                refuse_provided(locked_person(connection, principal), "needs no link")
            connection.execute(sa.insert(ONE_TIME), row)
            if by is not None:
                add_note(connection, at, "person.linked", by=by, order_id=None, detail={"person": principal})

        self._database.write(work)
        return expires_at

    def redeem(self, link: str, cookie: str, *, hours: float, agent: str, address: str) -> Signin:
        """Use the link with this digest up, and sign in the browser whose new cookie has the digest `cookie`.

        `address`: where the browser calls from, for the audit. Raises `SpentLink` where the link was used, is too old,
        or never was, and where its person is disabled; `UnknownPerson` where they were removed.
        """
        at = self._database.clock.now()
        # By a read: whoever guesses must not hold up those who write.
        if not self._database.read(lambda connection: connection.scalar(_IS_KEPT, {"wanted": link, "of": LINK})):
            raise SpentLink(SPENT)

        def work(connection: Connection) -> Signin:
            # The DELETE decides between two that come at once: it finds the row for one of them.
            taken = connection.execute(TAKE.returning(ONE_TIME), {"wanted": link, "of": LINK}).first()
            if taken is None or taken.expires_at <= micros(at):
                raise SpentLink(SPENT)
            drop_expired(connection, at)
            principal = parsed(taken.data_json)["principal"]
            # Read under a lock: whoever disables the person meanwhile must find this sign-in, to end it.
            if principal.startswith(PERSON) and locked_person(connection, principal)["disabled_at"] is not None:
                raise SpentLink("this person is disabled, so the link signs nobody in")
            return add_signin(connection, at, principal, Browser(cookie, hours, agent, address), by=LINK)

        return self._database.write(work)

    def of_principal(self, principal: str) -> Sequence[Signin]:
        """All that count, the newest first."""
        wanted = {"of": principal, "at": micros(self._database.clock.now())}
        return [
            signin_of(row)
            for row in self._database.read(
                lambda connection: connection.execute(_OF_PRINCIPAL, wanted).mappings().all()
            )
        ]

    def end(self, signin_id: str, *, by: Actor) -> None:
        """From now on its cookie counts for nothing. Raises `UnknownSignin`, also for another principal's."""
        at = self._database.clock.now()
        wanted = {"wanted": signin_id, "of": by.principal}

        def work(connection: Connection) -> None:
            if not is_identifier(signin_id) or not connection.execute(_END, wanted).rowcount:
                raise UnknownSignin("there is no such sign-in")
            detail = {"signin": signin_id}
            add_note(connection, at, "signout", by=by, order_id=None, detail=detail)

        self._database.write(work)

    def end_all(self, principal: str, *, by: Actor) -> Sequence[str]:
        """End all that count; answers their ids. Raises `UnknownPerson`."""
        at = self._database.clock.now()

        def work(connection: Connection) -> Sequence[str]:
            if principal.startswith(PERSON):
                locked_person(connection, principal)
            ended = connection.execute(_END_ALL, {"of": principal}).scalars().all()
            if ended:
                detail = {"signins": len(ended), "of": principal}
                add_note(connection, at, "signout", by=by, order_id=None, detail=detail)
            return ended

        return self._database.write(work)

    def preferences(self, principal: str) -> Mapping[str, Any]:
        """What the page remembers of the principal; empty at first."""
        kept = self._database.read(lambda connection: connection.execute(_PREFERENCES, {"of": principal}).scalar())
        return {} if kept is None else parsed(kept)

    def prefer(self, principal: str, preferences: Mapping[str, Any]) -> None:
        """Replace what the page remembers of the principal."""
        row = {"of": principal, "document": to_json(preferences).decode()}
        self._database.write(lambda connection: connection.execute(_PUT, row), repeatable=True)


def add_signin(
    connection: Connection, at: datetime, principal: str, browser: Browser, *, by: str, sid: str | None = None
) -> Signin:
    """Sign the browser in as the principal. `by`: how they proved who they are; `sid`: the provider's session."""
    row = {
        "id": fresh_id(),
        "digest": browser.cookie,
        "principal": principal,
        "sid": sid,
        "created_at": micros(at),
        "expires_at": micros(at + timedelta(hours=browser.hours)),
        "last_seen_at": micros(at),
        "agent_json": text_json(browser.agent),
    }
    connection.execute(sa.insert(SIGNINS), row)
    detail = {"signin": row["id"], "by": by, "address": browser.address}
    add_note(connection, at, "signin.ok", by=Actor(principal, "page"), order_id=None, detail=detail)
    return signin_of(connection.execute(_BY_ID, {"wanted": row["id"]}).mappings().one())


def drop_expired(connection: Connection, at: datetime) -> None:
    """Remove the sign-ins and the secrets that count no longer."""
    for statement in _DROP_OLD:
        connection.execute(statement, {"at": micros(at)})
