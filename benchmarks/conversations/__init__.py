"""Whether a session is as good at turn 1,000 as at turn 10: how much of each request repeats the one before it, what a
turn costs, whether a request waits for a summary, and what is found again that is not shown any more.

    python -m benchmarks conversations [--turns 1000] [--database sqlite,postgresql] [--only repeated,growing,…]

A real drone's parts with the shipped master agent in a workspace, and scripted models.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.conversations import growing, remembered, repeated, waiting
from benchmarks.conversations.talk import Place, place_on
from benchmarks.summary import Promise

TURNS = 1_000
DATABASES = ["sqlite", "postgresql"]

FIGURES: dict[str, Callable[[str, Place, int], Awaitable[Sequence[Promise]]]] = {
    "repeated": repeated.measured,
    "growing": growing.measured,
    "waiting": waiting.measured,
    "remembered": remembered.measured,
}


async def _figure(name: str, database: str, turns: int) -> Sequence[Promise]:
    with place_on(database) as place:
        return await FIGURES[name](database, place, turns)


def main() -> Sequence[Promise]:
    parser = argparse.ArgumentParser(
        prog="benchmarks conversations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("figure", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--turns", type=int, default=TURNS, help="of each session; waiting has its own")
    parser.add_argument("--database", type=lambda text: text.split(","), default=DATABASES)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[*FIGURES], help=", ".join(FIGURES))
    options = parser.parse_args()
    if unknown := {*options.only} - FIGURES.keys():
        parser.error(f"there is no figure {', '.join(sorted(unknown))}; there are: {', '.join(FIGURES)}")
    return [
        promise
        for name in options.only
        for database in options.database
        for promise in asyncio.run(_figure(name, database, options.turns))
    ]
