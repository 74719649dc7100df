"""The page in a real browser: opening giants, many live agents, many tabs, and how soon people and agents hear of each
other.

    python -m benchmarks console [--only opening,agents,tabs,asking,viewers]

Wall-clock times in a browser depend on all else that the machine does: each is printed beside another of the same run.
"""

import argparse
from collections.abc import Callable, Sequence

from benchmarks.console.asking import asking
from benchmarks.console.live_agents import live_agents
from benchmarks.console.opening import opening
from benchmarks.console.tabs import tabs
from benchmarks.growth.many_viewers import by_viewers
from benchmarks.summary import Promise


def main() -> Sequence[Promise]:
    parser = argparse.ArgumentParser(prog="benchmarks console", description=__doc__)
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--only", type=lambda text: text.split(","))
    options = parser.parse_args()
    parts: dict[str, Callable[[], Sequence[Promise]]] = {
        "opening": opening,
        "agents": live_agents,
        "tabs": tabs,
        "asking": asking,
        "viewers": lambda: by_viewers(together=True),
    }
    return [promise for name in options.only or parts for promise in parts[name]()]
