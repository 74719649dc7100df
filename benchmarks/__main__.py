"""Every figure of `make bench`, one after the other, and at the end what is promised beside what was measured.

`python -m benchmarks NAME …` prints some. In a run of all of them, one that takes longer than `LONGEST_SECONDS` is cut
off. What begins with a dash, and all that follows it, is for the figure itself: `python -m benchmarks backlog --help`.
"""

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from types import FrameType

import structlog

from benchmarks.summary import Promise, show

LONGEST_SECONDS = 900

FIGURES = {
    "runtime": "CPU per model call, in memory and with the store, beside a bare httpx loop",
    "delegation": "a subagent more; work not carried; 200 turns with gates and budgets",
    "generation": "1,000 nodes beside the ideal; 100 kills; one input of 10,000 nodes changed; a node judged",
    "journal": "journal entries per second on SQLite and PostgreSQL",
    "channels": "what committed entries on Redis's channels cost an order of two calls",
    "storage": "bytes per order: new, packed, pruned",
    "orders": "CPU of an order of two calls, orders per second, with 1, 2 and 4 drones",
    "backlog": "each operation with 1,000, 10,000 and 100,000 orders in the database, and the indexes that it uses",
    "submit": "orders accepted and claimed per second, on SQLite and PostgreSQL, beside Celery's own delay()",
    "turns": "many turns at once in one process, beside a bare httpx loop and two other frameworks",
    "latency": "POST to agent.started at a viewer, cancel, an entry to 500 viewers, a family's start and memory",
    "memory": "of a drone over 10,000 short orders, and under large transcripts; of a service with many readers",
    "growth": "a call by its history, an entry by its journal, viewers by their number, a drone by orders that it did",
    "checkpoints": "10,000 files kept before a call, and brought back",
    "sandbox": "a program of the sandbox: by profile, and by what its workspace holds",
    "redaction": "secrets kept out: per result of 190 KB, per piece of a stream, per order",
    "imports": "import drone, mcc --help",
}


class TimeIsUp(KeyboardInterrupt):
    """Passes through event loops, as an interrupt does."""


def _cut_off(_: int, __: FrameType | None) -> None:
    raise TimeIsUp


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raises `TimeIsUp` in the main thread after so many seconds."""
    before = signal.signal(signal.SIGALRM, _cut_off)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def figure(name: str, seconds: int) -> list[Promise]:
    """Prints it; what of it is promised. `seconds` 0: as long as it takes."""
    print(f"\n== {name}: {FIGURES[name]}", flush=True)
    try:
        with at_most(seconds):
            return import_module(f"benchmarks.{name}").main() or []
    except TimeIsUp:
        print(f"  Cut off after {seconds} s: python -m benchmarks.{name} takes as long as it takes.")
        return []


def main() -> int:
    asked = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    names, seconds = asked or list(FIGURES), 0 if asked else LONGEST_SECONDS
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        known = "\n".join(f"  {name}: {what}" for name, what in FIGURES.items())
        print(f"There is no figure {', '.join(unknown)}. There are:\n{known}", file=sys.stderr)
        return 2
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if promises := [promise for name in names for promise in figure(name, seconds)]:
        show(promises)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
