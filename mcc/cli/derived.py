"""The commands `mcc orders retry`, `fork`, `deliver`, `rollback`, `revert`: make orders of earlier ones, undo those."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import FAILED, USAGE, fail, print_wrapped, say
from mcc.cli.order_filters import OrderFilters, of_all
from mcc.cli.orders import OrderId
from mcc.cli.server import ServiceCall
from mcc.options import DeliveryOptions

if TYPE_CHECKING:
    from mcc.contracts.order import WorkOrder


def retry(
    call: ServiceCall,
    order_id: Annotated[
        str | None, typer.Argument(help="The order: its id, 4 characters or more of an end of it, or @last.")
    ] = None,
    *,
    filters: OrderFilters,
    agent: Annotated[list[str] | None, typer.Option(help="Only those of this agent; repeatable.")] = None,
) -> None:
    """Place an order that has ended once more, as the next turn of its session; or without an order, all that failed
    and fit the options that choose orders, or with --status those that ended so.

    Example: mcc orders retry --fingerprint 0123456789ab
    """
    from mcc.contracts.status import FINAL, OrderStatus

    asked = {**filters.arguments(call.client), "agent": agent or None}
    if order_id is not None:
        if any(value is not None for value in asked.values()):
            fail("Name one order, or say which: both would mean two things.", USAGE)
        return _print_placed(call, call.client.orders.retry(order_id))
    statuses = asked["status"] or [OrderStatus.FAILED.value]
    if unfinished := [status for status in statuses if status not in FINAL]:
        fail(f"--status: orders that are {unfinished[0]} cannot be placed once more.", USAGE)
    items = list(of_all(call, "retry", asked, within={"status": statuses}))
    if not call.printed({"items": items}):
        for item in items:
            print(item.order_id) if item.order_id else say(f"{item.id}: {item.problem}")
        say(f"{sum(item.order_id is not None for item in items):,} of {len(items):,} orders placed once more")
    if any(item.order_id is None for item in items):
        raise typer.Exit(FAILED)


def fork(
    call: ServiceCall,
    order_id: OrderId,
    prompt: Annotated[
        str | None, typer.Argument(help="What its master hears next; it just goes on if left out.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(help="The last entry that it takes over, from 1 on: the `seq` of a step, say; all if left out."),
    ] = None,
) -> None:
    """Begin a new order, in a session of its own, with what another one had done by some entry.

    Example: mcc orders fork 0190c9a2-0000-7000-8000-000000000000 --after 17 "Look at the tests instead"
    """
    last = after if after is not None else call.client.orders.get(order_id).last_seq
    _print_placed(call, call.client.orders.fork(order_id, after=last, prompt=prompt))


def deliver(
    call: ServiceCall,
    order_id: OrderId,
    options: DeliveryOptions,
    detach: Annotated[bool, typer.Option("--detach", help="Print the id of the new order, and do not wait.")] = False,
) -> None:
    """Push what an order did on a git address, by an order of its own; without options as the order itself wished.

    Example: mcc orders deliver 0190c9a2-0000-7000-8000-000000000000 --pull-request
    """
    order = call.client.orders.deliver(order_id, attended=not detach, **options.wish)
    _follow(call, order, detach=detach)


def rollback(call: ServiceCall, order_id: OrderId) -> None:
    """Leave a turn that has ended out of the context of its session's later turns; it stays in history.

    Example: mcc orders rollback 0190c9a2-0000-7000-8000-000000000000
    """
    order = call.client.orders.roll_back(order_id)
    if not call.printed(order):
        print_wrapped(f"turn {order.session_seq} of session {order.session_id} is left out of its context")


def revert(
    call: ServiceCall,
    order_id: OrderId,
    to: Annotated[
        int | None, typer.Option(help="The entry whose state comes back; that before the first write if left out.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also files that somebody else changed since; they are kept first.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Print the id of the new order, and do not wait.")] = False,
) -> None:
    """Take back what an order changed in its workspace, by an order of its own, which can be reverted as well.

    Example: mcc orders revert 0190c9a2-0000-7000-8000-000000000000
    """
    order = call.client.orders.revert(order_id, to=to, overwrite=overwrite)
    _follow(call, order, detach=detach)


def _follow(call: ServiceCall, order: "WorkOrder", *, detach: bool) -> None:
    """Follow the order to its end, unless it is to be left alone."""
    from mcc.cli.following import conclude, follow, say_detached
    from mcc.view.screens import Shown

    if detach:
        if not call.printed(order):
            print(order.id)
        return
    shown = Shown.of(as_json=call.as_json, quiet=True)
    try:
        follow(call.client, order.id, shown)
    except KeyboardInterrupt:
        raise typer.Exit(say_detached(order.id)) from None
    raise typer.Exit(conclude(call.client.orders.get(order.id), shown))


def _print_placed(call: ServiceCall, order: "WorkOrder") -> None:
    """Say where the new order was placed; its id alone goes to stdout, so that another command can take it."""
    if call.printed(order):
        return
    say(f"placed as turn {order.session_seq} of session {order.session_id}")
    if order.origin is not None and order.origin.note:
        say(order.origin.note)
    print(order.id)
