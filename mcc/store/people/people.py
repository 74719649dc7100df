"""People: added, changed, disabled, removed; what each of these ends, and what principals are called."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import PERSON, SERVICE, Actor, Role, kind_of
from mcc.contracts.ids import fresh_id, is_identifier
from mcc.contracts.people import NewPerson, Person, PersonChange, PrincipalName
from mcc.contracts.shape import to_json
from mcc.store.database.clock import micros, moment, moment_or_none
from mcc.store.database.engine import Database
from mcc.store.database.errors import BadCursor, PersonOfProvider, UnknownPerson
from mcc.store.database.tables import API_TOKENS, ONE_TIME, PEOPLE, SIGNINS, among
from mcc.store.people.budgets import budget_in, budget_json, note_budget
from mcc.store.rows.audit import add_note
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.values import Page

LINK = "link"
"""The kind of one-time secrets that sign a browser in."""

_THERE = sa.select(PEOPLE).where(PEOPLE.c.removed_at.is_(None)).order_by(PEOPLE.c.id)
_ONE = sa.select(PEOPLE).where(PEOPLE.c.id == sa.bindparam("wanted"))
_LOCKED = _ONE.with_for_update()
_SOME = sa.select(PEOPLE).where(among(PEOPLE.c.id, "wanted"))
_SOME_TOKENS = sa.select(API_TOKENS).where(among(API_TOKENS.c.id, "wanted"))
_SIGNINS_OF = sa.select(SIGNINS.c.id).where(SIGNINS.c.principal == sa.bindparam("of"))
_TOKENS_OF = sa.select(API_TOKENS.c.id).where(
    API_TOKENS.c.principal == sa.bindparam("of"), API_TOKENS.c.revoked_at.is_(None)
)
_END_SIGNINS = sa.delete(SIGNINS).where(SIGNINS.c.principal == sa.bindparam("of"))
_END_TOKENS = (
    sa.update(API_TOKENS)
    .where(API_TOKENS.c.principal == sa.bindparam("of"), API_TOKENS.c.revoked_at.is_(None))
    .values(revoked_at=sa.bindparam("at"))
)
_END_LINKS = sa.delete(ONE_TIME).where(ONE_TIME.c.kind == LINK, ONE_TIME.c.data_json == sa.bindparam("document"))


class ChangedPerson(NamedTuple):
    """The person afterwards. `credentials`: their sign-ins and tokens, which are to be looked up again; `why`: why
    these count no longer, "" where they do."""

    person: Person
    credentials: Sequence[str]
    why: str = ""


class PeopleStore:
    """Every method blocks. `by`: the principal that does it, for the audit."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, *, cursor: str | None = None, limit: int = 50) -> Page[Person]:
        """Those who came first before the others; without those who were removed. Raises `BadCursor`."""
        if cursor is not None and not is_identifier(cursor):
            raise BadCursor("this cursor is not one that a page of people gave; begin without one")
        wanted = (_THERE if cursor is None else _THERE.where(PEOPLE.c.id > cursor)).limit(limit + 1)
        rows = self._database.read(lambda connection: connection.execute(wanted).mappings().all())
        return Page([_person(row) for row in rows[:limit]], rows[limit - 1]["id"] if len(rows) > limit else None)

    def get(self, person_id: str) -> Person:
        """Raises `UnknownPerson`."""
        # A malformed id cannot be in the database, and PostgreSQL takes no NUL.
        wanted = {"wanted": person_id if is_identifier(person_id) else ""}
        row = self._database.read(lambda connection: connection.execute(_ONE, wanted).mappings().first())
        if row is None or row["removed_at"] is not None:
            raise _unknown()
        return _person(row)

    def add(self, new: NewPerson, *, by: Actor) -> Person:
        """Add a person, who cannot sign in before they get a link."""
        at, person_id = self._database.clock.now(), fresh_id()
        row = {
            "id": person_id,
            "name_json": text_json(new.name),
            "email_json": text_json(new.email),
            "role": new.role.value,
            "created_at": micros(at),
            "budget_json": budget_json(new.budget),
        }

        def work(connection: Connection) -> Person:
            connection.execute(sa.insert(PEOPLE), row)
            # By the id alone: names are blanked when a person is removed, and the audit is never changed.
            detail = {"person": PERSON + person_id, "role": new.role.value}
            add_note(connection, at, "person.added", by=by, order_id=None, detail=detail)
            if new.budget is not None:
                note_budget(connection, at, PERSON + person_id, new.budget, None, by)
            return _person(connection.execute(_ONE, {"wanted": person_id}).mappings().one())

        return self._database.write(work)

    def change(self, person_id: str, change: PersonChange, *, by: Actor) -> ChangedPerson:
        """Change what is given. Who is disabled is signed out everywhere, and links made before sign nobody in; tokens
        do not count meanwhile. Raises `UnknownPerson`, and `PersonOfProvider` for another role of who has one by
        their groups."""
        at, principal = self._database.clock.now(), PERSON + person_id

        def work(connection: Connection) -> ChangedPerson:
            row = locked_person(connection, principal)
            values: dict[str, Any] = {}
            if change.name is not None and text_json(change.name) != row["name_json"]:
                values["name_json"] = text_json(change.name)
                add_note(connection, at, "person.renamed", by=by, order_id=None, detail={"person": principal})
            if change.role is not None and change.role != row["role"]:
                refuse_provided(row, "their role comes from their groups there: change these")
                values["role"] = change.role.value
                detail = {"person": principal, "role": change.role.value, "was": row["role"]}
                add_note(connection, at, "person.role", by=by, order_id=None, detail=detail)
            if change.disabled is not None and change.disabled != (row["disabled_at"] is not None):
                values["disabled_at"] = micros(at) if change.disabled else None
                kind = "person.disabled" if change.disabled else "person.enabled"
                add_note(connection, at, kind, by=by, order_id=None, detail={"person": principal})
            credentials = credentials_of(connection, principal)
            if change.has_budget and budget_json(change.budget) != row["budget_json"]:
                values["budget_json"] = budget_json(change.budget)
                note_budget(connection, at, principal, change.budget, budget_in(row), by)
            if values:
                connection.execute(sa.update(PEOPLE).where(PEOPLE.c.id == person_id), values)
            if change.disabled:
                sign_out(connection, principal)
            person = _person(connection.execute(_ONE, {"wanted": person_id}).mappings().one())
            return ChangedPerson(person, credentials, "this person is disabled" if person.disabled else "")

        return self._database.write(work)

    def remove(self, person_id: str, *, by: Actor) -> ChangedPerson:
        """Blank name and e-mail for good, end all sign-ins and tokens; the id stays, so that what they did stays
        readable. Raises `UnknownPerson`."""
        at, principal = self._database.clock.now(), PERSON + person_id

        def work(connection: Connection) -> ChangedPerson:
            locked_person(connection, principal)
            credentials = credentials_of(connection, principal)
            # Without what their provider calls them: that is somebody's name too.
            nobody = {"email_json": None, "issuer": None, "subject": None}
            blank = {"name_json": text_json(""), **nobody, "removed_at": micros(at)}
            connection.execute(sa.update(PEOPLE).where(PEOPLE.c.id == person_id), blank)
            sign_out(connection, principal)
            end_tokens(connection, principal, at)
            add_note(connection, at, "person.removed", by=by, order_id=None, detail={"person": principal})
            person = _person(connection.execute(_ONE, {"wanted": person_id}).mappings().one())
            return ChangedPerson(person, credentials, "this person was removed")

        return self._database.write(work)

    def names(self, principals: Collection[str]) -> Sequence[PrincipalName]:
        """What these are called, in the same sequence; who is neither a person nor a service, by the principal."""
        people, services = (
            {name for each in principals if each.startswith(kind) and is_identifier(name := each.removeprefix(kind))}
            for kind in (PERSON, SERVICE)
        )

        def look(connection: Connection) -> dict[str, PrincipalName]:
            known: dict[str, PrincipalName] = {}
            for row in connection.execute(_SOME, {"wanted": sorted(people)}).mappings().all():
                person = _person(row)
                known[person.principal] = _named(person.principal, person.name, person.removed)
            for row in connection.execute(_SOME_TOKENS, {"wanted": sorted(services)}).mappings().all():
                name = text_of(row["name_json"]) or ""
                known[row["principal"]] = _named(row["principal"], name, row["revoked_at"] is not None)
            return known

        known = self._database.read(look)
        return [known.get(each) or _named(each, each, kind_of(each) == "person") for each in principals]


def locked_person(connection: Connection, principal: str) -> sa.RowMapping:
    """The row of this person, which nobody else changes until the transaction ends. Raises `UnknownPerson`."""
    person_id = principal.removeprefix(PERSON)
    row = connection.execute(_LOCKED, {"wanted": person_id}).mappings().first() if is_identifier(person_id) else None
    if row is None or row["removed_at"] is not None:
        raise _unknown()
    return row


def refuse_provided(row: sa.RowMapping, why: str) -> None:
    """Raises `PersonOfProvider` for somebody whom a provider of identities vouches for."""
    if row["issuer"] is not None:
        raise PersonOfProvider(f"this person signs in by {row['issuer']}, and {why}")


def _named(principal: str, name: str, gone: bool) -> PrincipalName:
    return PrincipalName(principal=principal, name=name, kind=kind_of(principal), gone=gone)


def end_tokens(connection: Connection, principal: str, at: datetime) -> None:
    """Revoke all tokens of the principal."""
    connection.execute(_END_TOKENS, {"of": principal, "at": micros(at)})


def credentials_of(connection: Connection, principal: str) -> Sequence[str]:
    """The ids of the sign-ins and tokens of the principal that count."""
    found = (connection.execute(statement, {"of": principal}).scalars() for statement in (_SIGNINS_OF, _TOKENS_OF))
    return [credential_id for several in found for credential_id in several]


def sign_out(connection: Connection, principal: str) -> None:
    """End all sign-ins of the principal, and the links that would make others."""
    connection.execute(_END_SIGNINS, {"of": principal})
    connection.execute(_END_LINKS, {"document": link_data(principal)})


def link_data(principal: str) -> str:
    """What a link is kept with, always spelled alike, so that the links of a person are found."""
    return to_json({"principal": principal}).decode()


def _person(row: sa.RowMapping) -> Person:
    return Person(
        id=row["id"],
        principal=PERSON + str(row["id"]),
        name=text_of(row["name_json"]) or "",
        email=text_of(row["email_json"]),
        role=Role(row["role"]),
        by="link" if row["issuer"] is None else "oidc",
        disabled=row["disabled_at"] is not None,
        removed=row["removed_at"] is not None,
        budget=budget_in(row),
        created_at=moment(row["created_at"]),
        last_seen_at=moment_or_none(row["last_seen_at"]),
    )


def _unknown() -> UnknownPerson:
    return UnknownPerson("there is no such person")
