"""Calls that read one order for an event loop: every call is awaited."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcc.client.async_connection import Connection
from mcc.client.requests import reading_calls as calls

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.entry import Entry
    from mcc.contracts.model_calls import ModelRequest
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.reading import ChangesOfOrder, Drafts, FileChanges, Overview, ReviewSent, Rows, Timeline


class OrderReading:
    """What there is to read of one order, also while it runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def overview(self, order_id: str, *, at: int | None = None, cursor: str | None = None) -> "Overview":
        """The order with its agents and the drones that held it, as of journal entry `at`.

        While `index.to` is below `index.of`, a long journal is still being read: ask again.
        """
        return await self._connection.send(calls.overview(order_id, at, cursor))

    async def timeline(
        self,
        order_id: str,
        *,
        start: "datetime | None" = None,
        end: "datetime | None" = None,
        px: int = 1_200,
        by: str = "record",
        at: int | None = None,
    ) -> "Timeline":
        """Who ran when, between two times, for a picture so many pixels wide; a lane by `record` or `agent`."""
        times = {"from": start and start.isoformat(), "to": end and end.isoformat()}
        return await self._connection.send(calls.timeline(order_id, **times, px=px, by=by, at=at))

    async def rows(
        self,
        order_id: str,
        *,
        record: str | None = None,
        before: int | None = None,
        after: int | None = None,
        around: int | None = None,
        limit: int = 100,
        kinds: Sequence[str] = (),
        errors: bool = False,
        at: int | None = None,
    ) -> "Rows":
        """What its agents said and did, of one `record` or of all: the newest rows, or those next to a journal entry.
        `kinds`: only these; `errors`: only what failed; `at`: as of this entry."""
        wanted = {"record": record, "before": before, "after": after, "around": around, "limit": limit, "at": at}
        return await self._connection.send(calls.rows(order_id, kinds, errors, **wanted))

    async def journal(
        self,
        order_id: str,
        *,
        after: int = 0,
        limit: int = 1000,
        kinds: Sequence[str] = (),
        record_id: str | None = None,
        call_id: str | None = None,
    ) -> "Sequence[Entry]":
        """Journal entries after number `after`, at most `limit` (up to 1,000); only those of these kinds, of this
        record, of this tool call."""
        wanted = {"after": after, "limit": limit, "record_id": record_id, "call_id": call_id}
        page = await self._connection.send(calls.journal(order_id, kinds, **wanted))
        return page.items

    async def model_request(self, order_id: str, seq: int, *, cursor: str | None = None) -> "ModelRequest":
        """What a model was asked with in the call that began with entry `seq`, a `model.started`: its first messages,
        or those from `cursor` on. Raises `NotFound` for any other entry, `Refused` (410) when it cannot be had any
        more."""
        return await self._connection.send(calls.model_request(order_id, seq, cursor))

    async def changes(self, order_id: str, *, cursor: str | None = None) -> "ChangesOfOrder | None":
        """The files that the order changed, at most 200, and with the first ones its commits and worktrees; None before
        its end, and where it changed nothing."""
        return await self._connection.send(calls.changes(order_id, cursor))

    async def file_changes(self, order_id: str, path: str, *, cursor: str | None = None) -> "FileChanges":
        """The changed lines of one file, at most 1,000. Raises `NotFound` where the order has not changed it."""
        return await self._connection.send(calls.file_changes(order_id, path, cursor))

    async def review(
        self,
        order_id: str,
        comments: "Sequence[Mapping[str, Any]]" = (),
        *,
        note: str | None = None,
        record_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> "ReviewSent | WorkOrder":
        """Send comments on changed lines (the fields of `LineComment`) as one steer; of an order that has ended, as the
        next turn of its session. Raises `Invalid` for a line that the diff does not show."""
        return await self._connection.send(calls.review(order_id, comments, note, record_id, idempotency_key))

    async def drafts(self, order_id: str) -> "Drafts":
        """What the caller has begun to write about the order."""
        return await self._connection.send(calls.drafts(order_id))

    async def keep_drafts(self, order_id: str, begun: "Mapping[str, Any]") -> None:
        """Store what the caller has begun to write: any JSON object of at most 64 KB; an empty one is dropped."""
        await self._connection.send(calls.keep_drafts(order_id, begun))

    async def artifact_content(self, order_id: str, artifact_id: str) -> bytes:
        """The bytes of an artifact: of a picture, or the UTF-8 of a text."""
        return await self._connection.send(calls.artifact_content(order_id, artifact_id))
