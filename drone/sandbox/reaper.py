"""The reaper: a process beside a drone that stops and kills the drone's child processes.

It is run by its path (`python -I -S reaper.py SILENT_SECONDS [PID FROZEN_SECONDS EXIT_SECONDS DIRECTORY]`), in a
session of its own, with the drone's keep-alive pipe as standard input, and uses only the standard library. Commands,
one a line:

    = UNTIL               sign of life; children may run until UNTIL (seconds since boot)
    + PID STARTED         watch this process, its group and its descendants
    - PID                 this process has ended
    !                     kill all watched processes now
    > THREAD ORDER        this thread of the drone works for this order
    < THREAD              this thread works for no order any more

After UNTIL all watched processes are stopped (SIGSTOP), and continued when a later UNTIL comes. When UNTIL has passed
and the pipe is silent, or when the pipe is closed, they are killed: their drone is taken for dead.

With the optional arguments the reaper watches the drone PID too, and kills it with its children: when the pipe was
silent for FROZEN_SECONDS, or when the drone has not ended EXIT_SECONDS after a signal told it to. The interpreter
writes the numbers of signals into the pipe even while no Python code runs (`signal.set_wakeup_fd`). A stopped drone is
left alone. Before a silent drone loses its lease, the reaper notes the order whose thread uses the CPU, as a file in
DIRECTORY, and deletes the file when the drone speaks again.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

_PASSES = 20
_LOOK_SECONDS = 1.0
_OVERDUE_SECONDS = 0.05
_ENDING_LOOK_SECONDS = 0.1
_PIECE = 65_536
_SUSPECT_SHARE = 0.3
"""Share of the frozen time (two leases) after which the order is noted: well before the drone loses its lease."""

_TO_END = bytes((signal.SIGINT, signal.SIGQUIT, signal.SIGTERM))
_SIGNALS = bytes(number for number in range(1, 32) if number != ord("\n"))
"""Bytes that are numbers of signals. They may stand between commands, which contain none of them."""


def boot_seconds() -> float:
    """Seconds since boot, including suspended time where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Process:
    """A process, by its pid and start time (clock ticks since boot): no other process of this boot has both."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process that has this pid now; None when there is none."""
        found = _stat(pid)
        return None if found is None else cls(pid, found.started)

    @property
    def there(self) -> bool:
        """Whether it exists, running or stopped; a zombie counts as ended."""
        found = _stat(self.pid)
        return found is not None and found.started == self.started and found.state not in "ZX"

    def used_seconds(self) -> dict[int, float]:
        """CPU seconds by thread id; empty when the process is gone."""
        found = {}
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{self.pid}/task"):
                stat = _stat(int(name), f"/proc/{self.pid}/task/{name}/stat")
                found[int(name)] = 0.0 if stat is None else stat.used_ticks / os.sysconf("SC_CLK_TCK")
        return found

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        found = _stat(self.pid)
        return found is not None and found.started == self.started and found.state in "Tt"

    def kill(self) -> None:
        if self.there:
            _signal(self.pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class _Stat:
    parent: int
    group: int
    started: int
    state: str
    used_ticks: int


def _stat(pid: int, path: str = "") -> _Stat | None:
    try:
        with open(path or f"/proc/{pid}/stat", "rb") as file:
            # A process can put brackets and spaces into its name, so the name ends at the last bracket.
            fields = file.read().rpartition(b")")[2].split()
    except (OSError, ValueError):
        return None
    if len(fields) <= 19:
        return None
    used = int(fields[11]) + int(fields[12])
    return _Stat(int(fields[1]), int(fields[2]), int(fields[19]), chr(fields[0][0]), used)


def tree_of(leaders: Iterable[Process]) -> set[int]:
    """The pids of the living members of these processes' groups, and of all their descendants.

    A group outlives its leader, so a dead leader still names its group, unless its pid now belongs to another process.
    """
    stats = {
        pid: stat
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit())
        if (stat := _stat(pid)) is not None and stat.state not in "ZX"
    }
    groups = {
        leader.pid for leader in leaders if leader.pid not in stats or stats[leader.pid].started == leader.started
    }
    tree = {pid for pid, stat in stats.items() if stat.group in groups}
    while more := {pid for pid, stat in stats.items() if stat.parent in tree} - tree:
        tree |= more
    return tree


def signal_all(leaders: Iterable[Process], number: signal.Signals) -> None:
    """Send a signal to whole process trees, repeatedly until no new process appears in them."""
    leaders, done = list(leaders), set[int]()
    for _ in range(_PASSES):
        new = tree_of(leaders) - done if leaders else set()
        if not new:
            return
        for pid in new:
            _signal(pid, number)
        done |= new


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


class ReaperVerdict(Enum):
    """What to do with all watched processes."""

    RUN = auto()
    STOP = auto()
    KILL = auto()


def verdict(now: float, until: float, heard: float, silent_seconds: float) -> ReaperVerdict:
    """What to do at time `now`. `until`: when children must stop; `heard`: when the last command came. All times are
    seconds since boot."""
    if now < until:
        return ReaperVerdict.RUN
    return ReaperVerdict.STOP if now - heard < silent_seconds else ReaperVerdict.KILL


class DroneWatchdog:
    """Decides whether to kill a drone that is silent, or that does not end after it was told to.

    Time is counted only while the reaper itself runs: it looks at least once a second, and a longer gap, in which the
    reaper was held up itself, counts as one second. Time during which the drone is stopped does not count.
    """

    def __init__(self, frozen_seconds: float, exit_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._frozen_seconds = frozen_seconds
        self._exit_seconds = exit_seconds
        self._clock = clock
        self._looked_at = clock()
        self._silent = 0.0
        self._ending: float | None = None

    @property
    def look_seconds(self) -> float:
        """Seconds until the next `look`."""
        return min(_LOOK_SECONDS, self._frozen_seconds / 48) if self._ending is None else _ENDING_LOOK_SECONDS

    @property
    def silent_share(self) -> float:
        """The current silence as a share of the allowed one."""
        return self._silent / self._frozen_seconds

    def hear(self) -> None:
        """The drone gave a sign of life."""
        self._silent = 0.0

    def asked_to_end(self) -> None:
        self._ending = self._ending or 0.0

    def look(self, *, stopped: bool) -> str | None:
        """Why the drone must be killed now; None when it may live."""
        now = self._clock()
        gap, self._looked_at = min(now - self._looked_at, _LOOK_SECONDS), now
        if stopped:
            self._silent = 0.0
            return None
        self._silent += gap
        if self._ending is not None:
            self._ending += gap
            if self._ending >= self._exit_seconds:
                return f"it was told to end {self._ending:.0f} s ago"
        return f"it gave no sign of life for {self._silent:.0f} s" if self._silent >= self._frozen_seconds else None


class Culprit:
    """Finds the order that freezes a silent drone: that of the thread which used the CPU since the drone fell silent.

    The order is noted as an empty file in `directory`, named by the order's id.
    """

    def __init__(self, drone: Process, directory: str) -> None:
        self._drone = drone
        self._directory = directory
        self._works: dict[int, str] = {}
        self._used: dict[int, float] | None = None
        self._noted: str | None = None

    def begins(self, thread: int, order: str) -> None:
        self._works[thread] = order

    def ends(self, thread: int) -> None:
        self._works.pop(thread, None)

    def clear(self) -> None:
        """The drone speaks again: forget the measurement, and delete the note."""
        self._used = None
        if self._noted is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._noted)
            self._noted = None

    def seek(self, silent_share: float) -> None:
        """Measure, and note the order. Call it often while the drone is silent."""
        if self._used is None and silent_share > _SUSPECT_SHARE / 4:
            self._used = self._drone.used_seconds()
        elif self._noted is None and self._used is not None and silent_share > _SUSPECT_SHARE:
            order = self._works.get(busiest(self._used, self._drone.used_seconds()) or 0)
            if order is not None and order == os.path.basename(order):
                with contextlib.suppress(OSError):
                    self._noted = os.path.join(self._directory, order)
                    os.close(os.open(self._noted, os.O_WRONLY | os.O_CREAT, 0o600))


def busiest(before: Mapping[int, float], after: Mapping[int, float]) -> int | None:
    """The thread that used more than half of the CPU time between two measurements; None when none did."""
    used = {thread: seconds - before.get(thread, 0.0) for thread, seconds in after.items()}
    most = max(used, key=lambda thread: used[thread], default=0)
    return most if used and used[most] > sum(used.values()) / 2 else None


class Reaper:
    """The watched processes and their state. With a `watchdog` the `drone` itself is watched too."""

    def __init__(
        self,
        silent_seconds: float,
        clock: Callable[[], float] = boot_seconds,
        *,
        drone: Process | None = None,
        watchdog: DroneWatchdog | None = None,
        culprit: Culprit | None = None,
    ) -> None:
        self._culprit = culprit
        self._drone = drone
        self._watchdog = watchdog
        self._silent_seconds = silent_seconds
        self._clock = clock
        self._until = float("-inf")
        self._heard = clock()
        self._held: set[int] = set()
        self.watched: dict[int, Process] = {}

    def hear(self, lines: Iterable[str]) -> None:
        """Obey commands; a malformed one is ignored."""
        for line in lines:
            self._heard = self._clock()
            if self._watchdog is not None:
                self._watchdog.hear()
            if self._culprit is not None:
                self._culprit.clear()
            with contextlib.suppress(ValueError):
                self._obey(*line.split())

    def _obey(self, command: str = "", *words: str) -> None:
        match command, words:
            case "=", [until]:
                self._until = float(until)
            case "+", [pid, started]:
                self.watched[int(pid)] = Process(int(pid), int(started))
            case ">", [thread, order] if self._culprit is not None:
                self._culprit.begins(int(thread), order)
            case "<", [thread] if self._culprit is not None:
                self._culprit.ends(int(thread))
            case "-", [pid]:
                self.watched.pop(int(pid), None)
                self._held.discard(int(pid))
            case "!", []:
                self.end()

    def asked_to_end(self) -> None:
        """The drone received a signal that tells it to end."""
        if self._watchdog is not None:
            self._watchdog.asked_to_end()

    def look(self) -> None:
        """Check the drone and the time, then stop, continue or kill processes accordingly."""
        if self._watchdog is not None and self._drone is not None:
            why = self._watchdog.look(stopped=self._drone.stopped)
            if self._culprit is not None:
                self._culprit.seek(self._watchdog.silent_share)
            if why is not None:
                self.end()
                print(f"The drone with pid {self._drone.pid} is killed: {why}.", file=sys.stderr, flush=True)
                self._drone.kill()
                self._watchdog = None
        if not self.watched:
            return
        match verdict(self._clock(), self._until, self._heard, self._silent_seconds):
            case ReaperVerdict.RUN:
                signal_all([self.watched[pid] for pid in self._held], signal.SIGCONT)
                self._held.clear()
            case ReaperVerdict.STOP:
                new = [child for pid, child in self.watched.items() if pid not in self._held]
                signal_all(new, signal.SIGSTOP)
                self._held.update(child.pid for child in new)
            case ReaperVerdict.KILL:
                self.end()

    def end(self) -> None:
        """Kill all watched processes."""
        signal_all(self.watched.values(), signal.SIGKILL)
        self.watched.clear()
        self._held.clear()

    @property
    def patience(self) -> float | None:
        """Seconds to wait for a command before the next `look`; None = without limit."""
        watch = None if self._watchdog is None else self._watchdog.look_seconds
        if not self.watched:
            return watch
        left = self._until - self._clock()
        return min(left, watch or _LOOK_SECONDS) if left > 0 else _OVERDUE_SECONDS


def serve(pipe: int, reaper: Reaper) -> None:
    """Obey commands until the pipe is closed, then kill the watched processes."""
    rest = b""
    while True:
        if select.select([pipe], [], [], reaper.patience)[0]:
            piece = os.read(pipe, _PIECE)
            if not piece:
                break
            if set(_TO_END) & set(piece):
                reaper.asked_to_end()
            piece = piece.translate(None, _SIGNALS)
            *lines, rest = (rest + piece).split(b"\n")
            reaper.hear(line.decode("ascii", "replace") for line in lines)
        reaper.look()
    reaper.end()


def main() -> None:
    # A service manager signals all processes of a service. This one must live until the drone's pipe is closed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    silent_seconds, *watched = sys.argv[1:]
    if not watched:
        return serve(0, Reaper(float(silent_seconds)))
    pid, frozen_seconds, exit_seconds, directory = watched
    drone = Process.of(int(pid))
    # The drone may be dead by now and its pid reused by another process, which must not be killed.
    if drone is not None and os.getppid() == drone.pid:
        watchdog = DroneWatchdog(float(frozen_seconds), float(exit_seconds))
        serve(0, Reaper(float(silent_seconds), drone=drone, watchdog=watchdog, culprit=Culprit(drone, directory)))


if __name__ == "__main__":
    main()
