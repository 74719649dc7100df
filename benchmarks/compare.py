"""Compares this checkout with another commit: runs the same probes in both alternately, and prints ratios and spread.

    make bench-compare REF=v1.2         # or: .venv/bin/python -m benchmarks.compare REF [--rounds 5] [--no-counts]

The other commit is checked out under .bench/ with its own environment, and stays there. Two things are compared: CPU
time, measured alternately so that load on the machine affects both checkouts alike; and instructions of hot functions,
which do not depend on the load, counted by `perf` where the kernel gives it counters, otherwise by valgrind.
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
ROUNDS = 5
CALLS = (200, 1_200)
"""Calls of a hot function in a first and in a second process: the difference leaves out the cost of starting."""

LONGEST_SECONDS = 600


class NotMeasured(Exception):
    """A probe failed, usually because the checkout lacks what it measures. Holds the last line of its stderr."""


def checked_out(ref: str) -> Path:
    """Check the commit out and install its environment; answers the directory. Raises `CalledProcessError`."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", f"{ref}^{{commit}}"], cwd=HERE, check=True, capture_output=True, text=True
    )
    commit = found.stdout.strip()
    directory = HERE / ".bench" / commit[:12]
    if not directory.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(directory), commit], cwd=HERE, check=True)
    subprocess.run([str(directory / "scripts" / "env"), "dev"], cwd=directory, check=True)
    return directory


def probes_of(directory: Path) -> Path:
    """The checkout's own probes, which know the names that its modules have; ours where it has none."""
    probes = Path("benchmarks") / "probes.py"
    return directory / probes if (directory / probes).exists() else HERE / probes


def run_probe(directory: Path, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a probe in the checkout at `directory`, under the command `prefix` if given. Raises `NotMeasured`."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    python = str(directory / ".venv" / "bin" / "python")
    process = subprocess.run(
        [*prefix, python, str(probes_of(directory)), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONGEST_SECONDS,
    )
    if process.returncode:
        raise NotMeasured(
            process.stderr.strip().splitlines()[-1][:120] if process.stderr.strip() else "no output on stderr"
        )
    return process


def _milliseconds(directory: Path, name: str) -> float:
    return float(run_probe(directory, name).stdout.splitlines()[-1])


def compare_cpu(there: Path, rounds: int) -> None:
    rows = []
    for name in MILLISECONDS:
        try:
            pairs = [(_milliseconds(HERE, name), _milliseconds(there, name)) for _ in range(rounds)]
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
    table(f"CPU time, {rounds} alternating rounds", ("probe", "here", "there", "ratio", "spread"), rows)


def compare_instructions(there: Path) -> None:
    counter = _counter()
    if counter is None:
        print("\n  Instructions were not counted: perf needs kernel.perf_event_paranoid <= 2 and a processor with")
        print("  visible counters, and valgrind is not installed. scripts/system-deps installs valgrind.")
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
    """`perf` if it can count instructions on this machine, else `valgrind` if installed, else None."""
    if shutil.which("perf"):
        trial = subprocess.run([*_PERF, "true"], capture_output=True, text=True)
        if trial.returncode == 0 and _instructions_in(trial.stderr) is not None:
            return "perf"
    return "valgrind" if shutil.which("valgrind") else None


_PERF = ("perf", "stat", "-x", ",", "-e", "instructions:u")
_VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
_NUMBER = re.compile(r"^(\d+),|I\s+refs:\s+([\d,]+)", re.MULTILINE)


def _instructions_in(output: str) -> int | None:
    found = _NUMBER.search(output)
    return None if found is None else int((found[1] or found[2]).replace(",", ""))


def _instructions(directory: Path, name: str, counter: str) -> float:
    """Instructions of one call. Raises `NotMeasured`."""
    few, many = (_instructions_of_process(directory, name, calls, counter) for calls in CALLS)
    return (many - few) / (CALLS[1] - CALLS[0])


def _instructions_of_process(directory: Path, name: str, calls: int, counter: str) -> int:
    prefix = _PERF if counter == "perf" else _VALGRIND
    count = _instructions_in(run_probe(directory, name, str(calls), prefix=prefix).stderr)
    if count is None:
        raise NotMeasured(f"{counter} printed no count")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-compare")
    parser.add_argument("ref", help="a commit, a tag or a branch")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--no-counts", action="store_true", help="do not count instructions")
    options = parser.parse_args()
    try:
        there = checked_out(options.ref)
    except subprocess.CalledProcessError as error:
        print(f"{options.ref} could not be checked out or installed: {error.stderr or error}", file=sys.stderr)
        return 2
    print(f"Here: {HERE}\nThere: {options.ref} in {there}\nA ratio below 1 means that this checkout (here) uses less.")
    if probes_of(there).read_bytes() != probes_of(HERE).read_bytes():
        print("The two have different probes: look at their difference before you believe a ratio.")
    compare_cpu(there, options.rounds)
    if not options.no_counts:
        compare_instructions(there)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
