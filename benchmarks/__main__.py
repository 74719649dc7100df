"""Every figure of `make bench`, one after the other. `python -m benchmarks NAME …` prints some."""

import logging
import sys
from importlib import import_module

import structlog

FIGURES = {
    "runtime": "CPU per model call; 50 and 200 turns at once",
    "delegation": "a subagent more; work not carried; 200 turns with gates and budgets; long conversations",
    "generation": "1,000 nodes beside the ideal; 100 kills; one input of 10,000 nodes changed; a node judged",
    "journal": "journal entries per second on SQLite and PostgreSQL",
    "channels": "what committed entries on Redis's channels cost an order of two calls",
    "storage": "bytes per order: new, packed, pruned",
    "start": "POST answered to agent.started at a viewer, beside Celery's own enqueue to body",
    "memory": "of a drone over 10,000 short orders, and under large transcripts; of a service with many readers",
    "checkpoints": "10,000 files kept before a call, and brought back",
    "sandbox": "a program of the sandbox: by profile, and by what its workspace holds",
    "redaction": "secrets kept out: per result of 190 KB, per piece of a stream, per order",
    "imports": "import drone, mcc --help",
}


def main() -> int:
    names = sys.argv[1:] or list(FIGURES)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        known = "\n".join(f"  {name}: {what}" for name, what in FIGURES.items())
        print(f"There is no figure {', '.join(unknown)}. There are:\n{known}", file=sys.stderr)
        return 2
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    for name in names:
        print(f"\n== {name}: {FIGURES[name]}", flush=True)
        import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
