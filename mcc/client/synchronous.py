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
from mcc.client.sync_fleet import Agents, Doctor, Drones, Models, Tools
from mcc.client.sync_inbox import Grants, Inbox, Views
from mcc.client.sync_people import ApiTokens, AuditTrail, Persons
from mcc.client.sync_reading import OrderReading
from mcc.client.sync_schedules import Schedules, Triggers
from mcc.client.sync_sessions import Sessions
from mcc.client.sync_signins import Signins
from mcc.client.sync_webhooks import Webhooks
from mcc.client.watching import NDJSON, READ_SECONDS, EventParser, LineParser, LostEntry, Position

if TYPE_CHECKING:
    from datetime import date, datetime
    from typing import Unpack

    import httpx

    from mcc.client.requests.order_filters import AllFilters, MoreFilters, Values
    from mcc.client.watching import Away
    from mcc.contracts.answers import PlacedOrder, RecordSetup
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.control import Control, ControlOfBatch, Receipt
    from mcc.contracts.entry import Entry
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.order_bulk import BulkItem, Failure
    from mcc.contracts.order_lists import OrderCount, OrderPage, SummaryPage
    from mcc.contracts.record import ChatRecord
    from mcc.contracts.usage_days import UsageReport
    from mcc.contracts.wire import OrderEvent


class MCC:
    """A client of one control service. Without `url` and `token`, both come from the environment (`MCC_URL`,
    `MCC_TOKEN`, `MCC_TOKEN_FILE`), else the token from `mcc login`, else both from the service that `mcc up` started on
    this machine.

    Calls raise `ClientError`. Calls that are safe to repeat are retried, up to three times.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        transport: "httpx.BaseTransport | None" = None,
        user_agent: str | None = None,
    ) -> None:
        """`user_agent`: what the client calls itself; None: as httpx does."""
        service = address.find(url, token)
        self.url = service.url
        self._connection = Connection(service, timeout_seconds, transport, user_agent)
        self.orders = Orders(self._connection)
        self.sessions = Sessions(self._connection)
        self.drones = Drones(self._connection)
        self.doctor = Doctor(self._connection)
        self.agents = Agents(self._connection, "agents")
        self.tools = Tools(self._connection, "tools")
        self.models = Models(self._connection, "models")
        self.blueprints = Blueprints(self._connection)
        self.documents = Documents(self._connection)
        self.inbox = Inbox(self._connection)
        self.notes = Notes(self._connection)
        self.artifacts = Files(self._connection)
        self.grants = Grants(self._connection)
        self.views = Views(self._connection)
        self.signins = Signins(self._connection)
        self.people = Persons(self._connection)
        self.tokens = ApiTokens(self._connection)
        self.audit = AuditTrail(self._connection)
        self.schedules = Schedules(self._connection)
        self.triggers = Triggers(self._connection)
        self.webhooks = Webhooks(self._connection)

    def __enter__(self) -> "MCC":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.http.close()

    def events(
        self,
        *,
        kind: "Values" = None,
        label: "Values" = None,
        agent: "Values" = None,
        session_id: "Values" = None,
        who: "Values" = None,
        door: "Values" = None,
    ) -> "Generator[Entry, None]":
        """The entries of all orders that fit, as they are committed, those of one order in their order.

        `kind` is that of the entry, the others are of its order; a list of values fits where one of them does. Live
        only: nothing is repeated. Ends when the service does. Raises `Unauthorized` once the right has ended,
        `Unreachable` where it breaks off, as for a reader that is 10 s behind.
        """
        asked = calls.query(kind=kind, label=label, agent=agent, session_id=session_id, who=who, door=door)
        parser = LineParser()
        pieces = self._connection.pieces("/events", asked, accept=NDJSON, silent_seconds=READ_SECONDS)
        with contextlib.closing(pieces):
            for piece in pieces:
                yield from parser.feed(piece)


class Orders(OrderReading):
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

    def deliver(
        self, order_id: str, *, idempotency_key: str | None = None, attended: bool = False, **wish: Any
    ) -> "WorkOrder":
        """Place a new order, the next turn of the same session, that pushes what this one did on a git address.

        `wish` are the fields of an order's `deliver`, such as `pull_request`; without any, it is as this order wished,
        else its branch is pushed. `attended`: somebody can be asked whether it may. Raises `Conflict` while the order
        has not ended.
        """
        return self._connection.send(calls.deliver(order_id, wish, idempotency_key, attended))

    def roll_back(self, order_id: str) -> "WorkOrder":
        """Exclude a finished turn from the context of later turns in its session."""
        return self._connection.send(calls.roll_back(order_id))

    def get(self, order_id: str) -> "WorkOrder":
        return self._connection.send(calls.get_order(order_id))

    def list(
        self,
        *,
        status: "Values" = None,
        session_id: "Values" = None,
        label: "Values" = None,
        agent: "Values" = None,
        workspace: str | None = None,
        kind: str | None = None,
        since: "datetime | None" = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        **more: "Unpack[MoreFilters]",
    ) -> "OrderPage":
        """One page, newest first, of the orders that fit all filters; a list of values fits where one of them does.
        `part`: only orders whose id begins or ends with it, at least four characters. `since`, `until`: placed at this
        time or later, and before this time. `kind`: chat, generate, revert or compact; None = all but those that
        compact a session. A page may be short and yet not the last; `searched_to` says how far was looked."""
        named = {"status": status, "session_id": session_id, "label": label, "agent": agent, "workspace": workspace}
        place = {"part": part, "cursor": cursor, "limit": limit}
        asked = calls.order_filters({**named, "kind": kind, "since": since, **more})
        return self._connection.send(calls.list_orders(**asked, **place))

    def summaries(
        self, *, cursor: str | None = None, limit: int = 50, **filters: "Unpack[AllFilters]"
    ) -> "SummaryPage":
        """As `list`, with the beginnings of prompts, without answers and results, and with what waits for people."""
        asked = calls.order_filters(filters)
        return self._connection.send(calls.order_summaries(**asked, cursor=cursor, limit=limit))

    def bulk(
        self, action: str, ids: Sequence[str], *, reason: str | None = None, idempotency_key: str | None = None
    ) -> "Sequence[BulkItem]":
        """Cancel or retry each of these orders (`action`), up to 1,000; answers what became of each. With the same
        `idempotency_key` no order is repeated a second time."""
        return (self._connection.send(calls.bulk(action, ids, reason, idempotency_key))).items

    def failures(self, *, since: "datetime | None" = None) -> "Sequence[Failure]":
        """What failed since then, a week ago if None, gathered by cause, the most frequent first."""
        return self._connection.send(calls.list_failures(since))

    def usage(self, by: str = "day", *, first: "date | None" = None, last: "date | None" = None) -> "UsageReport":
        """What the orders used that ended from a day to another one (UTC, both included), by day, and beside it `by`
        person, agent, model, label or drone; of the last 30 days if none is named, of 400 at most."""
        return self._connection.send(calls.usage_report(by, **{"from": first, "to": last}))

    def counts(self) -> "Sequence[OrderCount]":
        """Numbers of unfinished orders by status and reason."""
        return self._connection.send(calls.count_orders())

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

    @overload
    def watch(
        self, order_id: str, after: int = 0, deltas: Literal[False] = False, *, away: "Away | None" = None
    ) -> "Generator[Entry, None]": ...
    @overload
    def watch(
        self, order_id: str, after: int = 0, *, deltas: bool, away: "Away | None" = None
    ) -> "Generator[OrderEvent, None]": ...
    def watch(
        self, order_id: str, after: int = 0, deltas: bool = False, *, away: "Away | None" = None
    ) -> "Generator[OrderEvent, None]":
        """Every journal entry after number `after`, once and in order, up to the final one; reconnects as needed.

        `deltas`: also streamed text, and a generation's progress. `away`: is told why the service is missed, at each
        try, and None once it answers again. Raises `Unreachable` when the service does not come back, `Refused`.
        """
        position = Position(after, deltas, away)
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
