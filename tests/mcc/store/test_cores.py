"""The number of processors for this process, and of drones to start on them."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from mcc.local.programs import drones_for
from mcc.resources import cores_here

V2 = "0::/user/mcc\n"
V1 = "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n"


def machine(root: Path, groups: str, files: Mapping[str, str]) -> Path:
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        place = root / "sys" / "fs" / "cgroup" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        (V2, {}, 8.0),
        (V2, {"user/mcc/cpu.max": "max 100000\n"}, 8.0),
        (V2, {"user/mcc/cpu.max": "150000 100000\n"}, 1.5),
        (V2, {"user/mcc/cpu.max": "400000 100000\n", "user/cpu.max": "250000 100000\n"}, 2.5),
        (V2, {"cpu.max": "50000 100000\n"}, 0.5),
        (V2, {"user/mcc/cpu.max": "1600000 100000\n"}, 8.0),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "300000\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 3.0),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "-1\n", "cpu/docker/abc/cpu.cfs_period_us": "100000\n"}, 8.0),
        (V2, {"cpu.max": "garbage\n"}, 8.0),
    ],
)
def test_the_tightest_quota_counts_where_it_is_less_than_the_processors(
    tmp_path: Path, groups: str, files: Mapping[str, str], cores: float
) -> None:
    assert cores_here(machine(tmp_path, groups, files), affinity=lambda: 8) == cores


def test_without_control_groups_the_processors_count_that_it_may_run_on(tmp_path: Path) -> None:
    assert cores_here(tmp_path, affinity=lambda: 3) == 3.0


@pytest.mark.parametrize(
    ("cores", "drones"), [(0.5, 1), (1.0, 1), (1.9, 1), (2.0, 2), (3.0, 3), (4.0, 3), (8.5, 7), (64.0, 63)]
)
def test_a_drone_for_each_core_but_one_where_there_are_many(cores: float, drones: int) -> None:
    assert drones_for(cores) == drones
