"""The container mode: the operator declares the drone's own container to be the sandbox, and programs run in it."""

import os
import resource
import sys
from collections.abc import Mapping, Sequence

from drone.sandbox import launcher, seccomp
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.command import CommandLine, Preparation, ProgramCall, SandboxProgram
from drone.sandbox.custody import Custody
from drone.sandbox.limits import DEFAULT, ProgramLimits
from drone.sandbox.masks import in_memory
from drone.sandbox.meter import Meter
from drone.sandbox.profile import ENVIRONMENT
from drone.sandbox.protection.guard import FIXED
from drone.sandbox.protection.protected import Protected
from mcc.contracts.drones import MISSING, STANDS, Walls

KIND = "container"

_ITS = f"{MISSING}it is the container's, which the operator vouches for"


class Contained(Bubblewrap):
    """Runs programs without a sandbox of their own: they see the drone's files and network.

    The filter of system calls, the cleared environment, the limits of each process, and the killing of everything that
    a program started work as in bubblewrap; the last only unless the program kills its launcher. A workspace cannot be
    made read-only, and files cannot be hidden or replaced.
    """

    def __init__(
        self, custody: Custody | None = None, *, limits: ProgramLimits = DEFAULT, protected: Protected = FIXED
    ) -> None:
        super().__init__(sys.executable, custody, limits=limits, protected=protected)
        self.meter = Meter(limits, in_namespaces=False)

    def problem(self, argv: Sequence[str] = ("true",)) -> str | None:
        if seccomp.program() is None:
            return f"there is no filter of system calls for this kind of machine ({os.uname().machine})"
        return None

    def _process_limits(self) -> Mapping[int, int]:
        """Without RLIMIT_NPROC: the kernel would count the drone's own processes too."""
        return {limit: value for limit, value in super()._process_limits().items() if limit != resource.RLIMIT_NPROC}

    def _command(self, call: ProgramCall, prepared: Preparation, leash: Sequence[str]) -> CommandLine:
        if not call.profile.write:
            raise OSError(0, "a container cannot make the workspace read-only; it has commands that may write alone")
        if prepared.private:
            raise OSError(0, "the workspace holds files of MCC itself, which a container does not hide")
        if call.instead or call.mounts or call.profile.egress is not None:
            raise OSError(0, "in a container no program has files, directories or a network of its own")
        return _Command(self._sandbox_program, call, leash)

    def claimed(self) -> Mapping[str, str]:
        """The state of each wall as far as it is known without a trial: most are up to the container."""
        walls = dict.fromkeys(Walls.model_fields, _ITS)
        walls["protected"] = f"{MISSING}what is made is put aside afterwards, what is changed is not put back"
        controllers = {"memory": "memory", "processes": "pids", "cpu": "cpu"}
        return walls | {wall: STANDS for wall, controller in controllers.items() if self.meter.holds(controller)}


class _Command:
    """The command line of `drone/sandbox/launcher.py`."""

    def __init__(self, program: SandboxProgram, call: ProgramCall, leash: Sequence[str]) -> None:
        self._filter = in_memory(seccomp.program() or b"")
        pairs = dict(zip(leash[::2], leash[1::2], strict=True))
        fds = (pairs["--info-fd"], pairs["--block-fd"], str(self._filter), str(call.workspace.fd))
        self.argv: tuple[str, ...] = (
            program.path,
            "-I",
            "-S",
            launcher.__file__,
            *fds,
            call.cwd,
            *call.argv,
        )
        self.descriptors: tuple[int, ...] = (self._filter, call.workspace.fd)
        self.environment: Mapping[str, str] = {**ENVIRONMENT, **call.environment}

    def close(self) -> None:
        os.close(self._filter)
