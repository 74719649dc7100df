"""A search program is held as the sandbox's are: within limits, and never longer there than its drone."""

import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drone.sandbox.custody import Custody
from tests.hostile.searching import ALL, custody_of_a_drone, searched
from tests.waiting import readable


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """In place of ripgrep: it says its number, then reads from a pipe to which nobody writes."""
    os.mkfifo(tmp_path / "told")
    os.mkfifo(tmp_path / "never")
    file = tmp_path / "rg"
    file.write_text('#!/bin/sh\nhere=$(dirname "$0")\necho $$ > "$here/told"\nread line < "$here/never"\n')
    file.chmod(0o755)
    return file


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Where a drone writes down its children."""
    return tmp_path / "children"


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def begun(program: Path) -> tuple[int, int]:
    """Number and descriptor of the search program, once it runs."""
    pid = int((program.parent / "told").read_text())
    return pid, os.pidfd_open(pid)


def held(pid: int) -> None:
    """Returns once the search program is in custody, which comes before its limits."""
    while resource.prlimit(pid, resource.RLIMIT_CORE)[1] != 0:
        os.sched_yield()


def ended(pidfd: int) -> bool:
    return readable(pidfd, 30)


def test_it_has_limits_and_a_group_of_its_own(program: Path, aside: ThreadPoolExecutor) -> None:
    stop = threading.Event()
    search = aside.submit(searched, program, Custody(), stop)
    pid, pidfd = begun(program)
    held(pid)
    assert resource.prlimit(pid, resource.RLIMIT_AS)[1] == 2 << 30
    assert os.getpgid(pid) == pid
    stop.set()
    assert search.result() == ALL
    assert ended(pidfd)


def test_it_is_killed_when_the_lease_of_its_drone_is_lost(
    program: Path, record: Path, aside: ThreadPoolExecutor
) -> None:
    custody = custody_of_a_drone(record)
    search = aside.submit(searched, program, custody, threading.Event())
    pid, pidfd = begun(program)
    held(pid)
    custody.end_term()
    assert ended(pidfd)
    assert search.result() == ALL
    custody.close()


def test_it_does_not_outlive_a_drone_that_is_killed(program: Path, record: Path) -> None:
    drone = subprocess.Popen((sys.executable, "-m", "tests.hostile.searching", program, record))
    pid, pidfd = begun(program)
    held(pid)
    drone.kill()
    drone.wait()
    assert ended(pidfd)
