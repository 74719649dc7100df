"""This checkout beside another commit: the same probes in turn, round after round, as ratios with their spread.

    make bench-compare REF=v1.2         # or: .venv/bin/python -m benchmarks.compare REF [--rounds 5] [--no-counts]

The other commit is checked out under .bench/, with an environment of its own, and kept there. What is compared is CPU
time, measured in alternation, so that a busy machine meets both alike; and instructions of hot functions, which do not
depend on the machine's load at all, counted by `perf` where the kernel has counters for it, else by valgrind.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.probes import HOT, MILLISECONDS
from benchmarks.workload import table

HERE = Path(__file__).resolve().parents[1]
PROBES = HERE / "benchmarks" / "probes.py"
ROUNDS = 5
TIMES = (200, 1_200)
"""A hot function runs so often in one process and so often in another: the difference leaves out what a start costs."""

LONGEST_SECONDS = 600


class NotMeasured(Exception):
    """This checkout does not have what is measured; the last line of what it said."""


def checked_out(ref: str) -> Path:
    """A directory with this commit and its environment. Raises `CalledProcessError`."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{ref}^{{commit}}"], cwd=HERE, check=True, capture_output=True, text=True
    )
    commit = found.stdout.strip()
    directory = HERE / ".bench" / commit[:12]
    if not directory.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(directory), commit], cwd=HERE, check=True)
    subprocess.run([str(directory / "scripts" / "env"), "dev"], cwd=directory, check=True)
    return directory


def probed(directory: Path, *arguments: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """A probe in this checkout, under the programs named `before`. Raises `NotMeasured`."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    python = str(directory / ".venv" / "bin" / "python")
    done = subprocess.run(
        [*before, python, str(PROBES), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    if done.returncode:
        raise NotMeasured(done.stderr.strip().splitlines()[-1][:120] if done.stderr.strip() else "it failed")
    return done


def _figure(directory: Path, name: str) -> float:
    return float(probed(directory, name).stdout.splitlines()[-1])


def times(there: Path, rounds: int) -> None:
    rows = []
    for name in MILLISECONDS:
        try:
            pairs = [(_figure(HERE, name), _figure(there, name)) for _ in range(rounds)]
        except NotMeasured as error:
            rows.append((name, "", "", "", f"not measured: {error}"))
            continue
        ratios = sorted(here / old for here, old in pairs)
        rows.append(
            (
                name,
                f"{median(here for here, _ in pairs):.2f} ms",
                f"{median(old for _, old in pairs):.2f} ms",
                f"{median(ratios):.2f}",
                f"{ratios[0]:.2f} … {ratios[-1]:.2f}",
            )
        )
    table(f"CPU time, {rounds} rounds in alternation", ("probe", "here", "there", "ratio", "spread"), rows)


def counts(there: Path) -> None:
    counter = _counter()
    if counter is None:
        print("\n  Instructions are not counted: neither perf (kernel.perf_event_paranoid <= 2, a processor whose")
        print("  counters are visible) nor valgrind is here; scripts/system-deps installs valgrind.")
        return
    rows = []
    for name in HOT:
        try:
            here, old = _instructions(HERE, name, counter), _instructions(there, name, counter)
        except NotMeasured as error:
            rows.append((name, "", "", f"not measured: {error}"))
            continue
        rows.append((name, f"{here:,.0f}", f"{old:,.0f}", f"{here / old:.3f}"))
    table(f"Instructions, counted by {counter}", ("function", "here", "there", "ratio"), rows)


def _counter() -> str | None:
    """`perf` where it counts instructions here, else `valgrind`, else None."""
    if shutil.which("perf"):
        tried = subprocess.run([*_PERF, "true"], capture_output=True, text=True)
        if tried.returncode == 0 and _counted(tried.stderr) is not None:
            return "perf"
    return "valgrind" if shutil.which("valgrind") else None


_PERF = ("perf", "stat", "-x", ",", "-e", "instructions:u")
_VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_NUMBER = re.compile(r"^(\d+),|I\s+refs:\s+([\d,]+)", re.MULTILINE)


def _counted(said: str) -> int | None:
    found = _NUMBER.search(said)
    return None if found is None else int((found[1] or found[2]).replace(",", ""))


def _instructions(directory: Path, name: str, counter: str) -> float:
    """Of one call. Raises `NotMeasured`."""
    few, many = (_of_a_process(directory, name, number, counter) for number in TIMES)
    return (many - few) / (TIMES[1] - TIMES[0])


def _of_a_process(directory: Path, name: str, number: int, counter: str) -> int:
    before = _PERF if counter == "perf" else _VALGRIND
    counted = _counted(probed(directory, name, str(number), before=before).stderr)
    if counted is None:
        raise NotMeasured(f"{counter} counted nothing")
    return counted


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-compare")
    parser.add_argument("ref", help="a commit, a tag or a branch")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--no-counts", action="store_true", help="leave the instructions out")
    asked = parser.parse_args()
    try:
        there = checked_out(asked.ref)
    except subprocess.CalledProcessError as error:
        print(f"{asked.ref} could not be checked out and installed: {error.stderr or error}", file=sys.stderr)
        return 2
    print(f"Here: {HERE}\nThere: {asked.ref} in {there}\nA ratio below 1: this checkout takes less.")
    times(there, asked.rounds)
    if not asked.no_counts:
        counts(there)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
