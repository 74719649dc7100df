"""Schedules over HTTP: saved, tried, changed, run now; and fired by the sweep of a service, as their principal may."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.app import build_app
from mcc.api.catalogue import Catalogue
from mcc.api.schedules.fires import ScheduleFires
from mcc.api.schedules.preparing import Preparing, order_of
from mcc.contracts.callers import OPERATOR, PERSON, Actor, Role
from mcc.contracts.people import NewPerson, PersonChange
from mcc.contracts.schedules import NewSchedule, RunOutcome
from mcc.contracts.status import OrderStatus
from mcc.dispatch.sweep import SweepLoop
from mcc.resources import Reserve
from mcc.settings import BadSettings, ServiceSettings, load
from mcc.store.store import Store
from mcc.testing import FakeClock, temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN
from tests.mcc.api.people_scene import added, browser_of, client_by, member
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import is_problem

SCHEDULES = "/api/v1/schedules"
BY = Actor(OPERATOR, "api")
NIGHTLY = {
    "name": "nightly",
    "cron": "30 2 * * *",
    "zone": "Europe/Berlin",
    "order": {"prompt": "Report for {date}", "labels": ["of {name}"]},
}


async def saved(http: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    answer = await http.post(SCHEDULES, json={**NIGHTLY, **fields})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def test_a_schedule_is_saved_read_changed_and_removed(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    schedule = await saved(api)
    assert schedule["principal"] == OPERATOR and len(schedule["next"]) == 5 and schedule["last"] is None
    listed = await api.get(SCHEDULES)
    check(document, listed, "/api/v1/schedules")
    assert listed.json()["items"] == [schedule]
    changed = await api.patch(f"{SCHEDULES}/{schedule['id']}", json={"every_seconds": 600, "max_running": 3})
    check(document, changed, "/api/v1/schedules/{schedule_id}")
    assert (changed.json()["cron"], changed.json()["every_seconds"], changed.json()["version"]) == (None, 600, 2)
    paused = await api.patch(f"{SCHEDULES}/{schedule['id']}", json={"paused": True})
    assert paused.json()["next"] == [] and paused.json()["paused"]
    assert (await api.delete(f"{SCHEDULES}/{schedule['id']}")).status_code == 204
    is_problem(await api.get(f"{SCHEDULES}/{schedule['id']}"), 404)


async def test_an_interval_that_is_over_before_it_begins_is_refused(api: httpx.AsyncClient) -> None:
    over = {"cron": None, "zone": "UTC", "every_seconds": 60, "until": "2000-01-01T00:00:00Z"}
    refused = await api.post(SCHEDULES, json={**NIGHTLY, **over})
    is_problem(refused, 422)
    assert refused.json()["errors"][0]["field"] == "until"
    ended = await saved(api, until="2000-01-01T00:00:00Z")
    assert ended["next"] == []
    is_problem(await api.patch(f"{SCHEDULES}/{ended['id']}", json={"every_seconds": 60}), 422)


async def test_a_run_that_is_asked_for_with_a_key_is_run_once(api: httpx.AsyncClient, store: Store) -> None:
    schedule, other = await saved(api, max_running=2), await saved(api, name="other")
    path = f"{SCHEDULES}/{schedule['id']}/run"
    keyed = {"Idempotency-Key": "k"}
    first = await api.post(path, headers=keyed)
    again = await api.post(path, headers=keyed)
    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()
    elsewhere = await api.post(f"{SCHEDULES}/{other['id']}/run", headers=keyed)
    assert elsewhere.status_code == 201 and elsewhere.json()["order_id"] != first.json()["order_id"]
    second = await api.post(path, headers={"Idempotency-Key": "l"})
    assert (second.status_code, second.json()["outcome"]) == (201, "placed")
    full = await api.post(path, headers={"Idempotency-Key": "m"})
    held = HandDrone(store).claim(first.json()["order_id"])
    held.start()
    held.finish()
    known = await api.post(path, headers={"Idempotency-Key": "m"})
    assert (full.json()["outcome"], known.status_code, known.json()) == ("skipped", 200, full.json())
    is_problem(await api.post(path, headers={"Idempotency-Key": "two words"}), 422)
    assert len((await api.get(f"{SCHEDULES}/{schedule['id']}/runs")).json()["items"]) == 3


async def test_schedules_are_listed_a_page_at_a_time_by_their_names(api: httpx.AsyncClient) -> None:
    for name in "cab":
        await saved(api, name=name)
    asked, names = {"limit": "2"}, list[str]()
    while asked.get("cursor", "0"):
        page = (await api.get(SCHEDULES, params=asked)).json()
        names += [schedule["name"] for schedule in page["items"]]
        assert len(page["items"]) <= 2
        asked["cursor"] = page["next_cursor"]
    assert names == ["a", "b", "c"]
    exactly = (await api.get(SCHEDULES, params={"limit": "3"})).json()
    assert exactly["next_cursor"] is None and len(exactly["items"]) == 3


async def test_a_run_that_is_asked_for_places_an_order_and_is_listed(
    api: httpx.AsyncClient, document: dict[str, Any]
) -> None:
    schedule = await saved(api)
    run = await api.post(f"{SCHEDULES}/{schedule['id']}/run")
    assert run.status_code == 201 and run.json()["outcome"] == "placed"
    check(document, run, "/api/v1/schedules/{schedule_id}/run")
    order = (await api.get(f"/api/v1/orders/{run.json()['order_id']}")).json()
    assert order["labels"] == ["of nightly"] and order["door"] == "schedule/nightly" and order["on_ask"] == "deny"
    assert order["prompt"].startswith("Report for 20")
    full = await api.post(f"{SCHEDULES}/{schedule['id']}/run")
    assert full.json()["outcome"] == "skipped" and full.json()["order_id"] is None
    runs = await api.get(f"{SCHEDULES}/{schedule['id']}/runs")
    check(document, runs, "/api/v1/schedules/{schedule_id}/runs")
    assert [each["outcome"] for each in runs.json()["items"]] == ["skipped", "placed"]


async def test_a_timetable_is_looked_at_before_it_is_saved(api: httpx.AsyncClient, document: dict[str, Any]) -> None:
    asked = {"cron": "30 2 * * *", "zone": "Europe/Berlin", "after": "2027-10-30T12:00:00Z", "count": 2}
    answer = await api.post(f"{SCHEDULES}:preview", json=asked)
    check(document, answer, "/api/v1/schedules:preview")
    assert answer.json() == {
        "next": ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"],
        "local": ["2027-10-31T02:30:00+02:00", "2027-11-01T02:30:00+01:00"],
    }
    assert (await api.get(SCHEDULES)).json()["items"] == []


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "* * * * * *"}, "cron"),
        ({"cron": "@daily"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"zone": "Europe/Berln"}, "zone"),
        ({"cron": None, "every_seconds": 59}, "every_seconds"),
        ({"cron": None}, ""),
        ({"every_seconds": 600}, ""),
        ({"jitter_seconds": 86_400}, "jitter_seconds"),
        ({"starts_at": "2031-01-01T00:00:00Z", "until": "2030-01-01T00:00:00Z"}, ""),
        ({"catch_up": {"policy": "all", "most": 101}}, "catch_up.most"),
        ({"max_running": 0}, "max_running"),
        ({"order": {"prompt": "Report for {dat}"}}, "order.prompt"),
        ({"order": {"prompt": "x", "labels": ["a", "{date"]}}, "order.labels[1]"),
        ({"order": {"prompt": "x", "workspace": "/elsewhere/{date}"}}, "order.workspace"),
        ({"order": {"prompt": "x", "session_id": "0197f000-0000-7000-8000-000000000000"}}, "order"),
        ({"order": {"prompt": "x", "modle": "fast"}}, "order.modle"),
        ({"order": {"prompt": "{previous.status}"}}, "order.prompt"),
        ({"order": {"prompt": "x", "queue": "slwo"}}, "order.queue"),
        ({"order": {"kind": "generate", "blueprint": "course"}, "session": "same"}, "session"),
    ],
)
async def test_what_cannot_be_scheduled_is_refused_with_its_field(
    api: httpx.AsyncClient, fields: dict[str, Any], field: str
) -> None:
    answer = await api.post(SCHEDULES, json={**NIGHTLY, **fields})
    is_problem(answer, 422)
    assert answer.json()["errors"][0]["field"] == field
    schedule = await saved(api)
    if fields != {"every_seconds": 600}:
        changed = await api.patch(f"{SCHEDULES}/{schedule['id']}", json=fields)
        is_problem(changed, 422)
        assert changed.json()["errors"][0]["field"] == field


async def test_names_are_given_once(api: httpx.AsyncClient) -> None:
    await saved(api)
    is_problem(await api.post(SCHEDULES, json=NIGHTLY), 409)
    other = await saved(api, name="other")
    is_problem(await api.patch(f"{SCHEDULES}/{other['id']}", json={"name": "nightly"}), 409)
    is_problem(await api.patch(f"{SCHEDULES}/{other['id']}", json={}), 422)


def test_braces_stand_only_where_they_are_meant() -> None:
    rule = {"cel": "result.map(x, {'a': x}).size() > 0", "message": "{date}"}
    spec = NewSchedule(
        name="a",
        cron="0 0 * * *",
        zone="Asia/Kathmandu",
        order={
            "prompt": "{{{date} {time} {zone} {instant} {previous.order_id}|",
            "agent": "master",
            "rules": [rule],
            "metadata": {"at": "{instant}", "n": "{size(name)}"},
        },
    )
    order = order_of(spec, datetime(2027, 1, 1, 20, 15, tzinfo=UTC))
    assert order.prompt == "{2027-01-02 02:00 Asia/Kathmandu 2027-01-01T20:15:00Z |"
    assert order.rules[0].model_dump() == rule
    assert order.metadata == {"at": "2027-01-01T20:15:00Z", "n": 1}


class Service:
    """A store on a clock of its own, and the part of a service's sweep that fires what is due there."""

    def __init__(self, store: Store, clock: FakeClock, settings: ServiceSettings) -> None:
        self.store = store
        self.clock = clock
        self.counted: list[tuple[RunOutcome, int]] = []
        self.preparing = Preparing(store, settings, Catalogue(settings.own_blueprints(), store.blueprints))
        self.fires = ScheduleFires(store, self.preparing, Reserve((), 0), lambda *run: self.counted.append(run))

    def add(self, by: Actor = BY, **fields: Any) -> str:
        new = {"name": "hourly", "cron": "0 * * * *", "order": {"prompt": "Look at {time}"}, **fields}
        return self.store.schedules.add(NewSchedule.model_validate(new), by=by).id

    def after_an_hour(self) -> list[str]:
        self.clock.advance(3_600)
        return list(self.fires.once())

    def last(self, schedule_id: str) -> tuple[str, str]:
        last = self.store.schedules.get(schedule_id).last
        assert last is not None
        return last.outcome, last.why


@pytest.fixture
def service(settings: ServiceSettings) -> Any:
    clock = FakeClock()
    store = temporary_store(clock)
    yield Service(store, clock, settings)
    store.close()


def test_the_sweep_fires_what_is_due_and_counts_it(service: Service) -> None:
    schedule = service.add()
    assert service.fires.once() == []
    (order_id,) = service.after_an_hour()
    assert service.fires.once() == []
    assert service.store.orders.get(order_id).prompt == "Look at 13:00"
    service.clock.advance(3 * 3_600 + 90)
    service.fires.once()
    assert service.counted == [("placed", 1), ("missed", 2), ("skipped", 1)]
    assert service.last(schedule)[0] == "skipped"


def test_a_sweep_that_is_a_services_fires_and_one_of_a_drone_does_not(service: Service) -> None:
    service.add()
    service.clock.advance(3_600)
    SweepLoop(service.store, None, None, sweeper="a drone").once()
    assert not service.store.orders.list().items
    sweeps = SweepLoop(service.store, None, None, sweeper="a service")
    sweeps.also = service.fires.once
    (order_id,) = sweeps.once().besides
    assert service.store.orders.get(order_id).status is OrderStatus.QUEUED


def test_an_order_that_cannot_be_placed_any_more_is_refused_and_the_schedule_goes_on(service: Service) -> None:
    schedule = service.add(order={"prompt": "x", "model": "fast"})
    HandDrone(service.store, models=("slow",), lease_seconds=100_000)
    assert service.after_an_hour() == []
    outcome, why = service.last(schedule)
    assert outcome == "refused" and why.startswith("model: there is no model 'fast'")
    HandDrone(service.store, name="drone-2", models=("fast",), lease_seconds=100_000)
    assert len(service.after_an_hour()) == 1


def test_the_right_of_whoever_saved_it_is_asked_for_at_each_run(service: Service) -> None:
    people = service.store.people
    person = people.add(NewPerson(name="Ann", role=Role.MEMBER), by=BY)
    schedule = service.add(by=Actor(PERSON + person.id, "page"), max_running=9)
    assert len(service.after_an_hour()) == 1
    for change, why in (
        (PersonChange(disabled=True), "this person is disabled"),
        (PersonChange(disabled=False, role=Role.VIEWER), "needs the right 'write'"),
    ):
        people.change(person.id, change, by=BY)
        assert service.after_an_hour() == []
        outcome, told = service.last(schedule)
        assert outcome == "refused" and why in told
    people.change(person.id, PersonChange(role=Role.MEMBER), by=BY)
    (order_id,) = service.after_an_hour()
    assert service.store.orders.get(order_id).principal == PERSON + person.id
    people.remove(person.id, by=BY)
    assert service.after_an_hour() == []
    assert service.last(schedule) == ("refused", "this person was removed")


def test_with_a_full_disk_schedules_wait_and_are_caught_up_with(service: Service, tmp_path: Path) -> None:
    schedule = service.add()
    full = Reserve((tmp_path,), 10**18)
    service.fires = ScheduleFires(service.store, service.preparing, full)
    assert service.after_an_hour() == []
    assert service.store.schedules.get(schedule).last is None
    service.fires = ScheduleFires(service.store, service.preparing, Reserve((), 0))
    service.clock.advance(300)
    assert len(service.fires.once()) == 1


def test_a_schedule_that_fails_does_not_keep_others_from_being_fired(service: Service) -> None:
    class Broken(Preparing):
        def prepared(self, due: Any) -> Any:
            if due.spec.name == "broken":
                raise ZeroDivisionError
            return super().prepared(due)

    service.add(name="broken")
    service.add(name="other")
    broken = Broken(service.store, service.preparing._settings, service.preparing._catalogue)
    service.fires = ScheduleFires(service.store, broken, Reserve((), 0))
    (order_id,) = service.after_an_hour()
    assert service.store.orders.get(order_id).door == "schedule/other"


async def test_a_member_changes_own_schedules_alone(api: httpx.AsyncClient) -> None:
    theirs = await saved(api)
    http = await member(api)
    mine = await saved(http, name="mine")
    assert mine["principal"].startswith(PERSON)
    assert (await http.patch(f"{SCHEDULES}/{mine['id']}", json={"paused": True})).status_code == 200
    for answer in (
        await http.patch(f"{SCHEDULES}/{theirs['id']}", json={"paused": True}),
        await http.post(f"{SCHEDULES}/{theirs['id']}/run"),
        await http.delete(f"{SCHEDULES}/{theirs['id']}"),
    ):
        is_problem(answer, 403)


async def test_the_document_of_others_is_not_worked_on_by_a_schedule(api: httpx.AsyncClient) -> None:
    document = (await api.post("/api/v1/documents", json={"blueprint": "course"})).json()
    http = await member(api)
    order = {"prompt": "Go on", "document_id": document["id"]}
    is_problem(await http.post(SCHEDULES, json={**NIGHTLY, "order": order}), 403)


def test_an_operator_who_became_a_member_no_longer_works_on_documents_of_others(service: Service) -> None:
    people = service.store.people
    person = people.add(NewPerson(name="Ann", role=Role.OPERATOR), by=BY)
    blueprint = service.preparing._catalogue.find("course").blueprint
    document = service.store.documents.create(blueprint, by=BY).document
    order = {"prompt": "Go on", "document_id": document.id}
    schedule = service.add(by=Actor(PERSON + person.id, "page"), order=order, max_running=9)
    assert len(service.after_an_hour()) == 1
    people.change(person.id, PersonChange(role=Role.MEMBER), by=BY)
    assert service.after_an_hour() == []
    assert "needs the right 'operate'" in service.last(schedule)[1]


@pytest.mark.parametrize("door", ["schedules", "triggers", "webhooks"])
async def test_a_service_may_be_without_a_door(store: Store, tmp_path: Path, door: str) -> None:
    (tmp_path / "mcc.toml").write_text(f'[doors]\noff = ["{door}"]\n')
    settings = load({}, directory=tmp_path, data_dir=tmp_path)
    app = build_app(settings, store, token=TOKEN)
    transport = httpx.ASGITransport(app=app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420", headers=headers) as http:
        for path in (f"/api/v1/{door}", f"/api/v1/{door}/x/deliveries", f"/api/v1/{door}:preview"):
            answer = await http.get(path)
            is_problem(answer, 404)
            assert f"has no {door}: [doors]" in answer.json()["detail"]
        is_problem(await http.post(f"/api/v1/{door}", json=NIGHTLY), 404)
        assert "[doors]" not in (await http.get(f"/api/v1/{door}x")).json()["detail"]
        assert (await http.get("/api/v1/orders")).status_code == 200
        told = await http.post("/api/v1/orders", json={"prompt": "x", "webhook_url": "https://ci.example.com/hook"})
        assert told.status_code == (422 if door == "webhooks" else 201)
    assert not [path for path in app.openapi()["paths"] if path.startswith(f"/api/v1/{door}")]
    (tmp_path / "mcc.toml").write_text('[doors]\noff = ["scheduled"]\n')
    with pytest.raises(BadSettings, match="off"):
        load({}, directory=tmp_path, data_dir=tmp_path)


async def test_the_query_of_a_webhook_is_shown_to_nobody_and_kept(api: httpx.AsyncClient, store: Store) -> None:
    url = "https://hooks.example.com/in?token=secret"
    schedule = await saved(api, order={"prompt": "x", "webhook_url": url})
    path = f"{SCHEDULES}/{schedule['id']}"
    asked = {"order": {**schedule["order"], "prompt": "y"}}
    for answer in (await api.get(SCHEDULES), await api.get(path), await api.patch(path, json=asked)):
        assert answer.status_code == 200 and "secret" not in answer.text and "in?token=…" in answer.text
    assert store.schedules.get(schedule["id"]).order == {"prompt": "y", "webhook_url": url}


async def test_a_run_now_is_paid_by_the_token_that_asks_for_it(api: httpx.AsyncClient) -> None:
    browser = await browser_of(api, await added(api, "Ann", "member"))
    schedule = await browser.http.post(SCHEDULES, json={**NIGHTLY, "max_running": 9}, headers=browser.changing)
    asked = {"name": "ci", "scopes": ["read", "write"], "budget": {"orders": 1}}
    made = (await browser.http.post("/api/v1/tokens", json=asked, headers=browser.changing)).json()
    by_token, path = client_by(api, made["token"]), f"{SCHEDULES}/{schedule.json()['id']}/run"
    runs = [(await by_token.post(path)).json() for _ in range(2)]
    assert [run["outcome"] for run in runs] == ["placed", "refused"] and "this token" in runs[1]["why"]
    assert (await browser.http.post(path, headers=browser.changing)).json()["outcome"] == "placed"
