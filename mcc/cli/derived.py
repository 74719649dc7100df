"""The commands `mcc orders retry`, `fork`, `rollback` and `revert`: make new orders of earlier ones, or undo those."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import print_wrapped, say
from mcc.cli.orders import OrderId
from mcc.cli.server import ServiceCall

if TYPE_CHECKING:
    from mcc.contracts.order import WorkOrder


def retry(call: ServiceCall, order_id: OrderId) -> None:
    """Place an order that has ended once more, as the next turn of its session.

    Example: mcc orders retry 0190c9a2-0000-7000-8000-000000000000
    """
    _print_placed(call, call.client.orders.retry(order_id))


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
    from mcc.cli.following import conclude, follow, say_detached
    from mcc.view.screens import Shown

    order = call.client.orders.revert(order_id, to=to, overwrite=overwrite)
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
