"""People, tokens and the audit for an event loop: every call is awaited."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcc.client.async_connection import Connection
from mcc.client.requests import people_calls as calls

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.answers import Listing
    from mcc.contracts.budgets import DayBudget
    from mcc.contracts.callers import Signin, SigninLink
    from mcc.contracts.people import ApiToken, AuditNote, MadeToken, Person, PrincipalName


class Persons:
    """All but `names` need the right `admin`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, cursor: str | None = None, limit: int = 50) -> "Listing[Person]":
        """One page of all but those who were removed, those who came first before the others."""
        return await self._connection.send(calls.people(cursor=cursor, limit=limit))

    async def get(self, person_id: str) -> "Person":
        """Raises `NotFound`."""
        return await self._connection.send(calls.person(person_id))

    async def add(
        self, name: str, role: str, *, email: str | None = None, budget: "DayBudget | None" = None
    ) -> "Person":
        """Add a person. `role`: viewer, member, operator or admin. They sign in by a `link`. `budget`: what they may
        spend a day; None: as everybody."""
        return await self._connection.send(calls.add(name, role, email, budget))

    async def change(
        self, person_id: str, *, name: str | None = None, role: str | None = None, disabled: bool | None = None
    ) -> "Person":
        """Change what is given. Who is disabled is signed out everywhere, and their tokens do not count meanwhile."""
        return await self._connection.send(calls.change(person_id, name=name, role=role, disabled=disabled))

    async def set_budget(self, person_id: str, budget: "DayBudget | None") -> "Person":
        """Set what this person may spend a day, from now on; None: as everybody."""
        return await self._connection.send(calls.set_budget(person_id, budget))

    async def remove(self, person_id: str) -> None:
        """Remove a person for good: sign-ins and tokens end, name and e-mail are blanked."""
        await self._connection.send(calls.remove(person_id))

    async def link(self, person_id: str) -> "SigninLink":
        """A link that signs a browser in as this person, once and within 24 hours. Raises `Unauthorized` for a client
        with a token other than the operator's."""
        return await self._connection.send(calls.link(person_id))

    async def signins(self, person_id: str) -> "Sequence[Signin]":
        """The browsers that are signed in as this person."""
        return (await self._connection.send(calls.signins(person_id))).items

    async def sign_out(self, person_id: str) -> None:
        """Sign this person out of all browsers."""
        await self._connection.send(calls.sign_out(person_id))

    async def names(self, principals: Sequence[str]) -> "Sequence[PrincipalName]":
        """What up to 200 principals are called, in the same sequence."""
        return (await self._connection.send(calls.principals(principals))).items


class ApiTokens:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, every: bool = False, cursor: str | None = None, limit: int = 50) -> "Listing[ApiToken]":
        """One page of the caller's tokens, the newest first; `every`: everybody's, which needs the right `admin`."""
        return await self._connection.send(calls.tokens(every, cursor=cursor, limit=limit))

    async def make(
        self,
        name: str,
        scopes: Sequence[str],
        *,
        kind: str = "personal",
        role: str | None = None,
        expires_in_days: int | None = 90,
        budget: "DayBudget | None" = None,
    ) -> "MadeToken":
        """Make a token; `token` of the answer is the token itself, told this once. A service token has a `role`, and
        may last until it is revoked (None). `budget`: what may be spent by it a day, besides its person's.
        Raises `Unauthorized` for a client with a token other than the operator's."""
        return await self._connection.send(
            calls.make(name, scopes, budget, kind=kind, role=role, expires_in_days=expires_in_days)
        )

    async def revoke(self, token_id: str) -> None:
        """From now on it counts for nothing. Raises `NotFound`."""
        await self._connection.send(calls.revoke(token_id))


class AuditTrail:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self,
        *,
        who: str | None = None,
        kind: str | None = None,
        order_id: str | None = None,
        since: "datetime | None" = None,
        until: "datetime | None" = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[AuditNote]":
        """One page of what was done, newest first. What others did needs the right `operate`."""
        times = {"since": since.isoformat() if since else None, "until": until.isoformat() if until else None}
        filters = {"who": who, "kind": kind, "order_id": order_id, "cursor": cursor, "limit": limit}
        return await self._connection.send(calls.audit(**filters, **times))
