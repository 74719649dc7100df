"""Checks of models over HTTP: which drone runs them, and the answer without one."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from mcc.api.app import NO_REDIS, RedisAccess, build_app
from mcc.api.fleet import assignments
from mcc.contracts.answers import ModelCheck
from mcc.contracts.drones import Capability, Registration
from mcc.dispatch.broker import DispatchUnavailable
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN
from tests.mcc.api.test_answers_as_described import check

PATH = "/api/v1/models/check"


class FakeChecks:
    """Drones that report every model as working; `silent` ones send no results, `deaf` ones do not listen."""

    def __init__(self, silent: Sequence[str] = (), deaf: Sequence[str] = ()) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self._silent = silent
        self._deaf = deaf

    async def check(self, incarnation: str, names: Sequence[str]) -> list[ModelCheck]:
        self.asked.append((incarnation, tuple(names)))
        if incarnation in self._deaf:
            raise DispatchUnavailable("It does not listen.")
        return [] if incarnation in self._silent else [ModelCheck(name=name, key="accepted") for name in names]


@asynccontextmanager
async def serving(settings: ServiceSettings, store: Store, redis: RedisAccess) -> AsyncIterator[httpx.AsyncClient]:
    app = build_app(settings, store, token=TOKEN, redis=redis)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app),
        base_url="http://127.0.0.1:8420",
        headers={"Authorization": f"Bearer {TOKEN}"},
    ) as client:
        yield client


def access(checks: Any) -> RedisAccess:
    return RedisAccess(checks=checks)


def drone(name: str, *models: Capability) -> Registration:
    return Registration(
        incarnation=name, name=name, pid=1, host="h", version="0", queues=("default",), slots=1, models=models
    )


def test_each_model_is_tried_by_the_first_drone_that_can_ask_it() -> None:
    fast, broken = Capability(name="fast"), Capability(name="fast", problem="no key")
    drones = [drone("a", broken, Capability(name="slow", problem="no key")), drone("b", fast)]
    found = assignments(drones, ["fast", "slow", "openai/m"])
    assert [(one.drone.name, one.names) for one in found] == [("b", ("fast",)), ("a", ("slow", "openai/m"))]


async def test_all_models_that_drones_tell_of_are_tried_where_none_is_named(
    settings: ServiceSettings, store: Store, document: dict[str, Any]
) -> None:
    one = HandDrone(store, name="one", models=("offline", "fast"))
    checks = FakeChecks()
    async with serving(settings, store, access(checks)) as api:
        answer = await api.post(PATH)
    check(document, answer, PATH)
    assert [(row["name"], row["key"], row["problem"]) for row in answer.json()["items"]] == [
        ("fast", "accepted", None),
        ("offline", "accepted", None),
    ]
    assert checks.asked == [(one.incarnation, ("offline", "fast"))]


async def test_what_a_drone_does_not_tell_is_a_row_that_says_so(settings: ServiceSettings, store: Store) -> None:
    silent, deaf = HandDrone(store, name="silent", models=("a",)), HandDrone(store, name="deaf", models=("b",))
    checks = FakeChecks([silent.incarnation], [deaf.incarnation])
    async with serving(settings, store, access(checks)) as api:
        rows = (await api.post(PATH, json={"names": ["a", "b"]})).json()["items"]
    assert [(row["name"], row["drone"]) for row in rows] == [("a", "silent"), ("b", "deaf")]
    assert "did not say" in rows[0]["problem"] and rows[1]["problem"] == "It does not listen."


async def test_without_a_drone_or_redis_a_sentence_says_so(settings: ServiceSettings, store: Store) -> None:
    async with serving(settings, store, access(FakeChecks())) as api:
        alone = await api.post(PATH)
    assert alone.status_code == 503 and "only drones have the keys" in alone.json()["detail"]
    HandDrone(store)
    async with serving(settings, store, NO_REDIS) as api:
        without = await api.post(PATH)
    assert without.status_code == 503 and "no Redis" in without.json()["detail"]


@pytest.mark.parametrize("names", [["x"] * 51, [""], ["x" * 201], "x"])
async def test_a_request_for_too_much_is_refused(settings: ServiceSettings, store: Store, names: object) -> None:
    HandDrone(store)
    async with serving(settings, store, access(FakeChecks())) as api:
        assert (await api.post(PATH, json={"names": names})).status_code == 422
