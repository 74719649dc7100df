"""Thirty rounds on this repository: a provider and a drone in processes of their own, over HTTP on the loopback."""

from pathlib import Path

import pytest

from tests.fake_provider.behaviours import BEHAVIOURS
from tests.fake_provider.trial import WITHOUT_AN_ANSWER, ran, served

WAITED_FOR = frozenset({"slow", "llamacpp-leaks", "anthropic-529"})
DIALECTS = sorted(name for name in BEHAVIOURS.keys() - WITHOUT_AN_ANSWER - WAITED_FOR if "overflow" not in name)


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
