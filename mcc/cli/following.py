"""An order followed on this terminal: a live tree, plain lines, or JSON lines; and how it ended."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcc.cli.command import DONE, FAILED, print_json, print_markdown, say

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.entry import Entry
    from mcc.contracts.order import WorkOrder
    from mcc.view.story import Story


@contextmanager
def screen(as_json: bool) -> "Iterator[Callable[[Entry], None]]":
    """What shows an entry: as a JSON line, in a live tree on a terminal, else as a plain line."""
    if as_json:
        yield print_json
    elif _is_drawn(as_json):
        with _live_tree() as story:
            yield story.add
    else:
        from mcc.view.lines import Lines

        lines = Lines()

        def show(entry: "Entry") -> None:
            if line := lines.line_of(entry):
                print(line, flush=True)

        yield show


def _is_drawn(as_json: bool) -> bool:
    return not as_json and sys.stdout.isatty()


@contextmanager
def _live_tree() -> "Iterator[Story]":
    """A tree of the story, redrawn several times a second; the last picture stays."""
    from rich.console import Console
    from rich.live import Live

    from mcc.contracts.shape import now
    from mcc.view.story import Story
    from mcc.view.tree import FRAMES_PER_SECOND, tree

    story = Story()
    console = Console(highlight=False)
    with Live(
        console=console,
        refresh_per_second=FRAMES_PER_SECOND,
        get_renderable=lambda: tree(story, now()),
        transient=True,
    ):
        yield story
    console.print(tree(story, now()))


def follow(client: "MCC", order_id: str, as_json: bool, after: int = 0) -> None:
    """Show every entry after `after` until the order ends; a tree is drawn of all of them.

    Raises `ClientError`; KeyboardInterrupt passes.
    """
    with screen(as_json) as show:
        for entry in client.orders.watch(order_id, 0 if _is_drawn(as_json) else after):
            show(entry)


def conclude(order: "WorkOrder", as_json: bool) -> int:
    """Print how `order` ended; answers the exit code."""
    from mcc.contracts.status import OrderStatus
    from mcc.view import figures

    succeeded = order.status is OrderStatus.SUCCEEDED
    if as_json:
        print_json(order)
        return DONE if succeeded else FAILED
    if order.answer:
        print()
        print_markdown(order.answer)
    if not succeeded:
        reason = f" ({order.reason})" if order.reason else ""
        say(f"order {order.id} {order.status}{reason}: {order.detail or 'no reason was given'}")
    elif sys.stdout.isatty():
        say(f"order {order.id} · {figures.spent(order.usage)}")
    return DONE if succeeded else FAILED


def detached(order_id: str) -> None:
    say(f"\nThe order goes on. Watch it again: mcc orders watch {order_id}   Stop it: mcc orders cancel {order_id}")


def withdraw(client: "MCC", order_id: str) -> int:
    """Cancel an order whose service is about to stop, and wait for its end; answers the exit code."""
    say("\nNo service stays to go on with this order: cancelling it, then stopping.")
    client.orders.cancel(order_id, reason="stopped from the keyboard")
    for _ in client.orders.watch(order_id):
        pass
    return FAILED
