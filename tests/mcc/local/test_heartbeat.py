"""A supervised child whose heartbeats end is killed and started again; a stopped child, or one without any, is not."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from mcc.local.child import Backoff, ChildCommand, ChildHeartbeat, Silence, is_stopped
from mcc.local.supervisor import Supervisor
from tests.waiting import eventually

QUICK = Backoff(first_seconds=0.01, most_seconds=0.02, steady_seconds=60)
BEATS = """
import os, time
print(os.getpid(), flush=True)
for _ in range({}):
    os.write(int(os.environ["DRONE_HEARTBEAT"]), b".")
    time.sleep(0.05)
time.sleep(600)
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def looked(silence: Silence, clock: Clock, times: int, *, heard: bool = False, stopped: bool = False) -> float:
    seconds = 0.0
    for _ in range(times):
        clock.now += 0.5
        seconds = silence.look(heard=heard, stopped=stopped)
    return seconds


def test_silence_counts_from_the_last_sign_of_life_and_not_before_the_first() -> None:
    silence = Silence(clock := Clock())
    assert looked(silence, clock, 1_000) == 0
    assert looked(silence, clock, 1, heard=True) == 0
    assert looked(silence, clock, 47) == 23.5
    assert looked(silence, clock, 1, heard=True) == 0
    assert looked(silence, clock, 48) == 24


def test_nothing_counts_while_the_child_is_stopped_and_it_has_all_its_time_afterwards() -> None:
    silence = Silence(clock := Clock())
    looked(silence, clock, 1, heard=True)
    assert looked(silence, clock, 47) == 23.5
    assert looked(silence, clock, 1_000, stopped=True) == 0
    assert looked(silence, clock, 47) == 23.5


def test_a_gap_in_which_the_watcher_was_held_up_itself_hardly_counts() -> None:
    silence = Silence(clock := Clock())
    looked(silence, clock, 1, heard=True)
    clock.now += 10_000.0
    assert silence.look(heard=False, stopped=False) == 1.0


def started(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split() if line.isdigit()] if log.exists() else []


async def test_a_child_that_falls_silent_is_killed_and_started_again(tmp_path: Path) -> None:
    told: list[str] = []
    command = ChildCommand([sys.executable, "-c", BEATS.format(3)], dict(os.environ), tmp_path, silent_seconds=1.0)
    async with Supervisor(tmp_path, told.append, QUICK) as supervisor:
        supervisor.start({"drone": lambda: command}, 5)
        await eventually(lambda: len(started(tmp_path / "drone.log")) == 2)
    assert told[0] == "drone gave no sign of life for 1 s and is killed."
    assert told[1].startswith("drone ended (killed by SIGKILL); starting it again")


async def test_a_stopped_child_is_known_as_such(tmp_path: Path) -> None:
    heartbeat = ChildHeartbeat(0.2)
    command = [sys.executable, "-c", BEATS.format(10_000)]
    environment = {**os.environ, "DRONE_HEARTBEAT": str(heartbeat.descriptor)}
    child = await asyncio.create_subprocess_exec(
        *command, env=environment, pass_fds=(heartbeat.descriptor,), stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    await child.stdout.readline()
    child.send_signal(signal.SIGSTOP)
    await eventually(lambda: is_stopped(child.pid))
    child.send_signal(signal.SIGCONT)
    await eventually(lambda: not is_stopped(child.pid))
    child.kill()
    await child.wait()
    heartbeat.close()


@pytest.mark.parametrize("pid", [0, 2**22 + 1])
def test_a_process_that_is_not_there_is_not_stopped(pid: int) -> None:
    assert not is_stopped(pid)
