"""What holds a whole program, with all that it starts, to its limits: a control group, or what the kernel has else."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from functools import cached_property

from drone.sandbox.cgroups import Cgroups, Group, Unavailable
from drone.sandbox.child import First
from drone.sandbox.limits import Limits
from mcc.processors import PROCESSORS

_FEWEST = 301
"""The lowest limit that the kernel takes for a process namespace (`pid_max`, since Linux 6.14)."""

_OWN_NUMBER = (6, 14)
_TRIES = 3

_WRITE = "echo {most} > /proc/sys/kernel/pid_max"


@dataclass(slots=True)
class Metered:
    """One program's. Put its first process in before it begins, and close it when it has ended."""

    limits: Limits
    group: Group | None
    by_namespace: bool

    async def hold(self, first: First) -> None:
        """Raises OSError when it cannot be held."""
        if self.group is not None:
            self.group.add(first.pid)
        elif self.by_namespace:
            await _bound_namespace(first.pid, self.limits.processes)

    @property
    def ran_out_of_memory(self) -> bool:
        return self.group is not None and self.group.ran_out_of_memory

    def close(self) -> None:
        """Blocks, while something is left in it."""
        if self.group is not None:
            self.group.close()


class Meter:
    """Holds programs to these limits, as far as this machine can. The first use prepares that, which blocks."""

    def __init__(self, limits: Limits, *, in_namespaces: bool = True) -> None:
        """`in_namespaces`: programs have one of processes."""
        self.limits = limits
        self._in_namespaces = in_namespaces
        self.problem = ""
        """Why there are no control groups."""

    @cached_property
    def cgroups(self) -> Cgroups | None:
        try:
            return Cgroups.found()
        except (Unavailable, OSError) as error:
            self.problem = str(error)
            return None

    @cached_property
    def by_namespace(self) -> bool:
        """Whether the process namespace is bounded: the kernel does not count root's processes (RLIMIT_NPROC)."""
        if not self._in_namespaces or os.geteuid() != 0 or self.holds("pids") or shutil.which("nsenter") is None:
            return False
        # Before that there is one number for all namespaces: it would be everybody's.
        return release() >= _OWN_NUMBER

    def holds(self, controller: str) -> bool:
        """Whether a control group bounds `memory`, `pids` or `cpu`."""
        return self.cgroups is not None and controller in self.cgroups.controllers

    def metered(self, *, ours: bool = False) -> Metered:
        """For one program; one of `ours` makes no more processes than it needs. Blocks for a millisecond.

        Raises OSError.
        """
        group = None if self.cgroups is None else self.cgroups.made(self.limits)
        return Metered(self.limits, group, self.by_namespace and not ours)


async def _bound_namespace(pid: int, processes: int) -> None:
    """As root of the machine; in a container as root of the sandbox, which it is until its set-up comes to an end."""
    script = _WRITE.format(most=max(_FEWEST, processes + 1))
    for user in ((), ("--user", "--preserve-credentials")) * _TRIES:
        try:
            with PROCESSORS.all_available():
                writer = await asyncio.create_subprocess_exec(
                    *("nsenter", "--target", str(pid), "--pid", *user, "--", "sh", "-c", script),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                )
        except FileNotFoundError:
            return
        if await writer.wait() == 0:
            return


def release() -> tuple[int, int]:
    """The kernel's version, (0, 0) where it has none that can be read."""
    major, _, rest = os.uname().release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
