"""Failpoints: what is armed fires once, for whom it is meant, at the right visit, in whichever process gets there."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mcc.store.database.errors import StoreUnavailable
from tests.faults.failpoints import Armed, ArmedFile, Broken, Failpoints, UnknownPlace
from tests.faults.jsonlines import read
from tests.faults.members import ROOT
from tests.faults.script import prompt_of


def points(directory: Path, member: str = "drone-1") -> tuple[ArmedFile, Failpoints]:
    control = directory / "failpoints.json"
    return ArmedFile(control), Failpoints(control, directory / "faults.jsonl", member)


def test_nothing_happens_where_nothing_is_armed(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    here.hit("F10", "an order")
    armed.arm("F11", "raise")
    here.hit("F10", "an order")


def test_an_arm_fires_at_its_visit_and_never_again_and_is_told(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    one = armed.arm("F10", "raise", nth=3)
    here.hit("F10")
    here.hit("F10")
    assert not armed.fired(one)
    with pytest.raises(Broken, match="F10"):
        here.hit("F10", "an order")
    here.hit("F10")
    assert armed.fired(one)
    (line,) = read(tmp_path / "faults.jsonl")
    assert (line["fault"], line["target"], line["detail"]["place"]) == ("raise", "drone-1", "F10")


def test_visits_are_counted_over_all_processes(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    _, there = points(tmp_path, "drone-2")
    armed.arm("F5", "raise", nth=2)
    here.hit("F5")
    with pytest.raises(Broken):
        there.hit("F5")


def test_an_arm_for_one_order_is_met_by_its_id_and_by_its_key_and_by_no_other(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    here.know("order-1", prompt_of("key-1", 7))
    armed.arm("F5", "raise", order="key-1")
    armed.arm("F6", "raise", order="order-1")
    here.hit("F5", "order-2")
    here.hit("F6", None)
    with pytest.raises(Broken):
        here.hit("F5", "order-1")
    with pytest.raises(Broken):
        here.hit("F6", "order-1")


def test_a_key_is_known_to_every_process_once_one_of_them_knows_it(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    _, there = points(tmp_path, "drone-2")
    armed.arm("F4", "raise", order="key-1")
    there.hit("F4", "order-1")
    here.know("order-1", prompt_of("key-1", 7))
    with pytest.raises(Broken):
        there.hit("F4", "order-1")


def test_an_arm_for_one_member_does_not_fire_in_another(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    armed.arm("F5", "raise", member="drone-2")
    here.hit("F5")
    with pytest.raises(Broken):
        points(tmp_path, "drone-2")[1].hit("F5")


def test_exec_and_error_does_the_work_and_reports_a_failure(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    armed.arm("F18", "exec_and_error")
    done: list[str] = []
    with pytest.raises(StoreUnavailable, match="reported as failed"):
        here.before("F18", None, lambda: done.append("committed"))
    assert done == ["committed"]


def test_other_actions_come_before_the_work(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    armed.arm("F18", "raise", unavailable=True)
    done: list[str] = []
    with pytest.raises(StoreUnavailable):
        here.before("F18", None, lambda: done.append("committed"))
    assert done == []
    here.before("F18", None, lambda: done.append("committed"))
    assert done == ["committed"]


async def test_a_sleep_on_a_loop_lets_others_go_on(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    armed.arm("F11", "sleep", seconds=0.01)
    await here.hit_async("F11")
    assert len(read(tmp_path / "faults.jsonl")) == 1


def test_what_is_disarmed_does_not_fire(tmp_path: Path) -> None:
    armed, here = points(tmp_path)
    armed.arm("F5", "raise")
    armed.disarm()
    here.hit("F5")


def test_a_stop_waits_until_no_call_is_in_the_database(tmp_path: Path) -> None:
    armed, _ = points(tmp_path)
    armed.arm("F7", "stop", seconds=0.1)
    code = (
        "import sys, pathlib, threading; from tests.faults.failpoints import Failpoints;"
        "d = pathlib.Path(sys.argv[1]); here = Failpoints(d / 'failpoints.json', d / 'faults.jsonl', 'x');"
        "call = here.in_store(); call.__enter__(); other = threading.Thread(target=here.hit, args=('F7',));"
        "other.start(); other.join(0.3); print(other.is_alive()); call.__exit__(None, None, None);"
        "other.join(5); print(other.is_alive())"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, timeout=30, capture_output=True, text=True
    )
    assert told.stdout.split() == ["True", "False"]


def test_unknown_places_and_actions_are_refused() -> None:
    with pytest.raises(UnknownPlace, match="F25"):
        Armed("F25", "raise")
    with pytest.raises(UnknownPlace, match="explode"):
        Armed("F5", "explode")  # type: ignore[arg-type]


@pytest.mark.parametrize(("action", "status"), [("kill9", -signal.SIGKILL), ("term", -signal.SIGTERM), ("stop", 0)])
def test_a_process_is_killed_told_to_end_or_stopped_for_a_while(action: str, status: int, tmp_path: Path) -> None:
    armed, _ = points(tmp_path)
    armed.arm("F7", action, seconds=0.2)  # type: ignore[arg-type]
    code = (
        "import sys, pathlib; from tests.faults.failpoints import Failpoints; d = pathlib.Path(sys.argv[1]);"
        "Failpoints(d / 'failpoints.json', d / 'faults.jsonl', 'x').hit('F7')"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, timeout=30)
    assert ended.returncode == status


def test_a_process_that_takes_all_its_memory_is_told_so_and_lives() -> None:
    program = (
        "from tests.faults.failpoints import use_up_memory\n"
        "try:\n    use_up_memory()\nexcept MemoryError:\n    print('told')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout == "told\n", done.stderr
