"""`python -m tests.faults.simulation [SEED …]`: replay some, or run many and name those that fail."""

import argparse
import sys
import time
from collections import Counter

from tests.faults.simulation.world import Result, simulate

NIGHTLY = 1_000


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.simulation", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="*", help="these, with their stories")
    parser.add_argument("--count", type=int, default=NIGHTLY, help="how many, when none is named")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--until-failure", action="store_true", help="stop at the first seed that fails")
    asked = parser.parse_args(arguments)
    if asked.seeds:
        return max(_told(simulate(seed)) for seed in asked.seeds)
    return _many(range(asked.first, asked.first + asked.count), asked.until_failure)


def _told(result: Result) -> int:
    print(f"seed {result.seed}: {result.orders} orders, {result.entries} entries")
    print("\n".join(result.story))
    print("\n".join(map(str, result.violations)) or "no violation")
    return int(bool(result.violations))


def _many(seeds: range, until_failure: bool) -> int:
    began, failed, counts = time.process_time(), [], Counter[str]()
    for seed in seeds:
        result = simulate(seed)
        counts += result.counts
        counts.update(seeds=1, orders=result.orders, entries=result.entries, steps=result.steps)
        if result.violations:
            failed.append(seed)
            print(f"seed {seed} (replay: python -m tests.faults.simulation {seed})")
            print("\n".join(f"    {violation}" for violation in result.violations), flush=True)
            if until_failure:
                break
    print(", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    print(f"{time.process_time() - began:.1f} s of CPU; {f'failed: {failed}' if failed else 'no violation'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
