"""The walls and programs of this machine. Tests that need a missing one are skipped, except in CI, which has them
all."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.reaper import Process
from drone.tools.git.program import Git
from drone.tools.shell.commands import Shell


def needs(problem: str | None) -> None:
    if problem and "CI" not in os.environ:
        pytest.skip(problem)
    assert not problem, problem


def found_sandbox(tried: Sequence[str] = ("true",)) -> Bubblewrap:
    """A sandbox that can run this command."""
    found = Bubblewrap.found()
    needs("bubblewrap is not installed" if found is None else found.problem(tried))
    assert found is not None
    return found


def found_git() -> Git:
    found = Git.found(Bubblewrap.found())
    needs(found.problem)
    return found


def found_shell() -> Shell:
    found = Shell.found(Bubblewrap.found())
    needs(found.problem)
    return found


def asleep(seconds: str) -> list[Process]:
    """The programs `sleep SECONDS` of this machine."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue
        if command == f"sleep\0{seconds}\0".encode() and (process := Process.of(int(name))) is not None:
            found.append(process)
    return found
