"""Client for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from mcc.client import address, calls
from mcc.client.errors import ClientError, Unreachable
from mcc.client.sync_artifacts import Files
from mcc.client.sync_connection import Connection
from mcc.client.sync_documents import Blueprints, Documents, Notes
from mcc.client.sync_sessions import Sessions
from mcc.client.watching import READ_SECONDS, EventParser, LostEntry, Position

if TYPE_CHECKING:
    from datetime import datetime

    import httpx

    from mcc.contracts.answers import Listing, ModelCheck, Offer, PlacedOrder, RecordSetup
    from mcc.contracts.approvals import AnyItem, Grant, LateAnswer
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.control import Control, ControlOfBatch, Receipt
    from mcc.contracts.drones import Drone
    from mcc.contracts.entry import Entry
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.record import ChatRecord
    from mcc.contracts.tool_tests import ToolsApproved, ToolTested
    from mcc.contracts.wire import OrderEvent


class MCC:
    """A client of one control service. Without `url` and `token`, both come from the environment (`MCC_URL`,
    `MCC_TOKEN`, `MCC_TOKEN_FILE`), else from the service that `mcc up` started on this machine.

    Calls raise `ClientError`. Calls that are safe to repeat are retried, up to three times.
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
        self.artifacts = Files(self._connection)
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
        self, prompt: str = "", *, idempotency_key: str | None = None, attended: bool = False, **fields: Any
    ) -> "WorkOrder":
        """Place an order; `fields` are those of `NewOrder`.

        Without an `idempotency_key` one is generated, so that a retried request cannot place a second order.
        `attended`: somebody watches the order and can answer its agents (see `on_ask`).
        """
        return self._connection.send(calls.submit(prompt, fields, idempotency_key, attended))

    def submit_many(self, orders: "Sequence[Mapping[str, Any]]") -> "Sequence[PlacedOrder]":
        """Place up to 1,000 orders in one transaction, all or none. Answers one result per order, in the same order.

        Each item holds the fields of `NewOrder`, `prompt` included, and optionally an `idempotency_key`; one is
        generated where it is missing. Raises `Invalid` when any order is rejected: its `errors` name those by `index`.
        """
        return self._connection.send(calls.submit_many(orders))

    def retry(self, order_id: str, *, idempotency_key: str | None = None) -> "WorkOrder":
        """Place a new order with the same input, as the next turn of the session. Raises `Conflict` while the order
        has not ended."""
        return self._connection.send(calls.retry(order_id, idempotency_key))

    def fork(
        self, order_id: str, *, after: int, prompt: str | None = None, idempotency_key: str | None = None
    ) -> "WorkOrder":
        """Place a new order, in a new session, that continues this one from journal entry `after`, with `prompt` next.

        The result's `origin` says where the journal was cut: at `after`, or before it where a call was open there.
        """
        return self._connection.send(calls.fork(order_id, after, prompt, idempotency_key))

    def revert(
        self, order_id: str, *, to: int | None = None, overwrite: bool = False, idempotency_key: str | None = None
    ) -> "WorkOrder":
        """Place a new order that restores the workspace's files to their state before this order wrote, or after its
        journal entry `to`. `overwrite`: also files that somebody else changed since. Raises `Conflict` while the order
        has not ended."""
        return self._connection.send(calls.revert(order_id, to, overwrite, idempotency_key))

    def roll_back(self, order_id: str) -> "WorkOrder":
        """Exclude a finished turn from the context of later turns in its session."""
        return self._connection.send(calls.roll_back(order_id))

    def get(self, order_id: str) -> "WorkOrder":
        return self._connection.send(calls.get_order(order_id))

    def list(
        self,
        *,
        status: str | None = None,
        session_id: str | None = None,
        label: str | None = None,
        agent: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        since: "datetime | None" = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[WorkOrder]":
        """One page, newest first. `part`: only orders whose id begins or ends with it, at least four characters.
        `since`: placed at this time or later. With `agent`, `workspace` or `kind` a page may be short and yet not
        the last. `kind`: chat, generate, revert or compact; None = all but those that compact a session."""
        by_spec = {"label": label, "agent": agent, "workspace": workspace, "since": since and since.isoformat()}
        return self._connection.send(
            calls.list_orders(
                status=status, session_id=session_id, kind=kind, part=part, cursor=cursor, limit=limit, **by_spec
            )
        )

    def record(self, order_id: str) -> "ChatRecord":
        """The chat record as a tree, also while the order runs. Raises `NotFound` before its first agent has
        started."""
        return self._connection.send(calls.record(order_id))

    def setup(self, order_id: str, record_id: str) -> "RecordSetup":
        """The setup (prompt, tools, settings) that the record's agent gave its model. Raises `NotFound` where there
        is no such record."""
        return self._connection.send(calls.setup(order_id, record_id))

    def artifact(self, order_id: str, artifact_id: str) -> str:
        """The full text of an artifact that a result in the order refers to. Raises `NotFound` where none does."""
        return self._connection.send(calls.artifact(order_id, artifact_id))

    def journal(self, order_id: str, *, after: int = 0, limit: int = 1000) -> "Sequence[Entry]":
        """Journal entries after number `after`, at most `limit` (up to 1,000)."""
        page = self._connection.send(calls.journal(order_id, after, limit))
        return page.items

    @overload
    def watch(self, order_id: str, after: int = 0, deltas: Literal[False] = False) -> "Generator[Entry, None]": ...
    @overload
    def watch(self, order_id: str, after: int = 0, *, deltas: bool) -> "Generator[OrderEvent, None]": ...
    def watch(self, order_id: str, after: int = 0, deltas: bool = False) -> "Generator[OrderEvent, None]":
        """Every journal entry after number `after`, once and in order, up to the final one; reconnects as needed.

        `deltas`: also streamed text, and a generation's progress. Raises `Unreachable` when the service does not come
        back, `Refused`.
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
                time.sleep(position.patience.next_wait(problem))

    def _follow(self, order_id: str, position: Position) -> "Generator[OrderEvent, None]":
        """Items of one connection. Raises `Unreachable` when it breaks or cannot be made."""
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
                    position.over = calls.stream_is_over(answer.status_code, answer.read())
                    return
                for chunk in answer.iter_bytes():
                    position.patience.answered()
                    for event in parser.feed(chunk):
                        item = position.take(event)
                        if item is not None:
                            yield item
            except httpx.HTTPError as error:
                raise self._connection.unanswered(error) from error

    def cancel(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        """Stop the order, or the agent of `record_id` and its subagents."""
        return self._connection.send(calls.control(order_id, "cancel", record_id=record_id, reason=reason))

    def cancel_all(self, *, cursor: str | None = None, **asked: Any) -> "OrdersCancelled":
        """Stop up to 1,000 unfinished orders; `asked` are the fields of `OrdersToCancel`: label, status, agent,
        workspace, session_id, since, or all; reason. Where the answer has a `next_cursor`, more may fit."""
        return self._connection.send(calls.cancel_orders(cursor, **asked))

    def pause(self, order_id: str, *, record_id: str | None = None, reason: str | None = None) -> "Receipt":
        """Start no further model or tool call, in the order or in the agent of `record_id` and its subagents."""
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
        """Send a message to the master, or to the agent of `record_id`; it reads it before its next model call.

        `redirect`: the message becomes its task. `remove_tools`: names of tools or groups to take away from it and
        its subagents. Never retried.
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
        """Merge `metadata` into that of the order, or of the agent of `record_id`; a value of None removes its key.
        Never retried."""
        return self._connection.send(
            calls.control(order_id, "metadata", metadata=metadata, record_id=record_id, reason=reason)
        )

    def control(self, order_id: str, asked: "Sequence[ControlOfBatch]") -> "Sequence[Receipt]":
        """Place several controls in one transaction, all or none; one receipt for each. Never retried. A cancel of the
        whole order wins: the service refuses the others."""
        return self._connection.send(calls.control_batch(order_id, asked))

    def controls(self, order_id: str) -> "Sequence[Control]":
        """The controls placed on the order, with their outcome."""
        return self._connection.send(calls.controls(order_id))


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

    def approve(self, item_id: str, *, note: str | None = None, remember: str | None = None) -> "AnyItem":
        """Approve a tool call (for one run) or an outline. `remember` (order, session, workspace): similar calls in
        that scope need no approval from now on. Raises `Conflict` when the item was denied, `Refused` (410) when
        nothing waits for it any more."""
        return self._connection.send(calls.decide(item_id, "approve", note, remember))

    def deny(self, item_id: str, *, note: str | None = None) -> "AnyItem":
        """Deny a tool call, which then does not run (its agent reads the denial and `note`), or an outline, whose
        order then ends."""
        return self._connection.send(calls.decide(item_id, "deny", note, None))

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


class Drones:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, *, with_long_silent: bool = False) -> "Sequence[Drone]":
        """Drones with a heartbeat within ten minutes, with `with_long_silent` within a day."""
        return self._connection.send(calls.list_drones(with_long_silent))


class Offers:
    """What drones offer of one kind: agents, tools or models."""

    def __init__(self, connection: Connection, kind: str) -> None:
        self._connection = connection
        self._kind = kind

    def list(self) -> "Sequence[Offer]":
        return self._connection.send(calls.list_offers(self._kind))


class Agents(Offers):
    def get(self, name: str) -> "Offer":
        """One agent with its prompt. Raises `NotFound`."""
        return self._connection.send(calls.agent(name))


class Tools(Offers):
    def test(self, server: str, tool: str | None = None, arguments: "Mapping[str, Any] | None" = None) -> "ToolTested":
        """Let a drone connect to an MCP server, list its tools, and call `tool` if one is named, without approval."""
        return self._connection.send(calls.test_tools(server, tool, arguments or {}))

    def approve(self, server: str, tool: str | None = None) -> "ToolsApproved":
        """Approve the tool definitions that an MCP server sent last: of `tool`, or of all its tools."""
        return self._connection.send(calls.approve_tools(server, tool))


class Models(Offers):
    def check(self, names: Sequence[str] = ()) -> "Sequence[ModelCheck]":
        """Check each of these models, or all where none is named, by one small call; the calls cost a little."""
        return self._connection.send(calls.check_models(names))
