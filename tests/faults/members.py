"""The processes of a family: each in a process group of its own, with a log, and gone in the end."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

import psutil

from mcc.local import launch
from tests.forking import popen
from tests.waiting import pauses

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
FOREIGN = ("MCC_", "DRONE_", "FAULTS_", "ANTHROPIC_", "OPENAI_", "OPENROUTER_", "OLLAMA_")


class NotInTime(AssertionError):
    """Something that was waited for did not come; the sentence says what is there instead."""


def until(answer: Callable[[], T], seconds: float, what: Callable[[], str] | str) -> T:
    """The first true answer. Raises `NotInTime`."""
    end = time.monotonic() + seconds
    pause = pauses()
    while not (found := answer()):
        if time.monotonic() > end:
            raise NotInTime(f"not within {seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(next(pause))
    return found


def clean_environment(private: Path) -> dict[str, str]:
    """This process's own, without what would lead a member elsewhere; temporary files go into `private`."""
    temporary = private / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**own, "TMPDIR": str(temporary), "MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True, slots=True)
class Start:
    """A program to start: its complete environment, and the file that its output is appended to."""

    environment: Mapping[str, str]
    log: str


class Starter(Protocol):
    """Whoever starts processes: each leads a process group and session of its own."""

    def start(self, start: Start) -> int: ...

    def status(self, pid: int) -> int | None: ...


class Launched:
    """Starts one command, forked where that is possible; it dies with this process, or the thread that started it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = arguments
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, start: Start) -> int:
        with open(start.log, "ab") as log:
            process = popen.Popen(
                [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *self._arguments],
                cwd=ROOT,
                env=dict(start.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[process.pid] = process
        return process.pid

    def status(self, pid: int) -> int | None:
        return self._processes[pid].poll()


@dataclass
class Member:
    """One process of a family, started as often as one likes; its log is appended to."""

    name: str
    starter: Starter
    environment: Mapping[str, str]
    log: Path
    groups: list[int] = field(default_factory=list)
    """Process groups of all its starts; the leader's pid is the group's number."""

    def start(self) -> None:
        self.groups.append(self.starter.start(Start(self.environment, str(self.log))))

    @property
    def pid(self) -> int:
        """Of the newest start."""
        return self.groups[-1]

    @property
    def runs(self) -> bool:
        return bool(self.groups) and self.starter.status(self.pid) is None

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def signal(self, number: int) -> None:
        """To the whole group; nothing happens when it is gone."""
        if self.runs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait(5.0)

    def stop(self) -> None:
        """SIGSTOP: it stands still until `go_on`."""
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.signal(signal.SIGCONT)

    def term(self) -> None:
        self.signal(signal.SIGTERM)

    def wait(self, seconds: float) -> int:
        """How it ended: its exit code, or minus the number of a signal. Raises `NotInTime`."""
        until(lambda: not self.runs, seconds, f"{self.name} ends; its log: {self.log}")
        status = self.starter.status(self.pid)
        assert status is not None
        return status

    def end(self) -> None:
        """Gone, with everything in its groups, whatever state it is in."""
        for group in self.groups:
            if alive_in(group):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)
        if self.groups:
            self.wait(5.0)


def alive_in(group: int) -> list[int]:
    """Pids of the processes of a group that are not zombies."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return found
