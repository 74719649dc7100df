"""The state of the walls is what the probe finds inside a sandbox with the whole profile."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.contained import Contained
from drone.sandbox.walls import probed, state_of
from mcc.contracts.drones import AS_ROOT, MISSING, STANDS, SandboxState, Walls

WITHIN = (
    *("namespaces", "no_userns_inside", "proc_readonly", "sys_readonly", "seccomp", "unix_sockets", "no_setid"),
    *("tmp_cap", "protected", "egress"),
)


async def test_on_a_machine_that_can_make_a_sandbox_its_walls_stand(sandbox: Bubblewrap) -> None:
    state = await probed(sandbox)
    said = state.walls.model_dump()
    assert state.kind == "bubblewrap" and {said[name] for name in WITHIN} == {STANDS}
    for name in ("memory", "processes", "cpu"):
        assert said[name] == STANDS or said[name].startswith(MISSING)


@pytest.mark.parametrize(
    ("left_out", "wall"),
    [
        ("--unshare-net", "namespaces"),
        ("--unshare-ipc", "namespaces"),
        ("--seccomp", "seccomp"),
        ("--seccomp", "unix_sockets"),
        ("--seccomp", "no_setid"),
        ("--remount-ro", "proc_readonly"),
        ("--size", "tmp_cap"),
    ],
)
async def test_a_missing_wall_is_reported(sandbox: Bubblewrap, tmp_path: Path, left_out: str, wall: str) -> None:
    """With a bubblewrap that leaves out one option."""
    said = (await probed(weaker(sandbox, tmp_path, left_out))).walls.model_dump()
    assert said[wall].startswith(MISSING) and "not be tried" not in said[wall]


async def test_a_sys_that_can_be_written_is_a_missing_wall(sandbox: Bubblewrap, tmp_path: Path) -> None:
    if not os.access("/sys/kernel/profiling", os.W_OK):
        pytest.skip("this user can write nothing in /sys")
    said = (await probed(weaker(sandbox, tmp_path, added=("--bind", "/sys", "/sys")))).walls
    assert said.sys_readonly.startswith("missing: /sys/") and said.proc_readonly == STANDS


async def test_a_filter_without_the_modes_is_told_by_the_call_that_passes(sandbox: Bubblewrap, tmp_path: Path) -> None:
    said = (await probed(weaker(sandbox, tmp_path, "--seccomp"))).walls
    assert said.no_setid == "missing: a program can make a file with setuid or setgid (chmod)"


async def test_the_walls_of_a_container_that_can_be_tried_are_tried() -> None:
    state = await probed(Contained())
    said = state.walls
    assert state.kind == "container" and said.no_setid == said.seccomp == said.unix_sockets == STANDS
    assert said.proc_readonly.startswith("missing: ") and "/proc/" in said.proc_readonly
    assert "operator vouches" not in said.proc_readonly + said.sys_readonly


@pytest.mark.parametrize("of", [Bubblewrap, Contained])
async def test_a_drone_that_runs_as_root_is_told(sandbox: Bubblewrap, of: type[Bubblewrap]) -> None:
    tried = sandbox if of is Bubblewrap else Contained()
    assert (await probed(tried)).as_root == (await state_of(None)).as_root == (os.geteuid() == 0)


def test_the_command_that_tells_the_walls_warns_of_root(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "MCC_DATA_DIR": str(tmp_path / "data")}
    ran = subprocess.run(
        (sys.executable, "-m", "drone.cli", "walls"), capture_output=True, text=True, check=True, env=environment
    )
    assert SandboxState.model_validate_json(ran.stdout).as_root == (AS_ROOT in ran.stderr) == (os.geteuid() == 0)


def weaker(sandbox: Bubblewrap, folder: Path, left_out: str = "", added: Sequence[str] = ()) -> Bubblewrap:
    """A bubblewrap that leaves out one option, and begins with others."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if python is None:
        pytest.skip("there is no python3 in the system")
    program = folder / "bwrap"
    words = [word.encode() for word in added]
    program.write_text(WEAKER.format(python=python, bwrap=sandbox.program, left_out=left_out, added=words))
    program.chmod(0o755)
    return Bubblewrap(str(program))


WEAKER = """#!{python} -IS
import os, sys
at = sys.argv.index("--args") + 1
with open(int(sys.argv[at]), "rb") as given:
    words = given.read().split(b"\\0")[:-1]
takes = {{b"--unshare-net": 0, b"--unshare-ipc": 0, b"--seccomp": 1, b"--size": 1, b"--remount-ro": 1}}
kept = {added}
while words:
    word = words.pop(0)
    if word == b"{left_out}":
        del words[: takes[word]]
    else:
        kept.append(word)
fd = os.memfd_create("args", 0)
os.write(fd, b"".join(word + b"\\0" for word in kept))
os.lseek(fd, 0, 0)
sys.argv[at] = str(fd)
os.execv("{bwrap}", ["{bwrap}", *sys.argv[1:]])
"""


async def test_a_bubblewrap_that_does_not_start_leaves_no_wall_standing(tmp_path: Path) -> None:
    state = await probed(Bubblewrap(str(tmp_path / "bwrap")))
    assert set(state.walls.missing) == set(Walls.model_fields)


def test_the_former_state_in_one_sentence_is_still_parsed() -> None:
    off = SandboxState.model_validate("off: no bubblewrap: install it")
    assert off.kind == "off" and off.walls.memory == "missing: no bubblewrap: install it"
    assert SandboxState.model_validate("bubblewrap").kind == "bubblewrap"
    assert SandboxState.model_validate("").kind == "off"
