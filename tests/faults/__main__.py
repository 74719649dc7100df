"""The one command of this suite.

    python -m tests.faults list                                   # campaigns, and what none of them does
    python -m tests.faults run C1 C4 --database postgres --seed 17
    python -m tests.faults one_repository                         # many orders that write in few repositories: C23
    python -m tests.faults doors webhooks --cuts 1000 --kills 20  # each door, its connections cut at random bytes
    python -m tests.faults chaos --minutes 30 --seed 1
    python -m tests.faults soak --hours 4
    python -m tests.faults check DIRECTORY                        # judge kept evidence again
    python -m tests.faults tables results.jsonl                   # of one run or of several

Exit codes: 0 every promise was kept, 1 one was not, 2 wrong arguments.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.faults import checker
from tests.faults.campaigns.catalog import CAMPAIGNS, LEFT_OUT
from tests.faults.campaigns.running import Wish
from tests.faults.campaigns.stage import DATABASES
from tests.faults.campaigns.tally import read_back
from tests.faults.campaigns.tiers import chaos, conclude, told
from tests.faults.doors.running import CUTS, DOORS, KILLS, cut_doors

SECONDS_AN_HOUR = 3_600.0


def main(arguments: Sequence[str] | None = None) -> int:
    said = _parser().parse_args(arguments)
    match said.command:
        case "list":
            return _list()
        case "run" | "one_repository":
            return _run(said)
        case "chaos":
            print(f"seed {said.seed}", flush=True)
            return chaos(said.minutes * 60, said.seed, _wish(said), said.results)
        case "doors":
            print(f"seed {said.seed}", flush=True)
            return cut_doors(said.door or tuple(DOORS), said.cuts, said.kills, said.seed, said.directory)
        case "soak":
            return _soak(said)
        case "check":
            return checker.main([str(said.directory)])
        case _:
            return conclude(read_back(line for file in said.results for line in file.read_text().splitlines()))


def _list() -> int:
    for name, campaign in CAMPAIGNS.items():
        print(f"{name:5}{campaign.title} ({', '.join(campaign.databases)})")
    print(f"doors: {', '.join(DOORS)}")
    print("\nleft out:")
    for what, why in LEFT_OUT.items():
        print(f"  {what}: {why}")
    return 0


def _run(said: argparse.Namespace) -> int:
    databases = [said.database] if said.database else DATABASES
    tallies = [
        told(CAMPAIGNS[name], seed, database, _wish(said), said.results)
        for seed in range(said.seed, said.seed + said.seeds)
        for name in said.campaign
        for database in databases
        if database in CAMPAIGNS[name].databases
    ]
    return conclude(tallies)


def _soak(said: argparse.Namespace) -> int:
    wish = replace(_wish(said), seconds=said.hours * SECONDS_AN_HOUR, lease_seconds=said.lease or 12.0)
    print(f"seed {said.seed}", flush=True)
    return conclude([told(CAMPAIGNS["C20"], said.seed, said.database or "postgres", wish, said.results)])


def _wish(said: argparse.Namespace) -> Wish:
    seconds = getattr(said, "seconds", Wish().seconds)
    return Wish(said.all, said.judge_times, seconds, said.lease, said.keep, said.directory)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="campaigns, and what none of them does")
    runs = commands.add_parser("run", help="campaigns by name")
    runs.add_argument("campaign", nargs="+", choices=tuple(CAMPAIGNS), metavar="CAMPAIGN", help=", ".join(CAMPAIGNS))
    runs.add_argument("--seconds", type=float, default=Wish().seconds, help="for those without an end of their own")
    shared = commands.add_parser("one_repository", help="C23: many orders that write in few repositories")
    shared.set_defaults(campaign=["C23"])
    for one in (runs, shared):
        one.add_argument("--seeds", type=int, default=1, help="how many, from --seed on")
    doors = commands.add_parser("doors", help="each door, its connections cut at random bytes and its service killed")
    doors.add_argument("door", nargs="*", choices=tuple(DOORS), metavar="DOOR", help=", ".join(DOORS))
    doors.add_argument("--cuts", type=int, default=CUTS, help="connections that are cut, of each door")
    doors.add_argument("--kills", type=int, default=KILLS, help="how often somebody is killed at such a byte")
    rounds = commands.add_parser("chaos", help="all campaigns in turn until the time is over")
    rounds.add_argument("--minutes", type=float, default=30.0)
    soak = commands.add_parser("soak", help="everything at random, in one family")
    soak.add_argument("--hours", type=float, default=4.0)
    for one in (runs, shared, doors, rounds, soak):
        one.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="the first; by default a new one")
        one.add_argument("--directory", type=Path, help="where evidence is kept; by default that of temporary files")
    for one in (runs, shared, rounds, soak):
        one.add_argument("--all", action="store_true", help="try all where a part is drawn")
        one.add_argument("--judge-times", action="store_true", help="slow recovery is a violation: for a quiet machine")
        one.add_argument("--lease", type=float, help="seconds; by default the campaign's own")
        one.add_argument("--keep", action="store_true", help="keep the evidence of good runs as well")
        one.add_argument("--results", type=Path, help="append a JSON line for each run")
    for one in (runs, shared, soak):
        one.add_argument("--database", choices=DATABASES, help="by default both; soak: postgres")
    check = commands.add_parser("check", help="judge kept evidence again")
    check.add_argument("directory", type=Path)
    tables = commands.add_parser("tables", help="the tables of files of results")
    tables.add_argument("results", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    sys.exit(main())
