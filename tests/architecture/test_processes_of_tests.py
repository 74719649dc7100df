"""Tests in several processes, and the names of their files."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from tests.architecture.imports import ROOT
from tests.processes import begins_with_files, next_scope

SHARED = """
import os
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def made(tmp_path_factory):
    yield str(os.getpid())
    Path("taken-down").open("a").write(f"{os.getpid()}\\n")

@pytest.fixture(autouse=True)
def ran(request, made, tmp_path):
    assert made == str(os.getpid()) and not any(tmp_path.iterdir())
    with Path("ran").open("a") as file:
        file.write(f"{request.node.nodeid} {os.getpid()}\\n")
"""
FIRST = """
import warnings
import pytest

def test_it_fails_and_shows_what_it_printed():
    print("printed by the first")
    assert False

@pytest.mark.group("together")
def test_it_is_in_a_group(): pass

def test_it_warns():
    warnings.warn("take care")
"""
SECOND = """
import os
import signal
import pytest

@pytest.mark.group("together")
def test_it_is_in_the_group_too(): pass

def test_its_process_is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.parametrize("number", range(3))
def test_the_others_are_run_all_the_same(number):
    print("printed by the second")
"""


def run(folder: Path, *options: str) -> tuple[str, dict[str, str]]:
    """What pytest says of the tests in the folder, run by two processes; and by test, how it ended."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = group(name): run by one process\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.processes", "--processes", "2", "--junitxml", "told.xml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        [*command, *options], cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )
    cases = ElementTree.parse(folder / "told.xml").iter("testcase")
    return told.stdout + told.stderr, {str(case.get("name")): case[0].tag if len(case) else "passed" for case in cases}


def test_each_test_runs_once_with_its_group_and_a_crash_costs_only_the_test_it_is_met_in(tmp_path: Path) -> None:
    for name, text in (("conftest.py", SHARED), ("test_first.py", FIRST), ("test_second.py", SECOND)):
        (tmp_path / name).write_text(text)
    told, ended = run(tmp_path)
    ran = dict(line.rsplit(" ", 1) for line in (tmp_path / "ran").read_text().splitlines())
    assert len(ran) == len((tmp_path / "ran").read_text().splitlines()) == 8
    together = [process for test, process in ran.items() if "group" in test]
    assert len(set(together)) == 1
    failed = {name for name, how in ended.items() if how != "passed"}
    assert failed == {"test_it_fails_and_shows_what_it_printed", "test_its_process_is_killed"} and len(ended) == 8
    assert "signal 9" in told and "take care" in told and "2 failed, 6 passed, 1 warning" in told
    assert "printed by the first" in told and "printed by the second" not in told
    (killed,) = (process for test, process in ran.items() if "killed" in test)
    assert sorted((tmp_path / "taken-down").read_text().split()) == sorted(set(ran.values()) - {killed})


def test_no_further_tests_are_handed_out_after_as_many_failures_as_were_asked_for(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"test_{number}.py").write_text("def test_it_fails():\n    assert False")
    told, ended = run(tmp_path, "--maxfail", "1")
    assert "stopping after" in told and 1 <= len(ended) < 8


def test_half_of_the_processes_begin_with_files_and_the_others_with_groups_until_none_is_left() -> None:
    assert [begins_with_files(place, 4, 2) for place in range(4)] == [True, True, False, False]
    assert [begins_with_files(place, 6, 2) for place in range(6)].count(True) == 2
    assert [begins_with_files(place, 4, 16) for place in range(4)].count(True) == 2
    assert not begins_with_files(0, 1, 2)
    waiting = ["killed drones", "turns", "tests/a/test_b.py", "tests/c/test_d.py"]
    assert next_scope(waiting, computes=True) == "tests/a/test_b.py"
    assert next_scope(waiting, computes=False) == "killed drones"
    assert next_scope(waiting[:2], computes=True) == "killed drones"
    assert next_scope(waiting[2:], computes=False) == "tests/a/test_b.py"
    assert next_scope([], computes=True) is None


def test_no_two_test_files_have_one_name() -> None:
    """pytest cannot collect them in one run."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
