"""Container mode: which walls the drone makes there itself, and what it reports of the others."""

import asyncio
import math
import os
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Mount, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.contained import Contained
from drone.sandbox.places.paths import Workspace
from drone.sandbox.reaper import Process
from mcc.configuration.network import Sandbox

WRITES = Profile(write=True)
SOON = Bounds(20.0)
NAP = str(300_000 + os.getpid())
DAEMONS = f"(setsid sleep {NAP} >/dev/null 2>&1 &); (setsid nohup sleep {NAP} >/dev/null 2>&1 &)"


async def shell(root: Path, script: str, bounds: Bounds = SOON) -> EndedProgram:
    return await Contained().run(("sh", "-c", script), Workspace(root), bounds, profile=WRITES)


def sleepers() -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", pid, "cmdline").read_bytes() == f"sleep\0{NAP}\0".encode():
                found.append(int(pid))
        except OSError:
            continue
    return [pid for pid in found if (process := Process.of(pid)) and process.there]


async def test_a_command_runs_in_its_directory_and_its_status_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    ended = await Contained().run(
        ("sh", "-c", "pwd; echo x > made; echo wrong >&2; exit 7"), Workspace(tmp_path), SOON, profile=WRITES, cwd="sub"
    )
    assert (ended.status, ended.stdout.head, ended.stderr.head) == (7, f"{tmp_path}/sub\n".encode(), b"wrong\n")
    assert (tmp_path / "sub" / "made").exists()
    assert (await shell(tmp_path, "kill -9 $$")).status == 137
    assert (await Contained().run(("no-such-program",), Workspace(tmp_path), SOON, profile=WRITES)).status == 127


async def test_a_program_gets_nothing_of_the_drones_environment(tmp_path: Path) -> None:
    ended = await shell(tmp_path, "env")
    assert b"PATH=/usr/local/bin" in ended.stdout.head and b"VIRTUAL_ENV" not in ended.stdout.head
    assert b"PYTEST_CURRENT_TEST" not in ended.stdout.head


async def test_the_filter_of_system_calls_holds(tmp_path: Path) -> None:
    script = "grep -e ^Seccomp: -e NoNewPrivs /proc/self/status; unshare -U true 2>/dev/null && echo made"
    assert (await shell(tmp_path, script)).stdout.head == b"NoNewPrivs:\t1\nSeccomp:\t2\n"


@pytest.mark.parametrize("last", ["true", f"sleep {NAP}"], ids=["at its end", "killed"])
async def test_processes_that_a_program_left_behind_end_with_it(tmp_path: Path, last: str) -> None:
    ended = await shell(tmp_path, f"{DAEMONS}; {last}", Bounds(1.0))
    assert ended.timed_out is (last != "true") and sleepers() == []


async def test_a_background_program_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    heard = asyncio.Event()
    running = await Contained().start(
        ("sh", "-c", f"{DAEMONS}; echo here; sleep {NAP}"),
        Workspace(tmp_path),
        Bounds(math.inf),
        profile=WRITES,
        on_output=lambda piece: heard.set(),
    )
    await heard.wait()
    assert (await running.kill()).status == 137 and sleepers() == []


async def test_protected_files_that_a_program_makes_are_put_aside(tmp_path: Path) -> None:
    ended = await shell(tmp_path, "mkdir sub; echo x > sub/AGENTS.md")
    assert len(ended.undone) == 1 and not (tmp_path / "sub" / "AGENTS.md").exists()


async def test_what_a_container_cannot_do_is_refused(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with pytest.raises(OSError, match="read-only"):
        await Contained().run(("true",), workspace, SOON)
    with pytest.raises(OSError, match="of its own"):
        await Contained().run(("true",), workspace, SOON, profile=WRITES, mounts=(Mount(workspace.fd, "/further"),))


def test_what_the_container_itself_has_to_hold_is_left_to_the_operator() -> None:
    claimed = Contained().claimed()
    assert claimed["protected"].endswith("not put back")
    assert all("operator vouches" in claimed[wall] for wall in ("namespaces", "egress", "tmp_cap"))


async def test_a_program_gives_no_file_setuid_or_capabilities(tmp_path: Path) -> None:
    script = "touch a; chmod 4755 a; chmod 2755 a; mkdir d; chmod g+s d; stat -c %a a d; grep CapBnd /proc/self/status"
    ended = await shell(tmp_path, f"{{ {script}; }} 2>/dev/null")
    mode, directory, bounding = ended.stdout.head.decode().split("\n")[:3]
    assert (mode, directory) == ("644", "755")
    assert int(bounding.split()[1], 16) & (1 << 31 | 1 << 4) == 0 or os.geteuid() != 0


def test_a_container_accepts_no_list_of_hosts() -> None:
    with pytest.raises(ValueError, match="leave"):
        Sandbox.model_validate({"kind": "container", "egress": {"allow": ["example.org:443"]}})
