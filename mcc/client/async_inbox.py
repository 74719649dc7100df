"""The inbox and grants for an event loop: every call is awaited."""

from typing import TYPE_CHECKING

from mcc.client import inbox_calls as calls

if TYPE_CHECKING:
    from mcc.client.async_connection import Connection
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem, Grant


class Inbox:
    """What waits for a person: calls of tools, outlines of documents, questions."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    async def list(
        self,
        *,
        status: str | None = "pending",
        order_id: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[AnyItem]":
        """One page, newest first. `status`: pending, approved, denied, used, answered, expired, void; None = all."""
        asked = {"status": status, "order_id": order_id, "cursor": cursor, "limit": limit}
        return await self._connection.send(calls.items("/inbox", **asked))

    async def approvals(
        self, *, status: str | None = "pending", cursor: str | None = None, limit: int = 50
    ) -> "Listing[AnyItem]":
        """Of the inbox what is approved or denied."""
        return await self._connection.send(calls.items("/approvals", status=status, cursor=cursor, limit=limit))

    async def questions(
        self, *, status: str | None = "pending", cursor: str | None = None, limit: int = 50
    ) -> "Listing[AnyItem]":
        """Of the inbox what is answered."""
        return await self._connection.send(calls.items("/questions", status=status, cursor=cursor, limit=limit))

    async def approve(self, item_id: str, *, note: str | None = None, remember: str | None = None) -> "AnyItem":
        """Let the call run, once, or the outline count. `remember` (order, session, workspace): calls like it need no
        approval from now on. `Conflict` when it was denied, `Refused` (410) when nobody waits for it any more."""
        return await self._connection.send(calls.decide(item_id, "approve", note, remember))

    async def deny(self, item_id: str, *, note: str | None = None) -> "AnyItem":
        """The call does not run, and its agent is told so, with the note; the order of an outline ends."""
        return await self._connection.send(calls.decide(item_id, "deny", note, None))

    async def answer(self, item_id: str, answer: str) -> "AnyItem":
        """Answer a question. `Conflict` when it was answered otherwise."""
        return await self._connection.send(calls.answer(item_id, answer))


class Grants:
    """Approvals that a person let stand."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    async def list(self, *, cursor: str | None = None, limit: int = 50) -> "Listing[Grant]":
        """One page, newest first."""
        return await self._connection.send(calls.grants(cursor=cursor, limit=limit))

    async def revoke(self, grant_id: str) -> None:
        """It holds for no call from now on."""
        await self._connection.send(calls.revoke(grant_id))
