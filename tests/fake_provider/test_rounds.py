"""Rounds on this repository: a provider and a drone in processes of their own, over HTTP on the loopback.

`make try` plays thirty rounds with every fake provider.
"""

from pathlib import Path

import pytest

from tests.fake_provider.trial import ran, served


def test_rounds_between_two_processes(tmp_path: Path) -> None:
    """Of one form: the same rounds of each are in `test_fake_providers.py`, and one of the others below."""
    with served("anthropic", 3, tmp_path / "mcc.toml"):
        done = ran(tmp_path / "mcc.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Done after 3 rounds with 6 results" in done.stdout


@pytest.mark.family
def test_thirty_rounds_fit_in_a_small_window(tmp_path: Path) -> None:
    with served("vllm-window", 30, tmp_path / "mcc.toml"):
        done = ran(tmp_path / "mcc.toml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Done after 30 rounds" in done.stdout
