"""The script that fetches CEL's conformance suite. If it cannot, it says why, leaves no files, and exits with 0."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cel_suite import VERSION

SCRIPTS = Path(__file__).parents[3] / "scripts"
NEEDED = ("sh", "cat", "dirname", "mktemp", "mv", "rm", "tar", "gzip")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the scripts, an environment, and a PATH of its own in `bin`."""
    for name in ("cel-suite", "cel-suite.mjs"):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        shutil.copy(SCRIPTS / name, tmp_path / "scripts" / name)
    (tmp_path / "bin").mkdir()
    for name in NEEDED:
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    return tmp_path


def program(checkout: Path, name: str, does: str) -> None:
    path = checkout / "bin" / name
    path.write_text(f"#!{shutil.which('sh')}\n{does}\n")
    path.chmod(0o755)


def fetched(checkout: Path, *arguments: str) -> tuple[str, str]:
    """The script's output and the reason file that it writes; asserts that the script exits with 0."""
    path = str(checkout / "bin")
    command = [str(checkout / "scripts" / "cel-suite"), *arguments]
    done = subprocess.run(command, env={"PATH": path}, capture_output=True, text=True, check=True)
    names = {one.name for one in (checkout / ".venv").iterdir()} - {"bin"}
    assert names == {f"cel-suite-{VERSION}.missing"}
    return done.stdout, (checkout / ".venv" / f"cel-suite-{VERSION}.missing").read_text()


def test_without_node_the_reason_is_left_and_said_once(checkout: Path) -> None:
    said, reason = fetched(checkout)
    assert "node is not installed" in reason and reason in said
    assert fetched(checkout) == ("", reason)


def test_where_the_package_cannot_be_fetched_the_reason_is_left_and_it_may_be_asked_again(checkout: Path) -> None:
    program(checkout, "node", "exit 1")
    program(checkout, "npm", "exit 1")
    assert "npm could not fetch" in fetched(checkout)[1]
    program(checkout, "npm", "echo nothing >made-up.tgz")
    assert "npm could not fetch" in fetched(checkout)[1]
    assert "is not what was pinned" in fetched(checkout, "again")[1]
