"""The command behind `make bench`: runs all benchmarks, then prints each promised figure beside the measured one.

`python -m benchmarks NAME …` runs only the named ones. When all run, a benchmark is stopped after `LONGEST_SECONDS`.
The first argument with a leading dash, and all after it, go to the benchmark: `python -m benchmarks backlog --help`.
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

BENCHMARKS = {
    "runtime": "CPU per model call, in memory and with the store, beside a bare httpx loop",
    "delegation": "one more subagent; what a parent need not read; 200 turns with gates and budgets",
    "generation": "1,000 nodes beside the ideal time; 100 kills; one changed input of 10,000 nodes; validating a node",
    "journal": "journal entries per second on SQLite and PostgreSQL",
    "pooler": "reads and commits through PgBouncer in transaction mode, beside a direct connection",
    "channels": "CPU that publishing committed entries on Redis channels adds to an order of two calls",
    "storage": "bytes per order: new, packed and pruned",
    "orders": "CPU of an order of two calls, and orders per second, with 1, 2 and 4 drones",
    "one_repository": "orders that read in one workspace beside one each, and with some that write among them",
    "backlog": "each operation with 1,000, 10,000 and 100,000 orders in the database, and the indexes it uses",
    "filters": "a page of 100,000 orders by one filter or several, words too, beside a page without",
    "submit": "orders accepted and claimed per second, on SQLite and PostgreSQL, beside Celery's own delay()",
    "turns": "many concurrent turns in one process, beside a bare httpx loop and two other frameworks",
    "latency": "POST to agent.started at a viewer, cancel, an entry to 500 viewers, start-up and memory of a family",
    "memory": "memory of a drone over 10,000 short orders and with large transcripts, of a service with many readers",
    "growth": "a call by history length, an entry by journal length, viewers by number, a drone by orders done",
    "console": "the page in a browser: giant orders, live agents, tabs, the inbox; a viewer of the one stream",
    "conversations": "how much of a session's requests repeats; turn 1,000 beside turn 10",
    "checkpoints": "10,000 files saved before a call, and restored",
    "sandbox": "starting a program in the sandbox: by profile, and by the size of its workspace",
    "webhooks": "how long a webhook takes to arrive, while 1,000 other receivers say nothing",
    "redaction": "redacting secrets: per result of 190 KB, per piece of a stream, per order",
    "imports": "CPU of import drone and of mcc --help",
}


class TimeIsUp(KeyboardInterrupt):
    """The time limit of a benchmark. A KeyboardInterrupt, because event loops let that through."""


def _interrupt(_: int, __: FrameType | None) -> None:
    raise TimeIsUp


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raise `TimeIsUp` in the main thread after `seconds`; 0 sets no limit."""
    before = signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(name: str, seconds: int) -> list[Promise]:
    """Run one benchmark, which prints its tables; answers its promised figures. `seconds` 0: no time limit."""
    print(f"\n== {name}: {BENCHMARKS[name]}", flush=True)
    try:
        with at_most(seconds):
            return import_module(f"benchmarks.{name}").main() or []
    except TimeIsUp:
        print(f"  Stopped after {seconds} s. Without a time limit: python -m benchmarks {name}")
        return []


def main() -> int:
    named = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    names, seconds = named or list(BENCHMARKS), 0 if named else LONGEST_SECONDS
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = "\n".join(f"  {name}: {what}" for name, what in BENCHMARKS.items())
        print(f"Unknown benchmark: {', '.join(unknown)}. There are:\n{known}", file=sys.stderr)
        return 2
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    if promises := [promise for name in names for promise in run(name, seconds)]:
        show(promises)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
