"""The screens on which both command lines show an order: JSON lines on stdout, or on stderr a live tree or plain lines;
and how it ended."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from mcc.view.output import can_draw, print_json, print_markdown, say, show_wrapped

PROGRESS_SECONDS = 10.0
"""How often a generation's progress is printed where no tree is drawn."""

MISSED_SECONDS = 2.0
"""From when on the tree says that nothing is heard of its order: a stream that is taken up again at once is no news."""

if TYPE_CHECKING:
    from datetime import datetime

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
    """Shows the items of a watched order, as they come."""

    needs_all: bool
    """Whether it needs every entry from the first."""

    needs_deltas: bool
    """Whether it needs what is never stored: streamed text, progress, what the order waits for."""

    def show(self, item: "OrderEvent") -> None: ...

    def away(self, problem: Exception | None) -> None:
        """Tell why nothing more is heard of the order for now; None: it is heard of again."""

    def aside(self) -> AbstractContextManager[None]:
        """Within this context, nothing is drawn on the terminal."""


class _Undrawn:
    """A screen without a picture, which other output needs not avoid."""

    needs_all = needs_deltas = False

    def away(self, problem: Exception | None) -> None:
        """Shows nothing."""

    def aside(self) -> AbstractContextManager[None]:
        return nullcontext()


class _Nothing(_Undrawn):
    def show(self, item: "OrderEvent") -> None:
        """Shows nothing."""


class _JsonLines(_Undrawn):
    def show(self, item: "OrderEvent") -> None:
        print_json(item, type="entry")


class _PlainLines(_Undrawn):
    needs_deltas = True

    def __init__(self) -> None:
        from mcc.view.lines import Lines

        self._lines = Lines()
        self._is_away = False

    def away(self, problem: Exception | None) -> None:
        if self._is_away != (problem is not None):
            say(f"not connected: {problem}" if problem is not None else "connected again")
        self._is_away = problem is not None

    def show(self, item: "OrderEvent") -> None:
        from mcc.contracts.entry import Entry
        from mcc.contracts.wire import OrderWaits

        line = None
        if isinstance(item, Entry):
            line = self._lines.line_of(item)
        elif isinstance(item, OrderWaits):
            line = self._lines.waits_line(item.waits_for)
        if line:
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
    needs_all = needs_deltas = True

    def __init__(self, story: "Story", aside: "Aside") -> None:
        self.story = story
        self.aside = aside
        self._missed: datetime | None = None

    def away(self, problem: Exception | None) -> None:
        from mcc.contracts.shape import now

        self._missed = None if problem is None else self._missed or now()
        is_long = self._missed is not None and (now() - self._missed).total_seconds() >= MISSED_SECONDS
        self.story.away = (self._missed, str(problem)) if self._missed is not None and is_long else None

    def show(self, item: "OrderEvent") -> None:
        from mcc.contracts.entry import Entry
        from mcc.contracts.wire import Delta, OrderWaits
        from mcc.view.generation import GenerationStory

        if isinstance(item, Entry):
            self.story.add(item)
        elif isinstance(item, Delta):
            self.story.add_delta(item.record_id, item.kind, item.text, item.offset, item.name)
        elif isinstance(item, OrderWaits):
            self.story.waits_for = item.waits_for
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


def conclude(order: "WorkOrder", shown: Shown, program: str) -> bool:
    """Print how `order` ended: its answer to stdout; to stderr why it failed, in the name of `program`, or what it
    spent. Answers whether it succeeded."""
    from mcc.contracts.status import OrderStatus
    from mcc.view import figures

    succeeded = order.status is OrderStatus.SUCCEEDED
    if shown.as_json:
        print_json(order, type="order")
        return succeeded
    if order.answer:
        if shown is Shown.ALL and sys.stdout.isatty():
            print()
        print_markdown(order.answer)
    if not succeeded:
        say(f"{program}: order {order.id} {how_it_ended(order)}")
    elif shown is Shown.ALL and sys.stderr.isatty():
        say(f"order {order.id} · {figures.spent(order.usage)}")
    return succeeded


def how_it_ended(order: "WorkOrder") -> str:
    reason = f" ({order.reason})" if order.reason else ""
    return f"{order.status}{reason}: {order.detail or 'no reason was given'}"
