"""Follows an order of the service on this terminal, and says how to return to it."""

from typing import TYPE_CHECKING

from mcc.cli.command import DONE, FAILED, INTERRUPTED, say
from mcc.view import screens
from mcc.view.screens import Shown, how_it_ended, screen

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader
    from mcc.cli.inbox import Prompt
    from mcc.client import MCC
    from mcc.contracts.order import WorkOrder


def follow(
    reader: "ArchiveReader", order_id: str, shown: Shown, after: int = 0, prompt: "Prompt | None" = None
) -> None:
    """Show every entry after number `after` until the order ends; a tree always shows all. `prompt` asks the person at
    the terminal to decide approvals and questions.

    Raises `ClientError`. Lets KeyboardInterrupt pass; the last picture then stays.
    """
    with screen(shown, generates=shown is Shown.ALL and _generates(reader, order_id)) as onto:
        begin = 0 if onto.needs_all else after
        for item in reader.orders.watch(order_id, begin, deltas=onto.needs_deltas, away=onto.away):
            onto.show(item)
            if prompt is not None:
                prompt.see(item, onto.aside)


def prompt_for(client: "MCC", order_id: str, shown: Shown) -> "Prompt | None":
    """A prompt for the person at this terminal; None where there is no terminal, or progress is not shown."""
    from mcc.cli.inbox import Prompt
    from mcc.view.prompting import possible

    return Prompt(client, order_id) if shown is Shown.ALL and possible() else None


def _generates(reader: "ArchiveReader", order_id: str) -> bool:
    from mcc.contracts.order import OrderKind

    return reader.orders.get(order_id).kind is OrderKind.GENERATE


def conclude(order: "WorkOrder", shown: Shown) -> int:
    """Print how `order` ended: its answer to stdout, why it failed and what it changed to stderr. Answers the exit
    code."""
    from mcc.view.lines import change_rows
    from mcc.view.output import short_id

    code = DONE if screens.conclude(order, shown, "mcc") else FAILED
    if shown is Shown.ALL:
        for name, text in change_rows(order.changes, short_id(order.id)):
            say(f"{name:<9}  {text}")
        if order.delivery is not None:
            say(f"delivered  {order.delivery.in_words}")
    return code


def say_detached(order_id: str) -> int:
    """Tell the person how to return to an order that goes on. Answers the exit code."""
    from mcc.view.output import short_id

    say("\nNo longer followed; the order goes on.")
    say(f"  watch it again   mcc orders watch {short_id(order_id)}")
    say(f"  stop it          mcc orders cancel {short_id(order_id)}")
    return INTERRUPTED


def withdraw(client: "MCC", order_id: str) -> int:
    """Cancel an order whose service is about to stop, and wait for its end. Answers the exit code."""
    say("\nNo service stays to go on with this order: cancelling it, then stopping.")
    try:
        client.orders.cancel(order_id, reason="stopped from the keyboard")
        # The end is waited for, because the service that would write it stops with this process.
        for _ in client.orders.watch(order_id):
            pass
        say(f"order {order_id} {how_it_ended(client.orders.get(order_id))}")
    except KeyboardInterrupt:
        say("Stopped at once: what it did last may not be in its record.")
    return INTERRUPTED
