"""The examples run as they stand, without network, keys or configuration."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_SECONDS = 60

TELLS = {
    "hello_agent.py": ("completed 1\n", "offline model"),
    "custom_tool.py": ("tool.finished", "There are three words.", '"count_words"', '"tool_calls":2'),
    "parallel_review.py": ("Looked at pay.py. checks: [False, True]", "Looked at login.py. checks: [True]"),
    "session_with_steering.py": ("You are Ann.", "2 turns, 4 messages", "I leave the dog alone.", "Mind the dog."),
    "embedded_runner.py": ("- `tool_package/README.md:3`: “", "offline: ", " turns, ", "outside"),
}
"""What each of them must print."""


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(TELLS)


@pytest.mark.parametrize("name", TELLS)
def test_an_example_runs_anywhere(name: str, tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert all(words in done.stdout for words in TELLS[name]), done.stdout
    assert "This was not done" not in done.stdout


def test_the_page_on_embedding_shows_the_first_example_as_it_is() -> None:
    code = (EXAMPLES / "hello_agent.py").read_text("utf-8").partition('"""\n\n')[2]
    assert code in (EXAMPLES.parent / "docs" / "how-to" / "embed-the-runtime.md").read_text("utf-8")
