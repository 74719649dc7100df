"""The commands `mcc orders`: list, show, follow and control orders."""

import json
import sys
import time
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mcc.cli.command import (
    DONE,
    FAILED,
    USAGE,
    clock,
    fail,
    print_json,
    print_markdown,
    print_pairs,
    print_wrapped,
    say,
)
from mcc.cli.order_filters import OrderFilters, cancel_all
from mcc.cli.server import Query, ServiceCall, list_by_default, reading_command, service_command

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader
    from mcc.client import MCC
    from mcc.contracts.control import Control, Receipt
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.record import ChatRecord

LOOK_SECONDS = 0.3

app = typer.Typer(help="Work orders.", rich_markup_mode=None)

OrderId = Annotated[str, typer.Argument(help="The order: its id, 4 characters or more of an end of it, or @last.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed:
    """Options of a control: the agent it is for, its reason, and whether to wait for its outcome."""

    record_id: Annotated[
        str | None,
        typer.Option("--record", help="One agent of the tree, by its record's id; the whole order if left out."),
    ] = None
    agent: Annotated[
        str | None,
        typer.Option("--agent", help="One agent of the tree, by the name it is shown by: explore, 'explore 2'."),
    ] = None
    reason: Annotated[str | None, typer.Option(help="Why; kept in the journal.")] = None
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is applied (exit 0) or refused (exit 1).")] = False

    def arguments(self, client: "MCC", order_id: str) -> dict[str, str | None]:
        """The arguments of a control of the client."""
        return {"record_id": self.record_id or _record_of(client, order_id, self.agent), "reason": self.reason}


@reading_command(app, "list")
def list_orders(
    query: Query,
    filters: OrderFilters,
    agent: Annotated[list[str] | None, typer.Option(help="Only those of this agent; repeatable.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="chat, generate, revert, or compact, which no other list shows.")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(help="How many; if left out, what a terminal's window holds, and 50 elsewhere.", min=1, max=200),
    ] = None,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
) -> None:
    """Orders, newest first. A terminal shows the ends of their ids, which every command takes.

    Example: mcc orders list --status running
    """
    from mcc.contracts.answers import Listing
    from mcc.view.order_table import most_orders, print_orders
    from mcc.view.output import window

    limit = limit or most_orders(None if query.as_json else window(), get_terminal_size().lines)
    fields = {**filters.arguments(query.reader), "agent": agent or None, "kind": kind}
    items = list["WorkOrder"]()
    while True:
        page = query.reader.orders.list(**fields, limit=limit - len(items), cursor=cursor)
        items += page.items
        before, cursor = cursor, page.next_cursor
        if cursor is not None and cursor == before:
            say(f"Orders placed before {clock(page.searched_to)} are still being made findable: try again later.")
            break
        # A page may be short, or empty, without being the last.
        if cursor is None or len(items) == limit:
            break
    if query.printed(Listing(items=tuple(items), next_cursor=cursor)):
        return
    principals = list(dict.fromkeys(order.principal for order in items if order.principal is not None))
    names = {named.principal: named.name for named in query.reader.people.names(principals)} if principals else {}
    print_orders(items, {principal: name or principal for principal, name in names.items()})
    if cursor is not None and sys.stdout.isatty():
        say(f"Older ones: --limit 200, or --cursor {cursor}")


list_by_default(app, list_orders)


@reading_command(app)
def show(query: Query, order_id: OrderId) -> None:
    """One order as it is now, with its answer when there is one.

    Example: mcc orders show 0190c9a2-0000-7000-8000-000000000000
    """
    order = query.reader.orders.get(order_id)
    if query.printed(order):
        return
    record = _record_so_far(query.reader, order)
    print_pairs(_facts(order, record))
    if order.answer:
        print()
        print_markdown(order.answer)


@reading_command(app)
def watch(
    query: Query,
    order_id: OrderId,
    after: Annotated[int, typer.Option(help="Begin after this entry, where no tree is drawn.", min=0)] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the answer alone, or why none.")] = False,
) -> None:
    """Follow an order until it ends. Ctrl-C stops following, not the order.

    Example: mcc orders watch 0190c9a2-0000-7000-8000-000000000000
    """
    from mcc.cli.following import conclude, follow, say_detached
    from mcc.view.screens import Shown

    shown = Shown.of(as_json=query.as_json, quiet=quiet)
    try:
        follow(query.reader, order_id, shown, after)
    except KeyboardInterrupt:
        raise typer.Exit(say_detached(order_id)) from None
    raise typer.Exit(conclude(query.reader.orders.get(order_id), shown))


@reading_command(app)
def record(
    query: Query,
    order_id: Annotated[str | None, typer.Argument(help="The order, as for show; left out with --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Of all orders that have ended, a line each: --jsonl.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One line of JSON per order, its times beside it.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="With --all: only of those that ended since: 1h, 2d, ISO 8601.")
    ] = None,
) -> None:
    """The chat record: who was asked what, what it did, what it answered. Always JSON, on a terminal indented.

    Example: mcc orders record 0190c9a2-0000-7000-8000-000000000000 | jq .subagent_history
    """
    if (order_id is None) is not every or jsonl is not every or (since is not None and not every):
        fail("Name an order, or say --all --jsonl, with --since if you like.", USAGE)
    if order_id is None:
        from mcc.cli.order_request import time_in
        from mcc.cli.records import print_records

        return print_records(query.reader, time_in(since, option="--since", ago=True))
    print_json(query.reader.orders.record(order_id), indented=sys.stdout.isatty() and not query.as_json)


@service_command(app)
def cancel(
    call: ServiceCall,
    order_id: Annotated[
        str | None, typer.Argument(help="The order: its id, 4 characters or more of an end of it, or @last.")
    ] = None,
    *,
    to: Addressed,
    filters: OrderFilters,
    everything: Annotated[bool, typer.Option("--all", help="All orders that have not ended.")] = False,
) -> None:
    """Stop an order, or one of its agents with all its subagents; or without an order, all that have not ended and fit
    the options that choose orders.

    Example: mcc orders cancel --label nightly --reason "wrong branch"
    """
    asked = {name: value for name, value in filters.arguments(call.client).items() if value is not None}
    if order_id is None:
        cancel_all(call, {**asked, "agent": to.agent}, everything=everything, reason=to.reason)
        return
    if asked or everything:
        fail("Name one order, or say which: both would mean two things.", USAGE)
    receipt = call.client.orders.cancel(order_id, **to.arguments(call.client, order_id))
    _print_control(call, order_id, "cancel", receipt, wait=to.wait)


@service_command(app)
def pause(call: ServiceCall, order_id: OrderId, to: Addressed) -> None:
    """Pause an order, or one of its agents with all its subagents, after the current step.

    Example: mcc orders pause 0190c9a2-0000-7000-8000-000000000000
    """
    receipt = call.client.orders.pause(order_id, **to.arguments(call.client, order_id))
    _print_control(call, order_id, "pause", receipt, wait=to.wait)


@service_command(app)
def resume(call: ServiceCall, order_id: OrderId, to: Addressed) -> None:
    """Resume an order that is paused or waits for its provider, or one of its agents.

    Example: mcc orders resume 0190c9a2-0000-7000-8000-000000000000
    """
    receipt = call.client.orders.resume(order_id, **to.arguments(call.client, order_id))
    _print_control(call, order_id, "resume", receipt, wait=to.wait)


@service_command(app)
def steer(
    call: ServiceCall,
    order_id: OrderId,
    to: Addressed,
    message: Annotated[str | None, typer.Argument(help="What the agent reads before its next step.")] = None,
    redirect: Annotated[bool, typer.Option("--redirect", help="The message is its task from now on.")] = False,
    remove_tools: Annotated[
        list[str] | None,
        typer.Option(
            "--remove-tool", metavar="NAME", help="A tool or group that it and all below it lose; repeatable."
        ),
    ] = None,
) -> None:
    """Say something to the master of a running order, or to one agent; or take tools away.

    Example: mcc orders steer 0190c9a2-0000-7000-8000-000000000000 "Leave the tests out" --remove-tool workspace_write
    """
    receipt = call.client.orders.steer(
        order_id,
        message,
        redirect=redirect,
        remove_tools=remove_tools or (),
        **to.arguments(call.client, order_id),
    )
    _print_control(call, order_id, "steer", receipt, wait=to.wait)


@service_command(app, "set-metadata")
def set_metadata(
    call: ServiceCall,
    order_id: OrderId,
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="JSON, or else text.")] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Take this key away; repeatable.")] = None,
    *,
    to: Addressed,
) -> None:
    """Set metadata of an order under way, or of one agent of it: tools see it, models do not.

    Example: mcc orders set-metadata 0190c9a2-0000-7000-8000-000000000000 ticket=OPS-17 attempts=3
    """
    from mcc.cli.order_request import metadata_in

    metadata = metadata_in(pairs or (), unset or ())
    if metadata is None:
        fail("Name what is to be set: key=value, or --unset KEY.", USAGE)
    receipt = call.client.orders.set_metadata(order_id, metadata, **to.arguments(call.client, order_id))
    _print_control(call, order_id, "set-metadata", receipt, wait=to.wait)


def _record_of(client: "MCC", order_id: str, agent: str | None) -> str | None:
    """The id of the record of the agent with this display name; None for None. Exits where there is no such agent."""
    from mcc.contracts.record import RecordStatus
    from mcc.view.lines import by_name

    if agent is None:
        return None
    records = by_name(client.orders.record(order_id))
    if agent not in records:
        at_work = [
            name
            for name, agent_record in records.items()
            if agent_record.status in (RecordStatus.RUNNING, RecordStatus.WAITING)
        ]
        fail(f"no agent of this order is called {agent!r}; at work are: {', '.join(at_work) or 'none'}.", USAGE)
    return records[agent].id


def _print_control(call: ServiceCall, order_id: str, what: str, receipt: "Receipt", *, wait: bool) -> NoReturn:
    """Print the receipt of a control, or with `wait` its outcome once it has one, and exit."""
    if not wait:
        if not call.printed(receipt):
            print_wrapped(f"{what} requested at {clock(receipt.requested_at)} (receipt {receipt.id})")
        raise typer.Exit(DONE)
    control = _settled(call.client, order_id, receipt.id)
    if call.as_json:
        print_json(control)
    elif control.refused is None:
        print(f"{what} applied at entry {control.applied_seq}{_delivery(control)}")
    else:
        say(f"{what} refused: {control.refused}")
    raise typer.Exit(DONE if control.refused is None else FAILED)


def _delivery(control: "Control") -> str:
    """Whether a request has carried a steer's message to the agent's model."""
    if control.kind != "steer" or control.message is None:
        return ""
    if control.carried_seq is None:
        return "; the order ended before a request carried it: the session's next turn is shown it"
    return f", delivered with the request of entry {control.carried_seq}"


def _settled(client: "MCC", order_id: str, control_id: str) -> "Control":
    """The control once it is applied or refused; that happens to every control when its order ends, at the latest. A
    message also has to be carried by a request, unless its order ends before."""
    from mcc.contracts.status import FINAL

    while True:
        is_over = client.orders.get(order_id).status in FINAL
        control = next(each for each in client.orders.controls(order_id) if each.id == control_id)
        waits = control.kind == "steer" and control.message is not None and control.carried_seq is None
        if not control.open and (control.refused is not None or not waits or is_over):
            return control
        time.sleep(LOOK_SECONDS)


def _record_so_far(reader: "ArchiveReader", order: "WorkOrder") -> "ChatRecord | None":
    """The record of an order that has not ended; None for another, and where no agent has started."""
    from mcc.client import NotFound
    from mcc.contracts.status import FINAL

    try:
        return None if order.status in FINAL else reader.orders.record(order.id)
    except NotFound:
        return None


_ASKED = {"wait": "yes: it waits for the answer", "deny": "no: such calls are denied"}


def _facts(order: "WorkOrder", record: "ChatRecord | None") -> list[tuple[str, object]]:
    from mcc.contracts.order import OrderKind
    from mcc.contracts.status import OrderStatus
    from mcc.view import figures
    from mcc.view.inbox import permission_in_words
    from mcc.view.lines import change_rows, last_retry, paused_in, what_to_do
    from mcc.view.steps import at_work, attached_in
    from mcc.view.who import placed_by

    paused = paused_in(record) if record is not None and order.status is OrderStatus.RUNNING else None
    why = order.reason or paused
    status = f"{order.status} ({why})" if why else str(order.status)
    reason = "paused" if paused else order.reason if order.status is OrderStatus.WAITING else None
    waits = order.waits_for
    asks = "mcc inbox says what it waits for, and how to decide it" if waits and waits.kind == "person" else None
    origin = order.origin
    after = f" after entry {origin.after}" if origin and origin.after is not None else ""
    return [
        ("id", order.id),
        ("status", status),
        ("detail", order.detail),
        ("go on", what_to_do(order.id, reason) or asks),
        ("last retry", last_retry(record) if record is not None else None),
        *(("at work", agent) for agent in (at_work(record) if record is not None else ())),
        ("session", f"{order.session_id}, turn {order.session_seq}"),
        ("document", order.document_id),
        ("blueprint", order.blueprint),
        ("agent", None if order.kind is OrderKind.GENERATE else order.agent),
        ("model", order.model),
        ("workspace", order.workspace),
        ("attached", attached_in(record, len(order.attachments))),
        ("placed by", placed_by(order.principal, order.door, order.token)),
        ("drone", order.drone),
        ("attempt", order.attempt),
        ("position", order.queue_position),
        ("blocked by", order.blocked_by),
        ("made from", f"{origin.kind} of {origin.order_id}{after}" if origin else None),
        ("rolled back", "yes: not in its session's context" if order.left_out else None),
        ("created", clock(order.created_at)),
        ("started", clock(order.started_at) or None),
        ("finished", clock(order.finished_at) or None),
        ("spent", figures.spent(order.usage)),
        ("metadata", json.dumps(order.metadata, ensure_ascii=False) if order.metadata else None),
        ("mode", order.mode if order.mode != "develop" else None),
        *(("permission", line) for line in permission_in_words(order.permission)),
        ("asks a person", _ASKED[order.on_ask or "deny"]),
        ("hosts", None if order.egress is None else ", ".join(order.egress) or "none"),
        ("takes", None if order.controls is None else ", ".join(order.controls) or "no control but its cancel"),
        *change_rows(order.changes, order.id),
        ("delivers", order.deliver.in_words if order.deliver else None),
        ("delivered", order.delivery.in_words or None if order.delivery else None),
        *(("said before", words.in_words) for words in order.words),
        ("prompt", order.prompt or None),
    ]
