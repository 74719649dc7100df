"""The longer tiers: campaigns in turn until the time is over, or one of them for hours."""

import time
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from tests.faults.campaigns.catalog import CAMPAIGNS
from tests.faults.campaigns.running import Wish, replay, run
from tests.faults.campaigns.stage import DATABASES, Campaign, Database
from tests.faults.campaigns.tally import Tally, table

SHOWN = 5


def chaos(seconds: float, seed: int, wish: Wish, results: Path | None = None) -> int:
    """Every campaign in turn on every database, with new seeds each round, until the time is over; 1 on a violation."""
    began = time.monotonic()
    tallies: list[Tally] = []
    for campaign, database, one in rounds(seed):
        if tallies and time.monotonic() - began > seconds:
            break
        tallies.append(told(campaign, one, database, wish, results))
    return conclude(tallies)


def rounds(seed: int) -> Iterator[tuple[Campaign, Database, int]]:
    """Without an end: campaign, database, seed. The database changes from one campaign to the next."""
    for turn in count():
        for place, campaign in enumerate(CAMPAIGNS.values()):
            yield campaign, campaign.databases[(place + turn) % len(campaign.databases)], seed + turn
    assert DATABASES


def told(campaign: Campaign, seed: int, database: Database, wish: Wish, results: Path | None = None) -> Tally:
    """One run with a line of progress; where it went wrong, with the command that does it again."""
    tally, directory = run(campaign, seed, database, wish)
    fate = f"not run: {tally.skipped}" if tally.skipped else f"{len(tally.problems)} violations"
    harm = sum(tally.faults.values())
    clock = time.strftime("%H:%M:%S")
    print(
        f"{clock} {campaign.name:4}{database:9}seed {seed:<6}{tally.seconds:6.1f} s"
        f"{tally.orders:5} orders{harm:6} faults  {fate}",
        flush=True,
    )
    for what, why in tally.missing.items():
        print(f"    not done here: {what} ({why})", flush=True)
    if tally.problems:
        for problem in tally.problems[:SHOWN]:
            print(f"    {problem}", flush=True)
        if len(tally.problems) > SHOWN:
            print(f"    … and {len(tally.problems) - SHOWN} more in {directory / 'problems.txt'}")
        print(f"    evidence: {directory}\n    again:    {replay(campaign, seed, database, wish)}", flush=True)
    if results is not None:
        with results.open("a") as file:
            file.write(tally.line)
    return tally


def conclude(tallies: Sequence[Tally]) -> int:
    """Print the tables; the exit code."""
    print()
    print(table(tallies))
    wrong = sum(bool(one.problems) for one in tallies)
    print(f"{wrong} of {len(tallies)} runs went wrong" if wrong else f"{len(tallies)} runs, every promise was kept")
    return 1 if wrong else 0
