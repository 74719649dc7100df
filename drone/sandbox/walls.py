"""Which walls of the sandbox stand on this machine: the probe runs in a sandbox and tests them from inside."""

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drone.sandbox import probe, seccomp
from drone.sandbox.bubblewrap import Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.contained import KIND as CONTAINER
from drone.sandbox.contained import Contained
from drone.sandbox.places.paths import Workspace
from mcc.contracts.drones import MISSING, STANDS, SandboxState, Walls

KIND = "bubblewrap"
SECONDS = 20.0

_NAMESPACES = ("user", "pid", "ipc", "uts", "net")
_IN_A_CONTAINER = ("proc_readonly", "sys_readonly", "no_setid", "seccomp", "unix_sockets", "no_userns_inside")
"""Walls that the drone makes, or can see, in its own container; the last is tried last, for it may lift others."""

_TRIED = ("namespaces", "tmp_cap", "protected", "egress", "processes", *_IN_A_CONTAINER)


async def state_of(sandbox: Bubblewrap | None, problem: str = "") -> SandboxState:
    """The sandbox of this drone's tools with each wall tested; `problem`: why there is none, where that is known."""
    as_root = os.geteuid() == 0
    cannot = (problem or "bubblewrap (bwrap) is not installed") if sandbox is None else sandbox.problem()
    if sandbox is None or cannot is not None:
        return SandboxState(walls=Walls.without(cannot or ""), as_root=as_root)
    return await probed(sandbox)


async def probed(sandbox: Bubblewrap) -> SandboxState:
    """Test the walls, with the profile for a writable workspace; takes some 100 ms."""
    kind, as_root = (CONTAINER if isinstance(sandbox, Contained) else KIND), os.geteuid() == 0
    directory = Path(tempfile.mkdtemp(prefix="mcc-walls-"))
    try:
        (directory / ".git").mkdir()
        (directory / ".git" / "config").touch()
        walls = await _found(sandbox, Workspace(directory))
    except OSError as error:
        without = Walls.without(f"it could not be tried: {error.strerror or error}")
        return SandboxState(kind=kind, walls=without, as_root=as_root)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return SandboxState(kind=kind, walls=Walls(**walls), as_root=as_root)


async def _found(sandbox: Bubblewrap, workspace: Workspace) -> dict[str, str]:
    """The state of each wall. Raises OSError where the probe cannot be started."""
    if isinstance(sandbox, Contained):
        ended = await _run_probe(sandbox, workspace, _IN_A_CONTAINER)
        return {**sandbox.claimed(), **_findings(ended, _IN_A_CONTAINER)}
    ended = await _run_probe(sandbox, workspace, _TRIED)
    return _findings(ended, _TRIED) | _metered(sandbox)


def _probe_program() -> tuple[Path, str]:
    """The interpreter and the source text of the probe. Blocks.

    The interpreter is that of this process: the system may have none, or one of another version.
    """
    return Path(sys.executable).resolve(), Path(probe.__file__).read_text("utf-8")


def _numbers() -> dict[str, int]:
    """The system calls on this machine that give a file a mode, and those that a filter hides."""
    column = seccomp.ARCHITECTURES[platform.machine()].column
    calls = {**seccomp.MODES, "openat2": seccomp.HIDDEN["openat2"]}
    return {name: number for name, call in calls.items() if (number := call[column]) is not None}


async def _run_probe(sandbox: Bubblewrap, workspace: Workspace, walls: Sequence[str]) -> EndedProgram:
    program, source = _probe_program()
    home = program.parents[1]
    question = {
        "walls": walls,
        "modes": _numbers(),
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES},
        "tmp_bytes": sandbox.limits.tmp_bytes,
        "processes": sandbox.limits.processes,
    }
    beside = not home.is_relative_to("/usr") and not isinstance(sandbox, Contained)
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await sandbox.run(
            (str(program), "-I", "-S", "-c", source, json.dumps(question)),
            workspace,
            Bounds(SECONDS),
            profile=Profile(write=True),
            mounts=(Mount(fd, str(home)),) if beside else (),
        )
    finally:
        os.close(fd)


def _findings(ended: EndedProgram, walls: Sequence[str]) -> dict[str, str]:
    try:
        found = json.loads(ended.stdout.head)
    except ValueError:
        last_line = ended.stderr.head.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = "it takes too long" if ended.timed_out else last_line or f"exit status {ended.status}"
        return dict.fromkeys(walls, f"{MISSING}it could not be tried: {why}")
    return {name: STANDS if found[name] is None else f"{MISSING}{found[name]}" for name in walls}


def _metered(sandbox: Bubblewrap) -> dict[str, str]:
    """The limits that hold for all processes of a call together."""
    meter, limits = sandbox.meter, sandbox.limits
    why = meter.problem or "the controller is not delegated"
    each = f"each process may have {limits.memory_bytes >> 20:,} MB of addresses, all of them together any number"
    states = {"memory": f"{MISSING}{why}; {each}", "cpu": f"{MISSING}{why}"}
    if meter.holds("memory"):
        states["memory"] = STANDS
    if meter.holds("cpu"):
        states["cpu"] = STANDS
    # A control group or the pid namespace counts the processes of root, RLIMIT_NPROC those of any other user.
    if meter.holds("pids") or os.geteuid() != 0:
        states["processes"] = STANDS
    return states
