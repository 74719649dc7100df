"""Which walls stand on this machine: a program is run in a sandbox as any other, and tries them from within."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from drone.sandbox import probe
from drone.sandbox.bubblewrap import Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, Ended
from drone.sandbox.contained import Contained
from drone.sandbox.paths import Workspace
from mcc.contracts.drones import MISSING, STANDS, SandboxState, Walls

KIND = "bubblewrap"
SECONDS = 20.0

_NAMESPACES = ("user", "pid", "ipc", "uts", "net")
_TRIED = ("namespaces", "no_userns_inside", "seccomp", "unix_sockets", "tmp_cap", "protected", "egress")


async def state_of(sandbox: Bubblewrap | None, problem: str = "") -> SandboxState:
    """What programs of tools run in, each wall tried; `problem` says why there is nothing, where that is known."""
    if sandbox is None:
        return SandboxState(walls=Walls.without(problem or "bubblewrap (bwrap) is not installed"))
    if isinstance(sandbox, Contained):
        return sandbox.state()
    if (cannot := sandbox.problem()) is not None:
        return SandboxState(walls=Walls.without(cannot))
    return await tried(sandbox)


async def tried(sandbox: Bubblewrap) -> SandboxState:
    """What stands, with the whole profile for a workspace that is written to; some 100 ms."""
    directory = Path(tempfile.mkdtemp(prefix="mcc-walls-"))
    try:
        (directory / ".git").mkdir()
        (directory / ".git" / "config").touch()
        ended = await _probed(sandbox, Workspace(directory))
    except OSError as error:
        return SandboxState(kind=KIND, walls=Walls.without(f"it could not be tried: {error.strerror or error}"))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return SandboxState(kind=KIND, walls=Walls(**(_said(ended) | _metered(sandbox))))


def _interpreter() -> Path:
    """That of this very process: the system may have none, or one of another age."""
    return Path(sys.executable).resolve()


def _source() -> str:
    return Path(probe.__file__).read_text("utf-8")


async def _probed(sandbox: Bubblewrap, workspace: Workspace) -> Ended:
    program = _interpreter()
    home = program.parents[1]
    asked = {
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in _NAMESPACES},
        "tmp_bytes": sandbox.limits.tmp_bytes,
        "processes": sandbox.limits.processes,
    }
    beside = not home.is_relative_to("/usr")
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await sandbox.run(
            (str(program), "-I", "-S", "-c", _source(), json.dumps(asked)),
            workspace,
            Bounds(SECONDS),
            profile=Profile(write=True),
            mounts=(Mount(fd, str(home)),) if beside else (),
        )
    finally:
        os.close(fd)


def _said(ended: Ended) -> dict[str, str]:
    try:
        found = json.loads(ended.stdout.head)
    except ValueError:
        said = ended.stderr.head.decode("utf-8", "replace").strip().rpartition("\n")[2]
        why = "it takes too long" if ended.timed_out else said or f"exit status {ended.status}"
        return dict.fromkeys((*_TRIED, "processes"), f"{MISSING}it could not be tried: {why}")
    return {name: STANDS if found[name] is None else f"{MISSING}{found[name]}" for name in (*_TRIED, "processes")}


def _metered(sandbox: Bubblewrap) -> dict[str, str]:
    """The walls that hold for all processes of a call together."""
    meter, limits = sandbox.meter, sandbox.limits
    why = meter.problem or "the controller is not delegated"
    each = f"each process may have {limits.memory_bytes >> 20:,} MB of addresses, all of them together any number"
    found = {"memory": f"{MISSING}{why}; {each}", "cpu": f"{MISSING}{why}"}
    if meter.holds("memory"):
        found["memory"] = STANDS
    if meter.holds("cpu"):
        found["cpu"] = STANDS
    # Processes of root are counted by a control group or by their namespace; of all others by the kernel.
    if meter.holds("pids") or os.geteuid() != 0:
        found["processes"] = STANDS
    return found
