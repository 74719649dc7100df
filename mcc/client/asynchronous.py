"""Client for an event loop: every call is awaited."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from mcc.client import address, calls
from mcc.client.async_connection import Connection
from mcc.client.async_documents import Blueprints, Documents, Notes
from mcc.client.async_inbox import Grants, Inbox
from mcc.client.errors import ClientError, Unreachable
from mcc.client.watching import READ_SECONDS, EventParser, LostEntry, Position

if TYPE_CHECKING:
    import httpx

    from mcc.contracts.answers import Listing, ModelCheck, Offer, PlacedOrder, RecordSetup
    from mcc.contracts.control import Control, ControlOfBatch, Receipt
    from mcc.contracts.drones import Drone
    from mcc.contracts.entry import Entry
    from mcc.contracts.order import Session, SessionWithTurns, WorkOrder
    from mcc.contracts.record import ChatRecord
    from mcc.contracts.tool_tests import ToolsApproved, ToolTested
    from mcc.contracts.wire import Seen


class AsyncMCC:
    """A control service. Without `url` and `token` it is found by environment or by this machine's family.

    Calls raise `ClientError`; those that can be repeated without harm are, a few times.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        service = address.find(url, token)
        self.url = service.url
        self._connection = Connection(service, timeout_seconds, transport)
        self.orders = Orders(self._connection)
        self.sessions = Sessions(self._connection)
        self.drones = Drones(self._connection)
        self.agents = Agents(self._connection, "agents")
        self.tools = Tools(self._connection, "tools")
        self.models = Models(self._connection, "models")
        self.blueprints = Blueprints(self._connection)
        self.documents = Documents(self._connection)
        self.inbox = Inbox(self._connection)
        self.notes = Notes(self._connection)
        self.grants = Grants(self._connection)

    async def __aenter__(self) -> "AsyncMCC":
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.http.aclose()


class Orders:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def submit(
        self, prompt: str, *, idempotency_key: str | None = None, attended: bool = False, **fields: Any
    ) -> "WorkOrder":
        """Place an order; `fields` are those of `NewOrder`. A key is made when none is given, so that a repeated
        request cannot make a second order. `attended`: somebody watches it, whom its agents can ask (`on_ask`)."""
        return await self._connection.send(calls.submit(prompt, fields, idempotency_key, attended))

    async def submit_many(self, orders: "Sequence[Mapping[str, Any]]") -> "Sequence[PlacedOrder]":
        """Place up to 1,000 orders in one transaction, all or none; one result for each, in their order.

        Each is the fields of `NewOrder`, its `prompt` among them, and may have an `idempotency_key`; one is made for
        those that have none. `Invalid` when some of them cannot be accepted: its `errors` name these by `index`.
        """
        return await self._connection.send(calls.submit_many(orders))

    async def retry(self, order_id: str, *, idempotency_key: str | None = None) -> "WorkOrder":
        """A new order from the same input, as the next turn of its session. `Conflict` before the order has ended."""
        return await self._connection.send(calls.retry(order_id, idempotency_key))

    async def fork(
        self, order_id: str, *, after: int, prompt: str | None = None, idempotency_key: str | None = None
    ) -> "WorkOrder":
        """A new order in a new session that goes on from entry `after` of this one, and hears `prompt` next.

        `origin` of the answer says where it was cut: the last place before that where no call was under way.
        """
        return await self._connection.send(calls.fork(order_id, after, prompt, idempotency_key))

    async def revert(
        self, order_id: str, *, to: int | None = None, overwrite: bool = False, idempotency_key: str | None = None
    ) -> "WorkOrder":
        """A new order that brings back the files of the workspace as they were before this one wrote, or after its
        entry `to`; `overwrite`: also those that somebody else changed since. `Conflict` before the order has ended."""
        return await self._connection.send(calls.revert(order_id, to, overwrite, idempotency_key))

    async def roll_back(self, order_id: str) -> "WorkOrder":
        """Leave a finished turn out of the context of its session's later turns."""
        return await self._connection.send(calls.roll_back(order_id))

    async def get(self, order_id: str) -> "WorkOrder":
        return await self._connection.send(calls.get_order(order_id))

    async def list(
        self,
        *,
        status: str | None = None,
        session_id: str | None = None,
        label: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[WorkOrder]":
        """One page, newest first; `part`: those whose id begins or ends so, by at least four characters."""
        return await self._connection.send(
            calls.list_orders(status=status, session_id=session_id, label=label, part=part, cursor=cursor, limit=limit)
        )

    async def record(self, order_id: str) -> "ChatRecord":
        """The chat record as a tree, also while the order runs; `NotFound` before its first agent has started."""
        return await self._connection.send(calls.record(order_id))

    async def setup(self, order_id: str, record_id: str) -> "RecordSetup":
        """What the model of this record's agent was asked with; `NotFound` where there is no such record."""
        return await self._connection.send(calls.setup(order_id, record_id))

    async def artifact(self, order_id: str, artifact_id: str) -> str:
        """The whole of a text that a result of the order names; `NotFound` where none does."""
        return await self._connection.send(calls.artifact(order_id, artifact_id))

    async def journal(self, order_id: str, *, after: int = 0, limit: int = 1000) -> "Sequence[Entry]":
        """Entries after number `after`, at most `limit` (≤ 1,000)."""
        page = await self._connection.send(calls.journal(order_id, after, limit))
        return page.items

    @overload
    def watch(self, order_id: str, after: int = 0, deltas: Literal[False] = False) -> "AsyncGenerator[Entry, None]": ...
    @overload
    def watch(self, order_id: str, after: int = 0, *, deltas: bool) -> "AsyncGenerator[Seen, None]": ...
    async def watch(self, order_id: str, after: int = 0, deltas: bool = False) -> "AsyncGenerator[Seen, None]":
        """Every entry after number `after`, once and in order, until the final one, over any number of connections.

        With `deltas`, also text on its way, and how far a generation is. Raises `Unreachable` when the service stays
        away, `Refused`.
        """
        position = Position(after, deltas)
        while not position.over:
            problem: ClientError | None = None
            try:
                async with contextlib.aclosing(self._follow(order_id, position)) as items:
                    async for item in items:
                        yield item
            except (Unreachable, LostEntry) as error:
                problem = error if isinstance(error, Unreachable) else None
            if not position.over:
                await asyncio.sleep(position.next_wait(problem))

    async def _follow(self, order_id: str, position: Position) -> "AsyncGenerator[Seen, None]":
        """One connection. Raises `Unreachable` when it breaks or cannot be made."""
        import httpx

        parser = EventParser()
        timeout = httpx.Timeout(10.0, read=READ_SECONDS)
        async with contextlib.AsyncExitStack() as stack:
            try:
                answer = await stack.enter_async_context(
                    self._connection.http.stream(
                        "GET", calls.events_path(order_id), headers=position.headers, timeout=timeout
                    )
                )
                if answer.status_code != 200:
                    position.over = calls.stream_ends(answer.status_code, await answer.aread())
                    return
                async for chunk in answer.aiter_bytes():
                    for event in parser.feed(chunk):
                        item = position.take(event)
                        if item is not None:
                            yield item
            except httpx.HTTPError as error:
                raise calls.unreachable(str(self._connection.http.base_url), error) from error

    async def cancel(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        """Stop the order, or the agent of `record_id` with all below it."""
        return await self._connection.send(calls.control(order_id, "cancel", record_id=record_id, reason=reason))

    async def pause(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        """Begin no further model or tool call, of the order or of the agent of `record_id` with all below it."""
        return await self._connection.send(calls.control(order_id, "pause", record_id=record_id, reason=reason))

    async def resume(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        return await self._connection.send(calls.control(order_id, "resume", record_id=record_id, reason=reason))

    async def steer(
        self,
        order_id: str,
        message: str | None = None,
        *,
        record_id: str | None = None,
        redirect: bool = False,
        remove_tools: Sequence[str] = (),
        reason: str | None = None,
    ) -> "Receipt":
        """Say something to the master, or to the agent of `record_id`, before its next model call.

        `redirect`: the message is its task from now on. `remove_tools`: names of tools or groups that it and all below
        it lose. A steer is never sent twice.
        """
        return await self._connection.send(
            calls.steer(
                order_id, message, record_id=record_id, redirect=redirect, remove_tools=remove_tools, reason=reason
            )
        )

    async def set_metadata(
        self,
        order_id: str,
        metadata: "Mapping[str, Any]",
        *,
        record_id: str | None = None,
        reason: str | None = None,
    ) -> "Receipt":
        """Merge these into the order's metadata, or that of the agent of `record_id`; None takes a key away."""
        return await self._connection.send(
            calls.control(order_id, "metadata", metadata=metadata, record_id=record_id, reason=reason)
        )

    async def control(self, order_id: str, asked: "Sequence[ControlOfBatch]") -> "Sequence[Receipt]":
        """Several controls at once, all or none, one receipt for each; never sent twice. A cancel of the whole order
        wins: the others are refused."""
        return await self._connection.send(calls.control_batch(order_id, asked))

    async def controls(self, order_id: str) -> "Sequence[Control]":
        """What was asked of the order, and what became of it."""
        return await self._connection.send(calls.controls(order_id))


class Sessions:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def open(self, title: str = "") -> "Session":
        return await self._connection.send(calls.open_session(title))

    async def get(self, session_id: str) -> "SessionWithTurns":
        return await self._connection.send(calls.get_session(session_id))

    async def list(self, *, cursor: str | None = None, limit: int = 50) -> "Listing[Session]":
        """One page, newest first."""
        return await self._connection.send(calls.list_sessions(cursor=cursor, limit=limit))


class Drones:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> "Sequence[Drone]":
        return await self._connection.send(calls.list_drones())


class Offers:
    """Agents, tools or models that drones have."""

    def __init__(self, connection: Connection, what: str) -> None:
        self._connection = connection
        self._what = what

    async def list(self) -> "Sequence[Offer]":
        return await self._connection.send(calls.list_offers(self._what))


class Agents(Offers):
    async def get(self, name: str) -> "Offer":
        """One agent with its prompt. Raises `NotFound`."""
        return await self._connection.send(calls.agent(name))


class Tools(Offers):
    async def test(
        self, server: str, tool: str | None = None, arguments: "Mapping[str, Any] | None" = None
    ) -> "ToolTested":
        """What an MCP server says to a drone now, and what this call of a tool of it brings; no approval is asked."""
        return await self._connection.send(calls.test_tools(server, tool, arguments or {}))

    async def approve(self, server: str, tool: str | None = None) -> "ToolsApproved":
        """Let the definitions count that were seen last, of one tool or of all of an MCP server."""
        return await self._connection.send(calls.approve_tools(server, tool))


class Models(Offers):
    async def check(self, names: Sequence[str] = ()) -> "Sequence[ModelCheck]":
        """What one small call to each of these models showed, to all where none is named; it costs a little."""
        return await self._connection.send(calls.check_models(names))
