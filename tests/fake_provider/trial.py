"""`python -m tests.fake_provider.trial [NAME …]`: an order of thirty rounds on this repository with each provider.

Without names all of them in turn. Servers that are slow on purpose are asked for one round, those with a small context
for 24: what a model says itself, sealed reasoning included, is not shortened.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fake_provider.behaviours import BEHAVIOURS
from tests.fake_provider.server import KEY

REPOSITORY = Path(__file__).parents[2]
WITHOUT_AN_ANSWER = frozenset({"refusal", "anthropic-refusal", "filter"})
ROUNDS = 30
SECONDS = 900


@contextmanager
def served(name: str, rounds: int, file: Path) -> Iterator[subprocess.Popen[str]]:
    """The fake provider in a process of its own, once it listens."""
    command = [sys.executable, "-m", "tests.fake_provider", name, "--rounds", str(rounds), "--write", str(file)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert any(line.startswith("# then:") for line in process.stdout), "the provider ended"
            yield process
        finally:
            process.terminate()


def ran(file: Path, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    """`drone run` with the model that this file configures, and no other settings than its."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    drone = [sys.executable, "-m", "drone.cli", "run", "Look around", "--model", "fake"]
    settings = {**own, KEY: "sk-fake-0123", "MCC_CONFIG": str(file)}
    return subprocess.run(
        drone, cwd=REPOSITORY, env=settings, capture_output=True, text=True, timeout=seconds, check=False
    )


def tried(name: str, directory: Path) -> bool:
    """Whether the order with this provider ended as it should; what it said is printed."""
    rounds = 1 if BEHAVIOURS[name].seconds else 24 if name.startswith("overflow-") else ROUNDS
    file, began = directory / "mcc.toml", time.monotonic()
    with served(name, rounds, file):
        done = ran(file, SECONDS)
    answered = done.returncode == 0 and f"Done after {rounds} rounds" in done.stdout
    good = done.returncode == 1 if name in WITHOUT_AN_ANSWER else answered
    seconds = time.monotonic() - began
    why = "" if answered else (done.stderr.strip().splitlines() or [""])[-1][:120]
    print(f"{'ok ' if good else 'BAD'} {name:20} {rounds:3} rounds {seconds:6.1f} s  {why}", flush=True)
    return good


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_provider.trial", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or sorted(BEHAVIOURS)
    if unknown := sorted({*names} - BEHAVIOURS.keys()):
        parser.error(f"there is no provider {unknown[0]}; python -m tests.fake_provider --list names them")
    with TemporaryDirectory() as directory:
        bad = [name for name in names if not tried(name, Path(directory))]
    sys.exit(f"Not as it should be: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
