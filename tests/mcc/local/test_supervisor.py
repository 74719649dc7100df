"""Supervised children, tested with tiny programs: restarts, waits between them, and no process left behind."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import pytest

from mcc.local.child import Backoff, ChildCommand, LogFile
from mcc.local.errors import StartFailed
from mcc.local.supervisor import Supervisor
from tests.waiting import eventually

QUICK = Backoff(first_seconds=0.01, most_seconds=0.02, steady_seconds=60)

SLEEPER = "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
SAYS_WHEN_IT_ENDS = """
import os, signal
signal.signal(signal.SIGTERM, lambda *_: exit(print({0!r}, file=open({1!r}, "a"))))
print(os.getpid(), flush=True)
signal.pause()
"""
PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); " + SLEEPER


def python(code: str, directory: Path) -> Callable[[], ChildCommand]:
    return lambda: ChildCommand([sys.executable, "-c", code], dict(os.environ), directory)


def printed(log: Path) -> list[int]:
    """The pids that the programs wrote to their log."""
    return [int(line) for line in log.read_text().split() if line.isdigit()] if log.exists() else []


def alive(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE]


async def test_a_child_that_dies_is_started_again_and_a_line_says_so(tmp_path: Path) -> None:
    told: list[str] = []
    async with Supervisor(tmp_path, told.append, QUICK) as supervisor:
        supervisor.start({"worker": python(SLEEPER, tmp_path)}, 5)
        log = tmp_path / "worker.log"
        await eventually(lambda: len(printed(log)) == 1)
        first = printed(log)[0]
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: len(printed(log)) == 2)
        second = printed(log)[1]
    assert first != second
    assert not alive([first, second])
    assert told == [f"worker ended (killed by SIGKILL); starting it again in 0.01 s. Its log: {log}"]


async def test_leaving_ends_every_child_with_all_that_it_started(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        supervisor.start({"parent": python(PARENT, tmp_path)}, 5)
        await eventually(lambda: printed(tmp_path / "parent.log"))
        pid = printed(tmp_path / "parent.log")[0]
        family = [pid, *(child.pid for child in psutil.Process(pid).children())]
        assert len(family) == 2
    await eventually(lambda: not alive(family))


async def test_a_child_that_does_not_listen_is_killed_after_its_grace(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        supervisor.start({"stubborn": python(STUBBORN, tmp_path)}, 0.2)
        await eventually(lambda: printed(tmp_path / "stubborn.log"))
        pid = printed(tmp_path / "stubborn.log")[0]
    assert not alive([pid])


async def test_stages_end_in_the_reverse_order(tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        for name in ("first", "second"):
            supervisor.start({name: python(SAYS_WHEN_IT_ENDS.format(name, str(ends)), tmp_path)}, 5)
            await eventually(lambda name=name: printed(tmp_path / f"{name}.log"))  # type: ignore[misc]
    assert ends.read_text().split() == ["second", "first"]


async def test_one_that_never_stays_up_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        broken = supervisor.start({"broken": python("raise SystemExit('no such thing')", tmp_path)}, 1)
        with pytest.raises(StartFailed, match=r"broken does not stay up(.|\n)*no such thing"):
            await supervisor.until(never, broken, 30)


async def test_a_program_that_is_not_there_is_told_by_name(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        absent = supervisor.start({"absent": lambda: ChildCommand(["/no/such/program"], {}, tmp_path)}, 1)
        with pytest.raises(StartFailed, match="/no/such/program cannot be started"):
            await supervisor.until(never, absent, 30)


async def test_waiting_ends_when_time_is_up(tmp_path: Path) -> None:
    async def never() -> bool:
        return False

    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        slow = supervisor.start({"slow": python(SLEEPER, tmp_path)}, 1)
        with pytest.raises(StartFailed, match=r"Not ready after 0\.1 s"):
            await supervisor.until(never, slow, 0.1)


async def test_killing_needs_no_grace(tmp_path: Path) -> None:
    async with Supervisor(tmp_path, print, QUICK) as supervisor:
        supervisor.start({"stubborn": python(STUBBORN, tmp_path)}, 600)
        await eventually(lambda: printed(tmp_path / "stubborn.log"))
        pid = printed(tmp_path / "stubborn.log")[0]
        supervisor.kill()
    assert not alive([pid])


def test_waits_double_up_to_the_most() -> None:
    backoff = Backoff(first_seconds=0.5, most_seconds=30)
    assert [backoff.seconds(failures) for failures in (1, 2, 3, 7, 5_000)] == [0.5, 1, 2, 30, 30]


KILLED_SUPERVISOR = """
import asyncio, os, pathlib, sys
from mcc.local.child import ChildCommand
from mcc.local.supervisor import Supervisor

async def main(directory):
    async with Supervisor(directory, print) as supervisor:
        command = ChildCommand([sys.executable, "-c", {code!r}], dict(os.environ), directory)
        supervisor.start({{"worker": lambda: command}}, 5)
        await asyncio.Event().wait()

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent died")
async def test_kill_9_of_the_supervisor_leaves_no_child(tmp_path: Path) -> None:
    code = KILLED_SUPERVISOR.format(code=STUBBORN)
    supervisor = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path))
    await eventually(lambda: printed(tmp_path / "worker.log"))
    pid = printed(tmp_path / "worker.log")[0]
    assert alive([pid])
    supervisor.kill()
    await supervisor.wait()
    await eventually(lambda: not alive([pid]))


def test_what_an_earlier_family_logged_is_set_aside(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "api.log")
    log.note("old")
    log.rotate()
    log.note("new")
    assert (log.path.read_text(), log.older.read_text()) == ("new\n", "old\n")


def test_a_log_stays_small_while_its_writer_goes_on(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "api.log", largest=100)
    descriptor = log.open()
    try:
        os.write(descriptor, b"x" * 150)
        log.bound()
        os.write(descriptor, b"after")
    finally:
        os.close(descriptor)
    assert log.path.read_text() == "after"
    assert log.older.stat().st_size == 150


def test_the_end_of_a_log_can_be_quoted_whatever_it_holds(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "api.log")
    log.path.write_bytes(b"one\ntwo\n\xff three\n")
    assert log.tail(2) == "two\n\N{REPLACEMENT CHARACTER} three"
