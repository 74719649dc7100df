"""A frozen drone, or one that ignores a signal to end, is killed with its children; a stopped one is left alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from drone.sandbox.reaper import DroneWatchdog, Process, Reaper, busiest, serve
from tests.drone.sandbox.machine import asleep
from tests.waiting import until

ROOT = Path(__file__).parents[3]
NAP = str(300_000 + os.getpid())
NEVER = 3_600.0

Start = Callable[[float, float, str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(frozen_seconds: float, exit_seconds: float, what: str) -> "subprocess.Popen[str]":
            module = "tests.drone.sandbox.freezing_parent"
            command = (sys.executable, "-m", module, str(frozen_seconds), str(exit_seconds), what, NAP, str(tmp_path))
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
            return process

        yield started
    until(lambda: not asleep(NAP), "no child is left")


def test_a_process_that_never_releases_the_interpreter_is_killed_with_its_children(start: Start) -> None:
    frozen = start(1.0, NEVER, "freeze")
    said = frozen.communicate(timeout=30)[1]
    assert frozen.returncode == -signal.SIGKILL
    assert f"The drone with pid {frozen.pid} is killed: it gave no sign of life for" in said
    until(lambda: not asleep(NAP), "its child is gone")


def test_the_order_whose_thread_holds_the_interpreter_is_noted(start: Start, tmp_path: Path) -> None:
    frozen = start(2.0, NEVER, "freeze")
    until(lambda: [note.name for note in tmp_path.iterdir()] == ["a-busy-order"], "the order is noted")
    assert frozen.poll() is None, "it is noted before the process is killed"


def test_the_note_of_an_order_that_releases_the_interpreter_in_time_is_deleted(start: Start, tmp_path: Path) -> None:
    process = start(3.0, NEVER, "stammer")
    until(lambda: bool(list(tmp_path.iterdir())), "the order is noted")
    assert process.stdout is not None and process.stdout.readline() == "spoke again\n"
    until(lambda: not list(tmp_path.iterdir()), "it is struck out")
    assert process.poll() is None


@pytest.mark.parametrize(
    ("after", "thread"),
    [
        ({1: 5.0, 2: 1.0}, 1),
        ({1: 9.0, 2: 9.0}, None),
        ({1: 1.0, 3: 0.5}, 3),
        ({1: 1.0, 2: 1.0}, None),
        ({}, None),
    ],
)
def test_the_busiest_thread_is_the_one_that_used_most_of_the_time(after: dict[int, float], thread: int | None) -> None:
    assert busiest({1: 1.0, 2: 1.0}, after) == thread


@pytest.mark.parametrize("what", ["freeze", "deaf"])
def test_a_process_that_ignores_a_signal_to_end_is_killed_even_if_it_is_frozen(start: Start, what: str) -> None:
    process = start(NEVER, 0.5, what)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == -signal.SIGKILL
    assert "is killed: it was told to end" in said


def test_a_process_that_gives_signs_of_life_or_is_stopped_is_left_alone(start: Start) -> None:
    process = start(1.0, NEVER, "deaf")
    # A program that has just been started has no command line for a moment.
    until(lambda: asleep(NAP), "its child sleeps")
    known = Process.of(process.pid)
    assert known is not None
    process.send_signal(signal.SIGSTOP)
    until(lambda: known.stopped, "it stands still")
    until(lambda: not asleep(NAP), "the child of a process that stands still is gone, as if it had been lost")
    assert known.stopped
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def passes(self, watchdog: DroneWatchdog, seconds: float, *, stopped: bool = False) -> str | None:
        """Let this many seconds pass, looking once a second."""
        why = None
        for _ in range(int(seconds)):
            self.now += 1.0
            why = why or watchdog.look(stopped=stopped)
        return why


def watchdog_of(clock: Clock) -> DroneWatchdog:
    return DroneWatchdog(24.0, 9.8, clock)


def test_silence_is_counted_from_the_last_sign_of_life() -> None:
    watchdog = watchdog_of(clock := Clock())
    assert clock.passes(watchdog, 23) is None
    watchdog.hear()
    assert clock.passes(watchdog, 23) is None
    assert clock.passes(watchdog, 1) == "it gave no sign of life for 24 s"


def test_silence_while_stopped_does_not_count_and_the_full_time_follows() -> None:
    watchdog = watchdog_of(clock := Clock())
    watchdog.asked_to_end()
    assert clock.passes(watchdog, 9) is None
    assert clock.passes(watchdog, 1_000, stopped=True) is None
    assert clock.passes(watchdog, 1) == "it was told to end 10 s ago"
    watchdog = watchdog_of(clock)
    assert clock.passes(watchdog, 23) is None
    assert clock.passes(watchdog, 1, stopped=True) is None
    assert clock.passes(watchdog, 23) is None


def test_time_in_which_the_watcher_itself_was_held_up_is_not_counted() -> None:
    watchdog = watchdog_of(clock := Clock())
    clock.now += 10_000.0
    assert watchdog.look(stopped=False) is None
    assert clock.passes(watchdog, 22) is None
    assert clock.passes(watchdog, 1) is not None


def test_a_second_signal_does_not_postpone_the_end() -> None:
    watchdog = watchdog_of(clock := Clock())
    watchdog.asked_to_end()
    assert clock.passes(watchdog, 9) is None
    watchdog.asked_to_end()
    watchdog.hear()
    assert clock.passes(watchdog, 1) == "it was told to end 10 s ago"


def test_the_number_of_a_signal_before_a_command_does_not_break_it() -> None:
    """The interpreter writes every signal with a Python handler to the pipe, not only those that tell the drone to
    end."""
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as child:
        process = Process.of(child.pid)
        assert process is not None
        reading, writing = os.pipe()
        with open(writing, "wb") as pipe:
            pipe.write(bytes((signal.SIGHUP, signal.SIGCHLD)) + f"+ {process.pid} {process.started}\n".encode())
        serve(reading, Reaper(600.0))
        os.close(reading)
        try:
            assert child.wait(20) == -signal.SIGKILL
        finally:
            child.kill()
