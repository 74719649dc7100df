"""Control groups (cgroup v2): memory, processes and CPU time of one program with all that it starts.

They are used where they are delegated to this drone: by systemd (`Delegate=yes`), in a container with a writable
cgroup, or to root. The layout below the delegated directory, which itself holds no process:

    mcc-processes/     the processes that were in the delegated directory itself, this one among them
    mcc-PID/           one drone, by its pid
    mcc-PID/N/         one program

The next drone removes the groups of drones that have died.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from drone.sandbox.limits import ProgramLimits

CONTROLLERS = ("memory", "pids", "cpu")
OWN = "mcc-processes"

_PERIOD_MICROSECONDS = 100_000
_GONE_SECONDS = 2.0
_LOOK_SECONDS = 0.002
_NUMBERS = count(1)


class GroupUnavailable(Exception):
    """No control group can be used; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The control group of one program; `close` kills the processes left in it and removes it."""

    path: Path

    def add(self, pid: int) -> None:
        """Move a process into the group. Raises OSError."""
        _write(self.path / "cgroup.procs", str(pid))

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed one of its processes for memory."""
        with suppress(OSError):
            lines = (line.split() for line in (self.path / "memory.events").read_text().splitlines())
            return any(words[:1] == ["oom_kill"] and words[1:] != ["0"] for words in lines)
        return False

    def close(self) -> None:
        """Blocks until its processes are gone, two seconds at most."""
        with suppress(OSError):
            # Kernels before 5.14 lack this file.
            _write(self.path / "cgroup.kill", "1")
        give_up = time.monotonic() + _GONE_SECONDS
        while time.monotonic() < give_up:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_LOOK_SECONDS)
            else:
                return


class Cgroups:
    """This drone's cgroup directory; `controllers` are those that are enabled for the groups below it."""

    def __init__(self, home: Path, controllers: frozenset[str]) -> None:
        self._home = home
        self.controllers = controllers

    @classmethod
    def found(cls, *, processes: Path = Path("/proc"), mounted: Path | None = None) -> "Cgroups":
        """Find and prepare them. `mounted`: where cgroup v2 is mounted, None = look it up. Blocks for some
        milliseconds. Raises `GroupUnavailable`."""
        top = mounted or _mounted(processes)
        directory = top / _own_path(processes).lstrip("/")
        try:
            base = _delegated(top, directory)
            _remove_stale(base, lambda pid: (processes / pid).exists())
            home = base / f"mcc-{os.getpid()}"
            if not _enabled(base):
                raise GroupUnavailable(f"the cgroups here have none of the controllers {', '.join(CONTROLLERS)}")
            home.mkdir(exist_ok=True)
            return cls(home, frozenset(_enabled(home)))
        except OSError as error:
            raise GroupUnavailable(
                f"cgroups cannot be used: {error.strerror} ({error.filename or directory})"
            ) from error

    def made(self, limits: ProgramLimits) -> ControlGroup:
        """A new group with these limits. Raises OSError."""
        path = self._home / str(next(_NUMBERS))
        path.mkdir()
        settings = {
            # Without swap, which would let a program take more than its memory; and it is killed as a whole.
            "memory": (("memory.max", limits.memory_bytes), ("memory.swap.max", 0), ("memory.oom.group", 1)),
            "pids": (("pids.max", limits.processes),),
            "cpu": (("cpu.max", f"{round(limits.cpus * _PERIOD_MICROSECONDS)} {_PERIOD_MICROSECONDS}"),),
        }
        for controller in self.controllers:
            for name, value in settings[controller]:
                # A kernel without swap accounting lacks some of these.
                with suppress(FileNotFoundError):
                    _write(path / name, str(value))
        return ControlGroup(path)

    def close(self) -> None:
        with suppress(OSError):
            self._home.rmdir()


def _mounted(processes: Path) -> Path:
    """Where cgroup v2 is mounted. Raises `GroupUnavailable`."""
    try:
        lines = (processes / "self/mountinfo").read_text().splitlines()
    except OSError as error:
        raise GroupUnavailable("there is no /proc") from error
    for line in lines:
        before, _, after = line.partition(" - ")
        if after.split(" ")[0] == "cgroup2":
            return Path(before.split(" ")[4])
    raise GroupUnavailable("cgroups of version 2 are not mounted here")


def _own_path(processes: Path) -> str:
    for line in (processes / "self/cgroup").read_text().splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            return path
    raise GroupUnavailable("this process is in no cgroup of version 2")


def _delegated(top: Path, own: Path) -> Path:
    """The delegated directory. Processes in it, this one included, are moved to its `mcc-processes`: a group with
    processes of its own cannot enable controllers for its children. Raises `GroupUnavailable` and OSError."""
    if own.name == OWN:
        return own.parent
    if own != top and _usable(own.parent) and not _processes(own.parent) and _is_delegated(own.parent):
        return own.parent
    if not _usable(own):
        raise GroupUnavailable("no cgroup is delegated to this drone")
    if own == top and not (own / "cgroup.type").exists():
        return own
    if not (own == top or _is_delegated(own)):
        raise GroupUnavailable("no cgroup is delegated to this drone")
    (own / OWN).mkdir(exist_ok=True)
    for pid in _processes(own):
        with suppress(ProcessLookupError):
            _write(own / OWN / "cgroup.procs", pid)
    return own


def _is_delegated(directory: Path) -> bool:
    """Whether systemd marked it as delegated (the `user.` attribute since systemd 251)."""
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            return os.getxattr(directory, name) == b"1"
    return False


def _usable(directory: Path) -> bool:
    names = ("", "cgroup.procs", "cgroup.subtree_control")
    return all(os.access(directory / name, os.W_OK) for name in names)


def _processes(directory: Path) -> Sequence[str]:
    return (directory / "cgroup.procs").read_text().split()


def _enabled(directory: Path) -> tuple[str, ...]:
    """Enable the missing controllers for the groups below a directory; answers those that are enabled then."""
    control = directory / "cgroup.subtree_control"
    enabled = control.read_text().split()
    for name in CONTROLLERS:
        if name not in enabled:
            with suppress(OSError):
                _write(control, f"+{name}")
    enabled = control.read_text().split()
    return tuple(name for name in CONTROLLERS if name in enabled)


def _remove_stale(base: Path, is_alive: Callable[[str], bool]) -> None:
    """Remove the groups of drones that are gone, with the processes left in them."""
    for drone in base.glob("mcc-[0-9]*"):
        if not is_alive(drone.name.removeprefix("mcc-")):
            for program in drone.glob("[0-9]*"):
                ControlGroup(program).close()
            with suppress(OSError):
                drone.rmdir()


def _write(file: Path, text: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
