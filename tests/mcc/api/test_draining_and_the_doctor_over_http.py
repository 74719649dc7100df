"""Drones are told over HTTP to take no orders; the doctor is run as a child process, one at a time."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.doctor_runs import DoctorRuns
from mcc.api.problems import Refusal
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.api.test_answers_as_described import check

DRAIN = "/api/v1/drones/{name}/drain"

COUNTING = """
import json, pathlib, sys
file = pathlib.Path(sys.argv[1])
count = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (count + 1))
said = None if "--fix" in sys.argv else str(count)
print(json.dumps({"ok": True, "findings": [], "repairs": [], "unrepaired": said}))
"""


async def test_a_drone_is_told_to_take_no_orders_and_to_take_some_again(
    api: httpx.AsyncClient, store: Store, document: dict[str, Any]
) -> None:
    drone = HandDrone(store)
    path = DRAIN.format(name=drone.name)
    for body, drain in ((None, "finish"), ({}, "finish"), ({"hand_back": True}, "hand_back")):
        answer = await api.post(path, json=body) if body is not None else await api.post(path)
        check(document, answer, DRAIN)
        [told] = answer.json()["items"]
        assert (told["drain"], told["status"]) == (drain, "draining")
        renewed = store.leases.renew(drone.incarnation, lease_seconds=60, active=0)
        assert renewed is not None and renewed.drain == drain
    [told] = (await api.delete(path)).json()["items"]
    assert (told["drain"], told["status"]) == (None, "up")
    kinds = [note.kind for note in store.audit.list(10)]
    assert kinds == ["drone.undrained", *["drone.drained"] * 3]


@pytest.mark.parametrize("name", ["unknown", "%00", "a%2Fb"])
async def test_only_a_live_drone_is_told(api: httpx.AsyncClient, name: str) -> None:
    assert (await api.post(DRAIN.format(name=name))).status_code == 404
    assert (await api.delete(DRAIN.format(name=name))).status_code == 404


async def test_what_the_doctor_found_is_told_for_ten_seconds_and_a_repair_looks_anew(
    settings: ServiceSettings, tmp_path: Path
) -> None:
    counted = tmp_path / "runs"
    runs = DoctorRuns([sys.executable, "-c", COUNTING, str(counted)])
    first = await runs.examine(settings)
    assert first.ok and await runs.examine(settings) is first
    assert (await runs.examine(settings, fix=True)).unrepaired is None
    assert len(counted.read_text()) == 2


@pytest.mark.parametrize("program", ["print('no JSON')", "print('[]')", "import sys; sys.exit(3)", "pass"])
async def test_a_doctor_that_says_nothing_is_told_as_such(settings: ServiceSettings, program: str) -> None:
    with pytest.raises(Refusal, match="said nothing"):
        await DoctorRuns([sys.executable, "-c", program]).examine(settings)


async def test_a_doctor_that_does_not_end_is_killed(settings: ServiceSettings) -> None:
    endless = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(Refusal, match="did not end"):
        await DoctorRuns(endless, seconds=0.2).examine(settings)


async def test_who_asks_while_it_looks_gets_what_this_look_comes_to(settings: ServiceSettings, tmp_path: Path) -> None:
    counted = tmp_path / "runs"
    runs = DoctorRuns([sys.executable, "-c", f"open({str(counted)!r}, 'a').write('x'); exit(3)"])
    ends = await asyncio.gather(*(runs.examine(settings) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(end, Refusal) and "exit code 3" in str(end) for end in ends)
    assert counted.read_text() == "x"


async def test_who_no_longer_asks_takes_the_look_from_nobody(settings: ServiceSettings, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waiting = f"open({str(gate)!r}).read()\n{COUNTING}"
    runs = DoctorRuns([sys.executable, "-c", waiting, str(tmp_path / "runs")])
    first, second = (asyncio.ensure_future(runs.examine(settings)) for _ in range(2))
    with await asyncio.to_thread(open, gate, "w"):
        first.cancel()
    assert (await second).unrepaired == "0" and first.cancelled()


async def test_the_doctor_answers_as_described(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    answer = await api.get("/api/v1/doctor")
    check(document, answer, "/api/v1/doctor")
    assert {finding["what"] for finding in answer.json()["findings"]}
