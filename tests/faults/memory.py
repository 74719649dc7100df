"""Memory that runs out: control groups, in which the kernel ends whoever takes more than his share.

Both versions of control groups are known: `memory.max` in the one hierarchy, and the older one of memory alone.
"""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")


class NoGroup(Exception):
    """No control group can be made here; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Where groups are made, and the names of their files: of the limit, and of what counts the ends for want of it."""

    root: Path
    limit: str
    events: str
    of_processes: str
    """How /proc/PID/cgroup begins the line that names the group of a process."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group with a limit."""

    kind: Kind
    path: Path

    @property
    def ended(self) -> int:
        """How many processes the kernel has ended in here because there was no memory left."""
        lines = (line.split() for line in (self.path / self.kind.events).read_text().splitlines())
        return next(int(line[1]) for line in lines if line[0] == "oom_kill")


def kind_here(mounted: Path = MOUNTED) -> Kind:
    """Raises `NoGroup`."""
    if (mounted / "cgroup.controllers").exists():
        if "memory" not in (mounted / "cgroup.subtree_control").read_text().split():
            raise NoGroup(f"groups below {mounted} cannot limit memory")
        return Kind(mounted, "memory.max", "memory.events", "0::")
    if (mounted / "memory" / "memory.limit_in_bytes").exists():
        return Kind(mounted / "memory", "memory.limit_in_bytes", "memory.oom_control", "memory:")
    raise NoGroup(f"there are no control groups of memory at {mounted}")


@contextmanager
def limited(pid: int, limit_bytes: int) -> Iterator[Group]:
    """What this process takes from now on, and its children, is limited; what it has does not count. Raises `NoGroup`.

    Afterwards it is where it was before, if it is still there.
    """
    kind = kind_here()
    group = Group(kind, kind.root / f"faults-{os.getpid()}-{pid}")
    before = kind.root / _group_of(kind, pid).lstrip("/")
    try:
        group.path.mkdir()
    except OSError as problem:
        raise NoGroup(f"no control group can be made: {problem.strerror}") from problem
    try:
        (group.path / kind.limit).write_text(str(limit_bytes))
        (group.path / "cgroup.procs").write_text(str(pid))
        yield group
    finally:
        for left in (group.path / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                (before / "cgroup.procs").write_text(left)
        group.path.rmdir()


def _group_of(kind: Kind, pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next((line.partition(kind.of_processes)[2] for line in lines if kind.of_processes in line), "/")
