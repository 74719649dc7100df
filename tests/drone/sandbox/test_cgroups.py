"""Control groups: where they may be used, and the limits that they enforce where this machine has them."""

import os
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.cgroups import CONTROLLERS, OWN, Cgroups, ControlGroup, GroupUnavailable
from drone.sandbox.child import Bounds
from drone.sandbox.limits import ProgramLimits
from drone.sandbox.meter import release
from drone.sandbox.places.paths import Workspace

FILES = ("cgroup.procs", "cgroup.subtree_control", "cgroup.type")


class Machine:
    """A fake cgroup file system: plain files with the names and contents that the kernel would show."""

    def __init__(self, folder: Path, own: str) -> None:
        self.proc, self.top = folder / "proc", folder / "cgroup"
        (self.proc / "self").mkdir(parents=True)
        (self.proc / "self" / "cgroup").write_text(f"1:name=systemd:/x\n0::{own}\n")
        mounted = f"30 20 0:26 / {self.top} rw - cgroup2 cgroup2 rw\n"
        (self.proc / "self" / "mountinfo").write_text(f"20 1 8:1 / / rw - ext4 /dev/vda rw\n{mounted}")
        self.own = self.group(own.lstrip("/"))

    def group(self, name: str, *, delegated: bool = False, controllers: str = "", processes: str = "") -> Path:
        made = self.top / name
        made.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            (made / file).touch()
        (made / "cgroup.subtree_control").write_text(controllers)
        (made / "cgroup.procs").write_text(processes)
        if delegated:
            try:
                os.setxattr(made, "user.delegate", b"1")
            except OSError:
                pytest.skip("this file system has no attributes")
        return made

    def found(self) -> Cgroups:
        return Cgroups.found(processes=self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "/system.slice/mcc.service")


def test_without_a_delegated_cgroup_none_is_used(machine: Machine) -> None:
    with pytest.raises(GroupUnavailable, match="no cgroup is delegated"):
        machine.found()


def test_cgroup_v1_alone_is_not_used(machine: Machine) -> None:
    (machine.proc / "self" / "mountinfo").write_text("30 20 0:26 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n")
    with pytest.raises(GroupUnavailable, match="version 2"):
        machine.found()


def test_a_delegated_cgroup_without_controllers_is_reported(machine: Machine) -> None:
    machine.group("system.slice/mcc.service", delegated=True)
    with pytest.raises(GroupUnavailable, match="memory, pids, cpu"):
        machine.found()


def test_processes_of_the_delegated_cgroup_move_below_it(machine: Machine) -> None:
    own = machine.group("system.slice/mcc.service", delegated=True, controllers="memory pids", processes="7\n8\n")
    below = machine.group(f"system.slice/mcc.service/{OWN}")
    with pytest.raises(GroupUnavailable):
        machine.found()
    # Each write is one process to the kernel; here the last one stays.
    assert (below / "cgroup.procs").read_text() == "8"
    assert (own / f"mcc-{os.getpid()}").is_dir()


def test_a_drone_inside_mcc_processes_uses_the_cgroup_above(tmp_path: Path) -> None:
    machine = Machine(tmp_path, f"/user.slice/run.scope/{OWN}")
    above = machine.group("user.slice/run.scope", controllers="memory pids cpu")
    with pytest.raises(GroupUnavailable):
        machine.found()
    assert (above / f"mcc-{os.getpid()}").is_dir()


def test_cgroups_of_a_dead_drone_are_removed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, f"/user.slice/run.scope/{OWN}")
    above = machine.group("user.slice/run.scope", controllers="memory")
    (machine.proc / "11").mkdir()
    for pid in (11, 12):
        (above / f"mcc-{pid}" / "1").mkdir(parents=True)
    with pytest.raises(GroupUnavailable):
        machine.found()
    assert (above / "mcc-11").is_dir() and not (above / "mcc-12").exists()


def test_a_group_tells_whether_a_process_in_it_ran_out_of_memory(tmp_path: Path) -> None:
    group = ControlGroup(tmp_path)
    for events, ran_out in {"oom 0\noom_kill 0\n": False, "oom 1\noom_kill 3\n": True, "": False}.items():
        (tmp_path / "memory.events").write_text(events)
        assert group.ran_out_of_memory is ran_out


def test_the_kernels_version_is_two_numbers() -> None:
    assert release() > (2, 6)


async def test_where_cgroups_are_delegated_they_limit_a_whole_program(sandbox: Bubblewrap, tmp_path: Path) -> None:
    limits = ProgramLimits(memory_bytes=128 << 20, processes=30, cpus=0.5)
    small = Bubblewrap(sandbox.program, limits=limits)
    if not all(map(small.meter.holds, CONTROLLERS)):
        pytest.skip(f"no control groups: {small.meter.problem}")
    several = "for turn in 1 2 3 4; do head -c 60M /dev/zero | tail -c 60M | sleep 5 & done; wait"
    ended = await small.run(("sh", "-c", several), Workspace(tmp_path), Bounds(60.0), profile=Profile(write=True))
    assert ended.ran_out_of_memory and ended.status == 137
    many = "for turn in $(seq 60); do sleep 2 & done; wait"
    ended = await small.run(("sh", "-c", many), Workspace(tmp_path), Bounds(60.0), merged=True)
    assert b"ork" in ended.stdout.head and ended.status != 0
