"""Schedules' API: a client repeats what was cut; a name is one schedule, a run is one order, and none is missed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests.faults.doors.house import DoorHouse, DoorTally, answered

CREATED, KNOWN, TAKEN, GONE = 201, 200, 409, 404
RUNS = 2
"""Of each schedule by hand, beside those of its timetable."""

EVERY = 60
"""Seconds between two instants; each schedule begins when it is saved, so that some are due while the service dies."""

LATER = "2096-01-01T00:00:00Z"

KEPT = 40
"""So many stay at a time; an older one is removed."""


def cut_schedules(directory: Path, cuts: int, kills: int, seed: int) -> DoorTally:
    tally = DoorTally("schedules", seed)
    with (
        DoorHouse(directory, "", {}) as house,
        house.proxy(("127.0.0.1", house.port), f"schedules {seed}") as proxy,
        house.client() as straight,
        house.client(proxy.port) as client,
    ):
        sender = ScheduleSender(house, client, straight)
        sender.live("warm-up")
        proxy.share, proxy.cuts, proxy.kills = 0.6, cuts, kills
        names: list[str] = []
        while not proxy.is_over:
            names.append(f"cut-{len(names)}")
            sender.live(names[-1])
            if len(names) > KEPT:
                sender.remove(names[-KEPT - 1])
        proxy.share = 0.0
        house.revive()
        tally.cut, tally.killed = proxy.cut, proxy.killed
        for name in ("warm-up", *names):
            sender.pause(name)
        house.judge(tally)
        _judge(house, tally, sender)
    return tally


class ScheduleSender:
    """A client that repeats each request until it is answered, a run with its key. Every other schedule begins in
    seventy years, so that it has the runs alone that were asked for."""

    def __init__(self, house: DoorHouse, client: httpx.Client, straight: httpx.Client) -> None:
        self._house = house
        self._client = client
        self._straight = straight
        self.ids: dict[str, str] = {}
        self.runs: dict[str, int] = {}
        self.removed: set[str] = set()
        self.by_hand: set[str] = set()

    def live(self, name: str) -> None:
        """Save a schedule, change it, and run it."""
        new: dict[str, Any] = {"name": name, "every_seconds": EVERY, "order": {"prompt": f"Report of {name}"}}
        if len(self.ids) % 2:
            new["starts_at"] = LATER
            self.by_hand.add(name)
        self._until(lambda: self._client.post("/schedules", json=new), CREATED, TAKEN)
        self.ids[name] = self._named(name)["id"]
        change = {"when_full": "skip", "max_running": 50}
        self._until(lambda: self._client.patch(f"/schedules/{self.ids[name]}", json=change), 200)
        self.runs[name] = 0
        for _ in range(RUNS):
            self._run(name)

    def pause(self, name: str) -> None:
        if name not in self.removed:
            self._until(lambda: self._client.patch(f"/schedules/{self.ids[name]}", json={"paused": True}), 200)

    def remove(self, name: str) -> None:
        self._until(lambda: self._client.delete(f"/schedules/{self.ids[name]}"), 204, GONE)
        self.removed.add(name)

    def _run(self, name: str) -> None:
        headers = {"Idempotency-Key": f"{name}-{self.runs[name]}"}
        path = f"/schedules/{self.ids[name]}/run"
        self._until(lambda: self._client.post(path, headers=headers), CREATED, KNOWN)
        self.runs[name] += 1

    def _named(self, name: str) -> dict[str, Any]:
        listed = self._until(lambda: self._straight.get("/schedules", params={"limit": 200}), 200).json()["items"]
        (found,) = (each for each in listed if each["name"] == name)
        return dict(found)

    def _until(self, work: Callable[[], httpx.Response], *good: int) -> httpx.Response:
        for _ in range(200):
            answer = answered(work)
            if answer is not None and answer.status_code in good:
                return answer
            self._house.revive()
        said = "nothing" if answer is None else f"{answer.status_code} {answer.text[:300]}"
        raise AssertionError(f"a request was never answered as it should be, at last with {said}")


def _judge(house: DoorHouse, tally: DoorTally, sender: ScheduleSender) -> None:
    schedules = house.rows("SELECT id, name FROM schedules")
    there = {name: schedule_id for schedule_id, name in schedules}
    wanted = {name for name in sender.ids if name not in sender.removed}
    tally.wish(set(there) == wanted and len(schedules) == len(wanted), "each name that was not removed is one schedule")
    runs = house.rows("SELECT schedule_id, instant, outcome, order_id FROM schedule_runs")
    tally.wish(all(outcome == "placed" for _, _, outcome, _ in runs), f"all runs have placed orders: {runs[:3]}")
    for name, schedule_id in there.items():
        of_runs = [order_id for each, _, _, order_id in runs if each == schedule_id]
        orders = {row[0] for row in house.rows("SELECT id FROM orders WHERE door = :door", door=f"schedule/{name}")}
        tally.twice += len(orders) - len(of_runs)
        tally.wish(orders == set(of_runs) and len(orders) == len(of_runs), f"{name}: {len(orders)} orders of its runs")
        asked, there_are = sender.runs[name], len(of_runs)
        fits = there_are == asked if name in sender.by_hand else there_are >= asked
        tally.twice += max(0, there_are - asked) if name in sender.by_hand else 0
        tally.lost += max(0, asked - there_are)
        tally.wish(fits, f"{name} has {there_are} runs, {asked} were asked for")
