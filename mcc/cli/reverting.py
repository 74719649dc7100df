"""`mcc orders revert`: what an order changed in its workspace is taken back."""

from typing import Annotated

import typer

from mcc.cli.orders import OrderId
from mcc.cli.server import Call


def revert(
    call: Call,
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
    from mcc.cli.following import Shown, conclude, detached, follow

    order = call.client.orders.revert(order_id, to=to, overwrite=overwrite)
    if detach:
        if not call.printed(order):
            print(order.id)
        return
    shown = Shown.of(as_json=call.as_json, quiet=True)
    try:
        follow(call.client, order.id, shown)
    except KeyboardInterrupt:
        raise typer.Exit(detached(order.id)) from None
    raise typer.Exit(conclude(call.client.orders.get(order.id), shown))
