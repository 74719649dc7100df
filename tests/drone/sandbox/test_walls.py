"""The state of the walls is what the probe finds inside a sandbox with the whole profile."""

import shutil
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.walls import probed
from mcc.contracts.drones import MISSING, STANDS, SandboxState, Walls

WITHIN = ("namespaces", "no_userns_inside", "seccomp", "unix_sockets", "tmp_cap", "protected", "egress")


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
        ("--size", "tmp_cap"),
    ],
)
async def test_a_missing_wall_is_reported(sandbox: Bubblewrap, tmp_path: Path, left_out: str, wall: str) -> None:
    """With a bubblewrap that leaves out one option."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
    if python is None:
        pytest.skip("there is no python3 in the system")
    weaker = tmp_path / "bwrap"
    weaker.write_text(WEAKER.format(python=python, bwrap=sandbox.program, left_out=left_out))
    weaker.chmod(0o755)
    said = (await probed(Bubblewrap(str(weaker)))).walls.model_dump()
    assert said[wall].startswith(MISSING) and "not be tried" not in said[wall]


WEAKER = """#!{python} -IS
import os, sys
at = sys.argv.index("--args") + 1
with open(int(sys.argv[at]), "rb") as given:
    words = given.read().split(b"\\0")[:-1]
takes = {{b"--unshare-net": 0, b"--unshare-ipc": 0, b"--seccomp": 1, b"--size": 1}}
kept = []
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
