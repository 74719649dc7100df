"""The inbox and saved views for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcc.client.requests import inbox_calls as calls
from mcc.client.sync_connection import Connection

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem, Grant, InboxItem, LateAnswer
    from mcc.contracts.order_bulk import View


class Inbox:
    """Items that wait for a person: tool calls, outlines of documents, questions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(
        self,
        *,
        status: str | None = "pending",
        order_id: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[AnyItem]":
        """One page, newest first. `status`: pending, approved, denied, used, answered, declined, expired,
        void; None = all."""
        filters = {"status": status, "order_id": order_id, "cursor": cursor, "limit": limit}
        return self._connection.send(calls.inbox_items("/inbox", **filters))

    def look(
        self,
        *,
        kinds: Sequence[str] = ("all",),
        status: str | None = "pending",
        order_id: str | None = None,
        scope: str | None = None,
        unseen: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[InboxItem]":
        """As `list`, and also the orders that a person should look at. `kinds`: failed, budget, ready, stuck, approval,
        outline, question, note, or all. `scope` mine: of orders that the caller placed, or all; None: all
        where the caller has the right `operate`, else mine. With `unseen` a page may be
        short and yet not the last."""
        seen = "true" if unseen else None
        filters = {"status": status, "order_id": order_id, "scope": scope, "cursor": cursor, "limit": limit}
        return self._connection.send(calls.look(kinds, unseen=seen, **filters))

    def see(self, ids: Sequence[str] = (), *, before: "datetime | None" = None) -> None:
        """Mark items as seen by the caller: those with these ids, or all up to the time `before`."""
        self._connection.send(calls.see(ids, before))

    def approvals(
        self, *, status: str | None = "pending", cursor: str | None = None, limit: int = 50
    ) -> "Listing[AnyItem]":
        """One page of the items to approve or deny, tool calls and outlines, newest first."""
        return self._connection.send(calls.inbox_items("/approvals", status=status, cursor=cursor, limit=limit))

    def questions(
        self, *, status: str | None = "pending", cursor: str | None = None, limit: int = 50
    ) -> "Listing[AnyItem]":
        """One page of the questions, newest first."""
        return self._connection.send(calls.inbox_items("/questions", status=status, cursor=cursor, limit=limit))

    def approve(
        self, item_id: str, *, note: str | None = None, remember: str | None = None, digest: str | None = None
    ) -> "AnyItem":
        """Approve a tool call (for one run) or an outline. `remember` (order, session, workspace): similar calls in
        that scope need no approval from now on. Raises `Conflict` when the item was denied, or has another `digest`
        than this one; `Refused` (410) when nothing waits for it any more."""
        return self._connection.send(calls.decide(item_id, "approve", note, remember, digest))

    def deny(self, item_id: str, *, note: str | None = None, digest: str | None = None) -> "AnyItem":
        """Deny a tool call, which then does not run (its agent reads the denial and `note`), or an outline, whose
        order then ends. `digest` as in `approve`."""
        return self._connection.send(calls.decide(item_id, "deny", note, None, digest))

    def answer(self, item_id: str, answer: str | Mapping[str, str]) -> "AnyItem | LateAnswer":
        """Answer a question, or several asked together by their ids. Raises `Conflict` when it has another answer
        already. A `LateAnswer`: nobody waits for it any more, so it goes to the session's unfinished or next turn."""
        return self._connection.send(calls.answer_question(item_id, answer))

    def decline(self, item_id: str) -> "AnyItem":
        """Say that nobody will answer a question: its agent decides by itself. Raises `Conflict` when it was answered,
        `Refused` (410) when nobody waits for it any more."""
        return self._connection.send(calls.decline_question(item_id))


class Grants:
    """Approvals that a person let count for later calls too."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, cursor: str | None = None, limit: int = 50) -> "Listing[Grant]":
        """One page, newest first."""
        return self._connection.send(calls.list_grants(cursor=cursor, limit=limit))

    def revoke(self, grant_id: str) -> None:
        """Revoke a grant: no later call is approved by it."""
        self._connection.send(calls.revoke_grant(grant_id))


class Views:
    """Filters of lists, kept under a name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> "Sequence[View]":
        """The caller's views and those that are shared, by their positions."""
        return self._connection.send(calls.list_views())

    def get(self, name: str) -> "View":
        """Raises `NotFound`."""
        return self._connection.send(calls.get_view(name))

    def put(self, name: str, query: Mapping[str, Any], *, position: int = 0, shared: bool = False) -> "View":
        """Keep filters under this name, in place of the caller's view that has it."""
        return self._connection.send(calls.put_view(name, query, position, shared))

    def delete(self, name: str) -> None:
        """Raises `NotFound`."""
        self._connection.send(calls.delete_view(name))
