"""The meter holds a program and all that it starts to its limits: by a control group, or else by its pid namespace."""

import asyncio
import os
import shutil
from dataclasses import dataclass
from functools import cached_property

from drone.sandbox.cgroups import Cgroups, ControlGroup, GroupUnavailable
from drone.sandbox.child import FirstProcess
from drone.sandbox.limits import ProgramLimits
from mcc.processors import PROCESSORS

_FEWEST = 301
"""The lowest `pid_max` that the kernel accepts for a pid namespace (since Linux 6.14)."""

_OWN_NUMBER = (6, 14)
"""The first kernel in which each pid namespace has a `pid_max` of its own."""

_TRIES = 3

_WRITE = "echo {most} > /proc/sys/kernel/pid_max"


@dataclass(slots=True)
class Metered:
    """The limits of one program. Call `hold` with its first process before it starts, and `close` when it has ended."""

    limits: ProgramLimits
    group: ControlGroup | None
    by_namespace: bool

    async def hold(self, first: FirstProcess) -> None:
        """Put the process under the limits. Raises OSError when that fails."""
        if self.group is not None:
            self.group.add(first.pid)
        elif self.by_namespace:
            await _bound_namespace(first.pid, self.limits.processes)

    @property
    def ran_out_of_memory(self) -> bool:
        return self.group is not None and self.group.ran_out_of_memory

    def close(self) -> None:
        """Remove the control group; blocks while processes are left in it, two seconds at most."""
        if self.group is not None:
            self.group.close()


class Meter:
    """Holds programs to these limits, as far as this machine can. The first use prepares control groups and blocks."""

    def __init__(self, limits: ProgramLimits, *, in_namespaces: bool = True) -> None:
        """`in_namespaces`: each program runs in a pid namespace of its own."""
        self.limits = limits
        self._in_namespaces = in_namespaces
        self.problem = ""
        """Why there are no control groups, once `cgroups` was asked for."""

    @cached_property
    def cgroups(self) -> Cgroups | None:
        try:
            return Cgroups.found()
        except (GroupUnavailable, OSError) as error:
            self.problem = str(error)
            return None

    @cached_property
    def by_namespace(self) -> bool:
        """Whether `pid_max` of the pid namespace bounds the processes. Needed for root, whose processes RLIMIT_NPROC
        does not count."""
        if not self._in_namespaces or os.geteuid() != 0 or self.holds("pids") or shutil.which("nsenter") is None:
            return False
        # Older kernels have one pid_max for the whole machine, which this would change.
        return release() >= _OWN_NUMBER

    def holds(self, controller: str) -> bool:
        """Whether a control group bounds `memory`, `pids` or `cpu`."""
        return self.cgroups is not None and controller in self.cgroups.controllers

    def metered(self, *, ours: bool = False) -> Metered:
        """The limits for one program. `ours`: a program of MCC's own (git), whose processes need no bound by
        namespace. Blocks for a millisecond. Raises OSError."""
        group = None if self.cgroups is None else self.cgroups.made(self.limits)
        return Metered(self.limits, group, self.by_namespace and not ours)


async def _bound_namespace(pid: int, processes: int) -> None:
    """Write `pid_max` in the pid namespace of process `pid`: as root of the machine or, in a container, as root of the
    sandbox's user namespace, which this user is there until bubblewrap's set-up ends."""
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
    """The kernel's major and minor version; (0, 0) where they cannot be parsed."""
    major, _, rest = os.uname().release.partition(".")
    minor = rest.partition(".")[0].partition("-")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
