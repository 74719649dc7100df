"""Control groups of the harness: found in both versions, and the kernel ends whoever goes beyond their limit."""

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.members import ROOT
from tests.faults.memory import NoGroup, kind_here, limited

TAKER = "import sys; sys.stdin.readline(); from tests.faults.failpoints import take_memory; take_memory()"
LIMIT_BYTES = 48 * 1024 * 1024


def test_the_kernel_ends_a_process_that_takes_more_than_its_limit() -> None:
    taker = subprocess.Popen([sys.executable, "-c", TAKER], stdin=subprocess.PIPE, cwd=ROOT)
    with ExitStack() as stack:
        stack.callback(taker.kill)
        try:
            group = stack.enter_context(limited(taker.pid, LIMIT_BYTES))
        except NoGroup as why:
            pytest.skip(str(why))
        taker.communicate(b"\n", timeout=60)
        assert (taker.returncode, group.ended) == (-signal.SIGKILL, 1)
    assert not group.path.exists()


def test_a_process_that_is_within_its_limit_is_where_it_was_before() -> None:
    quiet = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    groups = Path(f"/proc/{quiet.pid}/cgroup")
    before = groups.read_text() if groups.exists() else ""
    with ExitStack() as stack:
        stack.callback(quiet.communicate)
        try:
            with limited(quiet.pid, LIMIT_BYTES):
                assert groups.read_text() != before
        except NoGroup as why:
            pytest.skip(str(why))
        assert groups.read_text() == before


def test_where_groups_of_memory_are_is_found_in_both_versions(tmp_path: Path) -> None:
    with pytest.raises(NoGroup, match="no control groups"):
        kind_here(tmp_path)
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").touch()
    assert kind_here(tmp_path).root == tmp_path / "memory"
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    with pytest.raises(NoGroup, match="cannot limit memory"):
        kind_here(tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    assert kind_here(tmp_path).limit == "memory.max"
