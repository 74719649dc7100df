"""A run shown on this terminal: as a live tree, as plain lines, or as its journal in JSON lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from drone.agent.journal import DeltaKind
from drone.agent.memory import MemoryJournal
from mcc.contracts.entry import Entry, Origin
from mcc.contracts.order import Outcome
from mcc.contracts.shape import now, to_json
from mcc.view.clean import clean, clean_json


class Watcher(Protocol):
    """What is called with each entry and each piece of text as they come, and with the outcome at the end."""

    def entry(self, entry: Entry) -> None: ...

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None: ...

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None: ...


@contextmanager
def watcher(*, as_json: bool) -> Iterator[Watcher]:
    """JSON lines if asked for, else a live tree where stdout is a terminal, else plain lines."""
    if as_json:
        yield JsonLines()
    elif sys.stdout.isatty():
        with LiveTree() as live:
            yield live
    else:
        yield PlainLines()


class JsonLines:
    def entry(self, entry: Entry) -> None:
        sys.stdout.buffer.write(clean_json(to_json(entry)) + b"\n")
        sys.stdout.buffer.flush()

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        """Nothing: text on its way is not part of the journal."""

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None:
        """Nothing: the journal's last line tells the outcome."""


class PlainLines:
    def __init__(self) -> None:
        from mcc.view.lines import Lines

        self._lines = Lines()

    def entry(self, entry: Entry) -> None:
        if line := self._lines.line_of(entry):
            print(line, flush=True)

    def delta(self, origin: Origin, kind: DeltaKind, text: str) -> None:
        """Nothing: a line shows a whole entry."""

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None:
        from mcc.view import figures

        if outcome.answer:
            print(f"\n{clean(outcome.answer)}")
        if outcome.detail:
            print(f"\n{clean(outcome.detail)}", file=sys.stderr)
        print(f"\n{outcome.status} · {figures.spent(journal.fold.usage)}", flush=True)


class LiveTree(PlainLines):
    """Redraws itself several times a second while the turn runs; the whole tree stays on the screen after it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        from mcc.view.story import Story
        from mcc.view.tree import FRAMES_PER_SECOND, tree

        self._story = Story()
        self._live = Live(
            console=Console(highlight=False),
            refresh_per_second=FRAMES_PER_SECOND,
            get_renderable=lambda: tree(self._story, now()),
        )

    def __enter__(self) -> "LiveTree":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def entry(self, entry: Entry) -> None:
        self._story.add(entry)

    def ended(self, outcome: Outcome, journal: MemoryJournal) -> None:
        self._live.stop()
        super().ended(outcome, journal)
