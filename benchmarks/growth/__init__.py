"""Whether an operation costs the same after thousands of repetitions as at first.

    python -m benchmarks growth [--only conversation,journal,viewers,drone] [--orders 10000]

A model call by the length of the agent's history, an entry by the length of its order's journal, a viewer by the number
of viewers, and a drone's memory by the number of orders it has done. Takes about eight minutes on two idle cores.
"""

import argparse
from collections.abc import Callable, Sequence

from benchmarks.growth.conversation import by_history
from benchmarks.growth.drone_memory import ORDERS, by_orders
from benchmarks.growth.long_journal import by_journal
from benchmarks.growth.many_viewers import by_viewers
from benchmarks.summary import Promise


def main() -> Sequence[Promise]:
    parser = argparse.ArgumentParser(prog="benchmarks growth", description=__doc__)
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--orders", type=int, default=ORDERS)
    parser.add_argument("--only", type=lambda text: text.split(","))
    options = parser.parse_args()
    parts: dict[str, Callable[[], Sequence[Promise]]] = {
        "conversation": by_history,
        "journal": by_journal,
        "viewers": by_viewers,
        "drone": lambda: by_orders(options.orders),
    }
    return [promise for name in options.only or parts for promise in parts[name]()]
