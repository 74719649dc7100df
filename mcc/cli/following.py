"""Follows an order on this terminal: progress on stderr and the answer on stdout, or all as JSON lines."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from mcc.cli.command import DONE, FAILED, INTERRUPTED, print_json, print_markdown, say
from mcc.view.output import can_draw, show_wrapped

PROGRESS_SECONDS = 10.0
"""How often a generation's progress is printed where no tree is drawn."""

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader
    from mcc.cli.inbox import Prompt
    from mcc.client import MCC
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.wire import OrderEvent
    from mcc.view.live import Aside
    from mcc.view.story import Story


class Shown(Enum):
    """What is shown of an order: progress and answer, only the answer, every entry and the order as JSON, or only the
    order as JSON."""

    ALL = "all"
    ANSWER = "answer"
    JSON = "json"
    JSON_ORDER = "json order"

    @classmethod
    def of(cls, *, as_json: bool, quiet: bool = False) -> "Shown":
        if as_json:
            return cls.JSON_ORDER if quiet else cls.JSON
        return cls.ANSWER if quiet else cls.ALL

    @property
    def as_json(self) -> bool:
        return self in (Shown.JSON, Shown.JSON_ORDER)


class Screen(Protocol):
    """Shows the items of a watched order. `needs_all`: it needs every entry from the first, and streamed text."""

    needs_all: bool

    def show(self, item: "OrderEvent") -> None: ...

    def aside(self) -> AbstractContextManager[None]:
        """Within this context, nothing is drawn on the terminal."""


class _Undrawn:
    """A screen without a picture, which other output needs not avoid."""

    needs_all = False

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


class _Nothing(_Undrawn):
    def show(self, item: "OrderEvent") -> None:
        """Shows nothing."""


class _JsonLines(_Undrawn):
    def show(self, item: "OrderEvent") -> None:
        print_json(item, type="entry")


class _PlainLines(_Undrawn):
    def __init__(self) -> None:
        from mcc.view.lines import Lines

        self._lines = Lines()

    def show(self, item: "OrderEvent") -> None:
        from mcc.contracts.entry import Entry

        if isinstance(item, Entry) and (line := self._lines.line_of(item)):
            show_wrapped(line)


class _PlainGeneration(_PlainLines):
    """Plain lines of a generation: without tool calls and changes of the document, but with its progress at times."""

    needs_all = True

    def __init__(self) -> None:
        super().__init__()
        self._reported_at = time.monotonic()

    def show(self, item: "OrderEvent") -> None:
        from mcc.contracts.entry import Entry
        from mcc.contracts.journal import DocumentChanged, ToolStarted
        from mcc.contracts.wire import GenerationProgress

        if not (isinstance(item, Entry) and isinstance(item.data, DocumentChanged | ToolStarted)):
            super().show(item)
        if isinstance(item, GenerationProgress) and time.monotonic() >= self._reported_at + PROGRESS_SECONDS:
            from mcc.view.generation import in_words

            self._reported_at = time.monotonic()
            say(f"generation: {in_words(item)}")


class _Tree:
    needs_all = True

    def __init__(self, story: "Story", aside: "Aside") -> None:
        self.story = story
        self.aside = aside

    def show(self, item: "OrderEvent") -> None:
        from mcc.contracts.entry import Entry
        from mcc.contracts.wire import Delta
        from mcc.view.generation import GenerationStory

        if isinstance(item, Entry):
            self.story.add(item)
        elif isinstance(item, Delta):
            self.story.add_delta(item.record_id, item.kind, item.text, item.offset, item.name)
        elif isinstance(self.story, GenerationStory):
            self.story.progress = item


@contextmanager
def screen(shown: Shown, *, generates: bool = False) -> Iterator[Screen]:
    """The screen for `shown`: JSON lines on stdout; on stderr a live tree where that is a terminal, else plain lines;
    or nothing.

    `generates`: the order generates a document; the tree shows its nodes.
    """
    if shown is not Shown.ALL:
        yield _JsonLines() if shown is Shown.JSON else _Nothing()
    elif can_draw():
        from mcc.view.generation import GenerationStory
        from mcc.view.live import live_tree
        from mcc.view.story import Story

        story = GenerationStory() if generates else Story()
        with live_tree(story) as aside:
            yield _Tree(story, aside)
    else:
        yield _PlainGeneration() if generates else _PlainLines()


def follow(
    reader: "ArchiveReader", order_id: str, shown: Shown, after: int = 0, prompt: "Prompt | None" = None
) -> None:
    """Show every entry after number `after` until the order ends; a tree always shows all. `prompt` asks the person at
    the terminal to decide approvals and questions.

    Raises `ClientError`. Lets KeyboardInterrupt pass; the last picture then stays.
    """
    with screen(shown, generates=shown is Shown.ALL and _generates(reader, order_id)) as onto:
        for item in reader.orders.watch(order_id, 0 if onto.needs_all else after, deltas=onto.needs_all):
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
    """Print how `order` ended: its answer to stdout, why it failed to stderr. Answers the exit code."""
    from mcc.contracts.status import OrderStatus
    from mcc.view import figures

    succeeded = order.status is OrderStatus.SUCCEEDED
    if shown.as_json:
        print_json(order, type="order")
        return DONE if succeeded else FAILED
    if order.answer:
        if shown is Shown.ALL and sys.stdout.isatty():
            print()
        print_markdown(order.answer)
    if not succeeded:
        say(f"mcc: order {order.id} {how_it_ended(order)}")
    elif shown is Shown.ALL and sys.stderr.isatty():
        say(f"order {order.id} · {figures.spent(order.usage)}")
    return DONE if succeeded else FAILED


def how_it_ended(order: "WorkOrder") -> str:
    reason = f" ({order.reason})" if order.reason else ""
    return f"{order.status}{reason}: {order.detail or 'no reason was given'}"


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
        for _ in client.orders.watch(order_id):
            pass
        say(f"order {order_id} {how_it_ended(client.orders.get(order_id))}")
    except KeyboardInterrupt:
        say("Stopped at once: what it did last may not be in its record.")
    return INTERRUPTED
