"""Client for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from mcc.client import address, calls
from mcc.client.errors import ClientError, Unreachable
from mcc.client.sync_connection import Connection
from mcc.client.sync_documents import Blueprints, Documents, Notes
from mcc.client.sync_inbox import Grants, Inbox
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


class MCC:
    """A control service. Without `url` and `token` it is found by environment or by this machine's family.

    Calls raise `ClientError`; those that can be repeated without harm are, a few times.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        transport: "httpx.BaseTransport | None" = None,
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

    def __enter__(self) -> "MCC":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.http.close()


class Orders:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def submit(
        self, prompt: str, *, idempotency_key: str | None = None, attended: bool = False, **fields: Any
    ) -> "WorkOrder":
        """Place an order; `fields` are those of `NewOrder`. A key is made when none is given, so that a repeated
        request cannot make a second order. `attended`: somebody watches it, whom its agents can ask (`on_ask`)."""
        return self._connection.send(calls.submit(prompt, fields, idempotency_key, attended))

    def submit_many(self, orders: "Sequence[Mapping[str, Any]]") -> "Sequence[PlacedOrder]":
        """Place up to 1,000 orders in one transaction, all or none; one result for each, in their order.

        Each is the fields of `NewOrder`, its `prompt` among them, and may have an `idempotency_key`; one is made for
        those that have none. `Invalid` when some of them cannot be accepted: its `errors` name these by `index`.
        """
        return self._connection.send(calls.submit_many(orders))

    def retry(self, order_id: str, *, idempotency_key: str | None = None) -> "WorkOrder":
        """A new order from the same input, as the next turn of its session. `Conflict` before the order has ended."""
        return self._connection.send(calls.retry(order_id, idempotency_key))

    def fork(
        self, order_id: str, *, after: int, prompt: str | None = None, idempotency_key: str | None = None
    ) -> "WorkOrder":
        """A new order in a new session that goes on from entry `after` of this one, and hears `prompt` next.

        `origin` of the answer says where it was cut: the last place before that where no call was under way.
        """
        return self._connection.send(calls.fork(order_id, after, prompt, idempotency_key))

    def revert(
        self, order_id: str, *, to: int | None = None, overwrite: bool = False, idempotency_key: str | None = None
    ) -> "WorkOrder":
        """A new order that brings back the files of the workspace as they were before this one wrote, or after its
        entry `to`; `overwrite`: also those that somebody else changed since. `Conflict` before the order has ended."""
        return self._connection.send(calls.revert(order_id, to, overwrite, idempotency_key))

    def roll_back(self, order_id: str) -> "WorkOrder":
        """Leave a finished turn out of the context of its session's later turns."""
        return self._connection.send(calls.roll_back(order_id))

    def get(self, order_id: str) -> "WorkOrder":
        return self._connection.send(calls.get_order(order_id))

    def list(
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
        return self._connection.send(
            calls.list_orders(status=status, session_id=session_id, label=label, part=part, cursor=cursor, limit=limit)
        )

    def record(self, order_id: str) -> "ChatRecord":
        """The chat record as a tree, also while the order runs; `NotFound` before its first agent has started."""
        return self._connection.send(calls.record(order_id))

    def setup(self, order_id: str, record_id: str) -> "RecordSetup":
        """What the model of this record's agent was asked with; `NotFound` where there is no such record."""
        return self._connection.send(calls.setup(order_id, record_id))

    def artifact(self, order_id: str, artifact_id: str) -> str:
        """The whole of a text that a result of the order names; `NotFound` where none does."""
        return self._connection.send(calls.artifact(order_id, artifact_id))

    def journal(self, order_id: str, *, after: int = 0, limit: int = 1000) -> "Sequence[Entry]":
        """Entries after number `after`, at most `limit` (≤ 1,000)."""
        page = self._connection.send(calls.journal(order_id, after, limit))
        return page.items

    @overload
    def watch(self, order_id: str, after: int = 0, deltas: Literal[False] = False) -> "Generator[Entry, None]": ...
    @overload
    def watch(self, order_id: str, after: int = 0, *, deltas: bool) -> "Generator[Seen, None]": ...
    def watch(self, order_id: str, after: int = 0, deltas: bool = False) -> "Generator[Seen, None]":
        """Every entry after number `after`, once and in order, until the final one, over any number of connections.

        With `deltas`, also text on its way, and how far a generation is. Raises `Unreachable` when the service stays
        away, `Refused`.
        """
        position = Position(after, deltas)
        while not position.over:
            problem: ClientError | None = None
            try:
                with contextlib.closing(self._follow(order_id, position)) as items:
                    yield from items
            except (Unreachable, LostEntry) as error:
                problem = error if isinstance(error, Unreachable) else None
            if not position.over:
                time.sleep(position.next_wait(problem))

    def _follow(self, order_id: str, position: Position) -> "Generator[Seen, None]":
        """One connection. Raises `Unreachable` when it breaks or cannot be made."""
        import httpx

        parser = EventParser()
        timeout = httpx.Timeout(10.0, read=READ_SECONDS)
        with contextlib.ExitStack() as stack:
            try:
                answer = stack.enter_context(
                    self._connection.http.stream(
                        "GET", calls.events_path(order_id), headers=position.headers, timeout=timeout
                    )
                )
                if answer.status_code != 200:
                    position.over = calls.stream_ends(answer.status_code, answer.read())
                    return
                for chunk in answer.iter_bytes():
                    for event in parser.feed(chunk):
                        item = position.take(event)
                        if item is not None:
                            yield item
            except httpx.HTTPError as error:
                raise calls.unreachable(str(self._connection.http.base_url), error) from error

    def cancel(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        """Stop the order, or the agent of `record_id` with all below it."""
        return self._connection.send(calls.control(order_id, "cancel", record_id=record_id, reason=reason))

    def pause(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        """Begin no further model or tool call, of the order or of the agent of `record_id` with all below it."""
        return self._connection.send(calls.control(order_id, "pause", record_id=record_id, reason=reason))

    def resume(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        return self._connection.send(calls.control(order_id, "resume", record_id=record_id, reason=reason))

    def steer(
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
        return self._connection.send(
            calls.steer(
                order_id, message, record_id=record_id, redirect=redirect, remove_tools=remove_tools, reason=reason
            )
        )

    def set_metadata(
        self,
        order_id: str,
        metadata: "Mapping[str, Any]",
        *,
        record_id: str | None = None,
        reason: str | None = None,
    ) -> "Receipt":
        """Merge these into the order's metadata, or that of the agent of `record_id`; None takes a key away."""
        return self._connection.send(
            calls.control(order_id, "metadata", metadata=metadata, record_id=record_id, reason=reason)
        )

    def control(self, order_id: str, asked: "Sequence[ControlOfBatch]") -> "Sequence[Receipt]":
        """Several controls at once, all or none, one receipt for each; never sent twice. A cancel of the whole order
        wins: the others are refused."""
        return self._connection.send(calls.control_batch(order_id, asked))

    def controls(self, order_id: str) -> "Sequence[Control]":
        """What was asked of the order, and what became of it."""
        return self._connection.send(calls.controls(order_id))


class Sessions:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open(self, title: str = "") -> "Session":
        return self._connection.send(calls.open_session(title))

    def get(self, session_id: str) -> "SessionWithTurns":
        return self._connection.send(calls.get_session(session_id))

    def list(self, *, cursor: str | None = None, limit: int = 50) -> "Listing[Session]":
        """One page, newest first."""
        return self._connection.send(calls.list_sessions(cursor=cursor, limit=limit))


class Drones:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> "Sequence[Drone]":
        return self._connection.send(calls.list_drones())


class Offers:
    """Agents, tools or models that drones have."""

    def __init__(self, connection: Connection, what: str) -> None:
        self._connection = connection
        self._what = what

    def list(self) -> "Sequence[Offer]":
        return self._connection.send(calls.list_offers(self._what))


class Agents(Offers):
    def get(self, name: str) -> "Offer":
        """One agent with its prompt. Raises `NotFound`."""
        return self._connection.send(calls.agent(name))


class Tools(Offers):
    def test(self, server: str, tool: str | None = None, arguments: "Mapping[str, Any] | None" = None) -> "ToolTested":
        """What an MCP server says to a drone now, and what this call of a tool of it brings; no approval is asked."""
        return self._connection.send(calls.test_tools(server, tool, arguments or {}))

    def approve(self, server: str, tool: str | None = None) -> "ToolsApproved":
        """Let the definitions count that were seen last, of one tool or of all of an MCP server."""
        return self._connection.send(calls.approve_tools(server, tool))


class Models(Offers):
    def check(self, names: Sequence[str] = ()) -> "Sequence[ModelCheck]":
        """What one small call to each of these models showed, to all where none is named; it costs a little."""
        return self._connection.send(calls.check_models(names))
