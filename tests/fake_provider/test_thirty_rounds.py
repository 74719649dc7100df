"""Thirty rounds on this repository: a provider and a drone in processes of their own, over HTTP on the loopback."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fake_provider.behaviours import BEHAVIOURS
from tests.fake_provider.server import KEY

REPOSITORY = Path(__file__).parents[2]
WITHOUT_AN_ANSWER = frozenset({"refusal", "anthropic-refusal", "filter", "openai-5.6-chat"})
WAITED_FOR = frozenset({"slow", "llamacpp-leaks", "anthropic-529"})
DIALECTS = sorted(name for name in BEHAVIOURS.keys() - WITHOUT_AN_ANSWER - WAITED_FOR if "overflow" not in name)


@contextmanager
def served(name: str, rounds: int, file: Path) -> Iterator[subprocess.Popen[str]]:
    """The fake provider in a process of its own, once it listens."""
    command = [sys.executable, "-m", "tests.fake_provider", name, "--rounds", str(rounds), "--write", str(file)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while not process.stdout.readline().startswith("# then:"):
                assert process.poll() is None
            yield process
        finally:
            process.terminate()


def ran(file: Path) -> subprocess.CompletedProcess[str]:
    """`drone run` with the model that this file configures, and no other settings than its."""
    own = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    drone = [sys.executable, "-m", "drone.cli", "run", "Look around", "--model", "fake"]
    settings = {**own, KEY: "sk-fake-0123", "MCC_CONFIG": str(file)}
    return subprocess.run(drone, cwd=REPOSITORY, env=settings, capture_output=True, text=True, timeout=120, check=False)


def test_two_rounds_of_gemini_between_two_processes(tmp_path: Path) -> None:
    with served("gemini", 2, tmp_path / "mcc.toml"):
        done = ran(tmp_path / "mcc.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Done after 2 rounds with 4 results" in done.stdout


@pytest.mark.family
@pytest.mark.parametrize("name", DIALECTS)
def test_thirty_rounds_of_each_dialect_between_two_processes(name: str, tmp_path: Path) -> None:
    with served(name, 30, tmp_path / "mcc.toml"):
        done = ran(tmp_path / "mcc.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Done after 30 rounds" in done.stdout
