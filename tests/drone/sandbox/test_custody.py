"""Children in custody stop when their drone may not act, and never outlive it: with real processes, killed and
stopped."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.custody import Custody, TermOver, left_behind
from drone.sandbox.places.paths import Workspace
from drone.sandbox.reaper import Process, Reaper, ReaperVerdict, boot_seconds, tree_of, verdict
from tests.drone.sandbox.machine import asleep
from tests.waiting import until

ROOT = Path(__file__).parents[3]
NAP = str(200_000 + os.getpid())
"""Seconds that no other test process sleeps for: tests run side by side."""

IN_ITS_GROUP = f"sleep {NAP} & sleep {NAP}"
WITH_A_DAEMON = f"(setsid setsid sleep {NAP} </dev/null >/dev/null 2>&1 &); sleep {NAP}"
FOR_EVER = 3_600.0


def sleepers() -> list[Process]:
    return asleep(NAP)


class Parent:
    """A process with children in custody."""

    def __init__(self, kind: str, script: str, seconds: float, record: Path) -> None:
        command = (sys.executable, "-m", "tests.drone.sandbox.keeping_parent", kind, script, str(seconds), str(record))
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
        )

    def with_children(self, number: int) -> "Parent":
        until(lambda: len(sleepers()) >= number, f"{number} children run")
        return self

    def give(self, seconds: float) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        """Kill the parent without reading its output to the end: a child that outlives it would keep that open."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


Start = Callable[[str, str, float], Parent]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(kind: str, script: str, seconds: float) -> Parent:
            parent = Parent(kind, script, seconds, tmp_path / "children")
            stack.callback(parent.end)
            return parent

        yield started
    until(lambda: not sleepers(), "nothing is left behind")


@pytest.fixture(params=["bubblewrap", "plain"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap":
        request.getfixturevalue("sandbox")
    return str(request.param)


def test_children_die_with_a_parent_that_is_killed(start: Start, kind: str) -> None:
    start(kind, IN_ITS_GROUP, FOR_EVER).with_children(2).signal(signal.SIGKILL)
    until(lambda: not sleepers(), "the children are gone")


def test_children_of_a_stopped_parent_die_when_its_time_is_over(start: Start, kind: str) -> None:
    parent = start(kind, IN_ITS_GROUP, FOR_EVER).with_children(2)
    parent.signal(signal.SIGSTOP)
    assert parent.process.poll() is None and all(child.there for child in sleepers())
    parent.signal(signal.SIGCONT)
    parent.give(1.0)
    until(lambda: all(child.stopped for child in sleepers()), "the children are held back")
    parent.signal(signal.SIGSTOP)
    until(lambda: not sleepers(), "the children are gone while their parent stands still")
    parent.signal(signal.SIGCONT)
    assert "ended" in parent.process.communicate()[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_daemon_in_the_sandbox_dies_with_the_rest(start: Start, sandbox: Bubblewrap, number: signal.Signals) -> None:
    start("bubblewrap", WITH_A_DAEMON, 2.0).with_children(2).signal(number)
    until(lambda: not sleepers(), "the children and the daemon are gone")


def test_children_are_stopped_when_the_time_is_over_and_continue_when_there_is_more(start: Start, kind: str) -> None:
    script = WITH_A_DAEMON if kind == "bubblewrap" else IN_ITS_GROUP
    parent = start(kind, script, 1.0).with_children(2)
    until(lambda: all(child.stopped for child in sleepers()), "both are stopped")
    assert len(sleepers()) == 2
    parent.give(FOR_EVER)
    until(lambda: not any(child.stopped for child in sleepers()), "both go on")
    assert len(sleepers()) == 2
    assert parent.process.poll() is None


def test_a_reaper_that_is_killed_is_replaced(start: Start, kind: str) -> None:
    parent = start(kind, IN_ITS_GROUP, FOR_EVER).with_children(2)
    until(lambda: len(reapers_of(parent)) == 1, "there is a reaper")
    (first,) = reapers_of(parent)
    os.kill(first, signal.SIGKILL)
    until(lambda: any(pid != first for pid in reapers_of(parent)), "there is another one")
    assert len(sleepers()) == 2
    parent.signal(signal.SIGKILL)
    until(lambda: not sleepers(), "the children are gone")


def reapers_of(parent: Parent) -> list[int]:
    children = Path(f"/proc/{parent.process.pid}/task/{parent.process.pid}/children").parent.parent
    found = [int(pid) for task in children.iterdir() for pid in (task / "children").read_text().split()]
    return [pid for pid in found if is_a_reaper(pid)]


def is_a_reaper(pid: int) -> bool:
    """Whether this process is a reaper; False for one that has ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"reaper.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def test_the_reaper_ends_with_its_drone(start: Start) -> None:
    parent = start("plain", IN_ITS_GROUP, FOR_EVER).with_children(2)
    until(lambda: bool(reapers_of(parent)), "there is a reaper")
    reaper = Process.of(reapers_of(parent)[0])
    parent.signal(signal.SIGKILL)
    assert reaper is not None
    until(lambda: not reaper.there, "it is gone")


def test_the_record_names_children_whose_parent_and_reaper_were_both_killed(start: Start, tmp_path: Path) -> None:
    parent = start("plain", IN_ITS_GROUP, FOR_EVER).with_children(2)
    until(lambda: bool(reapers_of(parent)), "there is a reaper")
    (reaper,) = reapers_of(parent)
    parent.signal(signal.SIGSTOP)
    os.kill(reaper, signal.SIGKILL)
    parent.signal(signal.SIGKILL)
    parent.process.wait()
    leaders = left_behind(tmp_path / "children")
    assert {child.pid for child in sleepers()} <= tree_of(leaders)
    for pid in tree_of(leaders):
        os.kill(pid, signal.SIGKILL)


async def test_a_program_does_not_start_after_the_term_of_its_call(sandbox: Bubblewrap, tmp_path: Path) -> None:
    now = boot_seconds()
    lost = threading.Thread(target=sandbox.custody.end_term)

    def over() -> float:
        if lost.ident is None:
            lost.start()
        return now

    sandbox.custody.guard(over, margin_seconds=1.0)
    ended = await sandbox.run(("touch", "/tmp/effect"), Workspace(tmp_path), Bounds(20.0))
    assert ended.status != 0 and not ended.timed_out
    sandbox.custody.close()


async def test_a_program_waits_until_its_drone_may_act(sandbox: Bubblewrap, tmp_path: Path) -> None:
    asked = 0

    def soon() -> float:
        nonlocal asked
        asked += 1
        return boot_seconds() + (FOR_EVER if asked > 5 else -0.1)

    # The reaper hears of more time a quarter of the margin later, and lets the program stand until then.
    sandbox.custody.guard(soon, margin_seconds=8.0)
    ended = await sandbox.run(("echo", "done"), Workspace(tmp_path), Bounds(60.0))
    assert ended.stdout.head == b"done\n" and asked > 5
    sandbox.custody.close()


async def test_losing_the_lease_kills_running_programs(sandbox: Bubblewrap, tmp_path: Path) -> None:
    sandbox.custody.guard(lambda: boot_seconds() + FOR_EVER, margin_seconds=2.0)
    task = asyncio.create_task(sandbox.run(("sh", "-c", WITH_A_DAEMON), Workspace(tmp_path), Bounds(60.0)))
    while len(sleepers()) < 2:
        await asyncio.to_thread(os.sched_yield)
    await asyncio.to_thread(sandbox.custody.end_term)
    assert (await task).status == 137
    assert sleepers() == []
    with pytest.raises(TermOver):
        await sandbox.custody.wait_until_trusted(0)
    sandbox.custody.close()


def test_unguarded_children_simply_run() -> None:
    custody = Custody()
    custody.watch(os.getpid())
    assert custody.trusted
    custody.release(os.getpid())
    custody.close()


@pytest.mark.parametrize(
    ("now", "until", "heard", "expected"),
    [
        (9.0, 10.0, 0.0, ReaperVerdict.RUN),
        (10.0, 10.0, 9.8, ReaperVerdict.STOP),
        (11.0, 10.0, 10.8, ReaperVerdict.STOP),
        (11.0, 10.0, 9.9, ReaperVerdict.KILL),
        (10.0, 10.0, 8.0, ReaperVerdict.KILL),
    ],
)
def test_the_verdict_depends_on_the_time_and_on_the_last_sign_of_life(
    now: float, until: float, heard: float, expected: ReaperVerdict
) -> None:
    assert verdict(now, until, heard, 1.0) is expected


def test_malformed_commands_are_ignored() -> None:
    reaper = Reaper(1.0)
    reaper.hear(["", "?", "+ x y", "+ 1", "= ", "- 7", "+ 4000000 1", "\ufffd"])
    assert list(reaper.watched) == [4_000_000]
    reaper.hear(["- 4000000"])
    assert reaper.patience is None


def test_a_process_is_identified_by_its_pid_and_start_time() -> None:
    me = Process.of(os.getpid())
    assert me is not None and me.there and not me.stopped
    other = Process(me.pid, me.started + 1)
    assert not other.there
    assert me.pid not in tree_of([other])
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as leader:
        found = Process.of(leader.pid)
        assert found is not None
        assert tree_of([found]) == {leader.pid}
        assert tree_of([Process(leader.pid, found.started + 1)]) == set()
        leader.kill()
