"""The offline checker: `python -m tests.faults.checker DIR [--json]` judges what a run left behind.

It reads the directory and the database that `run.json` names, prints each promise that was not kept (`I1` to `I16`,
or the `promises` of `run.json`) with the order and the numbers, and ends with 1 when there is one.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from tests.faults.figures import figures, table
from tests.faults.invariants import calls, hygiene, journals, orders, spending, times, trees
from tests.faults.invariants.database import with_database
from tests.faults.invariants.evidence import BrokenEvidence, Evidence, Violation, read_directory

Invariant = Callable[[Evidence], Iterable[Violation]]

INVARIANTS: Mapping[str, tuple[Invariant, ...]] = {
    "I1": (orders.ended_once,),
    "I2": (orders.accepted_is_kept,),
    "I3": (calls.done_once,),
    "I4": (calls.never_invented,),
    "I5": (journals.numbered, journals.viewed),
    "I6": (journals.causes_first,),
    "I7": (trees.complete, trees.as_written, trees.delivered_once),
    "I8": (journals.fenced,),
    "I9": (orders.one_holder,),
    "I10": (spending.within_budget,),
    "I11": (spending.obeyed, spending.receipts_settled),
    "I12": (hygiene.nothing_left,),
    "I13": (hygiene.no_secret_told,),
    "I14": (times.recovered,),
    "I15": (orders.turns_in_order,),
    "I16": (times.healthy_are_served,),
}


def violations(evidence: Evidence, only: Iterable[str] = tuple(INVARIANTS)) -> list[Violation]:
    """What was not kept, of all invariants or of those named."""
    return [found for name in only for check in INVARIANTS[name] for found in check(evidence)]


def evidence_of(directory: Path, database_url: str | None = None) -> Evidence:
    """All evidence of a run; `database_url` None: the one in `run.json`, a file's path from there on.

    Raises `BrokenEvidence`.
    """
    if not directory.is_dir():
        raise BrokenEvidence(f"{directory} is not a directory")
    evidence = read_directory(directory)
    url = database_url or _placed(directory, str(evidence.run.get("database_url") or ""))
    if not url:
        raise BrokenEvidence(f"{directory / 'run.json'} names no database_url; give one with --database")
    try:
        return with_database(evidence, url)
    except SQLAlchemyError as problem:
        raise BrokenEvidence(f"the database of the run cannot be read: {problem}") from problem


def _placed(directory: Path, url: str) -> str:
    """With the path of a file in the directory, if it is one."""
    path = url.removeprefix("sqlite:///")
    return url if path in (url, "") else f"sqlite:///{directory.resolve() / path}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.checker", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--json", action="store_true", help="violations and figures as one JSON object")
    parser.add_argument("--database", help="another address than the one in run.json")
    asked = parser.parse_args(arguments)
    try:
        evidence = evidence_of(asked.directory, asked.database)
    except BrokenEvidence as problem:
        print(problem, file=sys.stderr)
        return 2
    found, measured = violations(evidence, evidence.run.get("promises", INVARIANTS)), figures(evidence)
    if asked.json:
        print(json.dumps({"violations": [asdict(one) for one in found], "figures": measured}, indent=2))
    else:
        print(table(measured))
        print("\n".join(map(str, found)) if found else f"{len(evidence.orders)} orders, no violation")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
