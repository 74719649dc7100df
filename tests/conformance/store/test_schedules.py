"""Schedules on every store: saved and changed, fired once an instant, caught up with, held to their bounds."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.order import NewOrder
from mcc.contracts.people import NewApiToken, NewPerson
from mcc.contracts.schedules import MOST_HELD, MOST_SCHEDULES, NewSchedule, Schedule, ScheduleRun
from mcc.contracts.status import OrderStatus
from mcc.schedules.cron import BadTiming
from mcc.store.database.errors import (
    BadCursor,
    ScheduleChanged,
    ScheduleNameTaken,
    TooManySchedules,
    UnknownSchedule,
)
from mcc.store.database.tables import SCHEDULES
from mcc.store.doors.firing import DueRun, FiredRun, PreparedRun
from mcc.store.doors.running import KEPT_DAYS
from tests.conformance.store.scene import Scene

BY = Actor(OPERATOR, "cli")
HOUR = timedelta(hours=1)


def scheduled(scene: Scene, name: str = "nightly", by: Actor = BY, **fields: Any) -> Schedule:
    """Each hour, unless something else is said; the clock of a scene begins at noon."""
    new = {"name": name, "cron": "0 * * * *", "order": {"prompt": "Look"}, **fields}
    return scene.store.schedules.add(NewSchedule.model_validate(new), by=by)


def prepared(due: DueRun) -> PreparedRun:
    prompt = f"{due.spec.order['prompt']} {due.instant:%H:%M}"
    return PreparedRun(NewOrder.model_validate({**due.spec.order, "prompt": prompt}))


def fire(scene: Scene, make: Callable[[DueRun], PreparedRun] = prepared) -> Sequence[ScheduleRun]:
    """All that is due, step by step; the runs, oldest first."""
    runs: list[ScheduleRun] = []
    while steps := scene.store.firing.due():
        for due in steps:
            fired = scene.store.firing.fire(due, make(due) if due.instant else PreparedRun(None))
            runs += [fired.run] if fired and fired.run else []
    return runs


def runs(scene: Scene, schedule: Schedule) -> list[tuple[str, str]]:
    """Time and outcome of its runs, oldest first."""
    page = scene.store.schedules.runs(schedule.id, limit=200)
    return [(f"{run.instant:%H:%M}", run.outcome) for run in reversed(page.items)]


def finish(scene: Scene, run: ScheduleRun) -> None:
    scene.hold(str(run.order_id)).finish()


def test_a_schedule_is_read_back_as_it_was_saved_with_what_comes_next(scene: Scene) -> None:
    schedule = scheduled(scene, order={"prompt": "\0 \ud800 \u202e", "metadata": {"a": [1, None]}})
    assert schedule.next == tuple(scene.clock.now() + hour * HOUR for hour in range(1, 6))
    assert (schedule.principal, schedule.version, schedule.last) == (OPERATOR, 1, None)
    assert scene.store.schedules.get(schedule.id) == schedule
    assert scene.store.schedules.list() == [schedule]
    (note,) = scene.store.audit.list()
    assert (note.kind, note.principal, note.detail["name"]) == ("schedule.added", OPERATOR, "nightly")


def test_an_instant_is_run_once_and_its_order_says_by_which_door_it_came(scene: Scene) -> None:
    schedule = scheduled(scene)
    assert fire(scene) == []
    scene.clock.advance(3_600)
    (run,) = fire(scene)
    assert fire(scene) == []
    assert run.outcome == "placed" and run.instant == schedule.next[0]
    order = scene.store.orders.get(str(run.order_id))
    assert (order.prompt, order.principal, order.door) == ("Look 13:00", OPERATOR, "schedule/nightly")
    assert order.on_ask == "deny"
    again = scene.store.schedules.get(schedule.id)
    assert again.last == run and again.next[0] == schedule.next[1]


def test_of_many_services_that_look_at_once_one_fires(scene: Scene) -> None:
    scheduled(scene)
    scene.clock.advance(3_600)
    (due,) = scene.store.firing.due()
    with ThreadPoolExecutor(4) as pool:
        fired = list(pool.map(lambda _: scene.store.firing.fire(due, prepared(due)), range(4)))
    assert len([each for each in fired if each is not None]) == 1
    assert len(scene.store.orders.list().items) == 1


def test_a_step_that_was_planned_before_a_change_is_not_taken(scene: Scene) -> None:
    schedule = scheduled(scene)
    scene.clock.advance(3_600)
    (due,) = scene.store.firing.due()
    scene.store.schedules.change(schedule.id, 1, schedule_with(schedule, max_running=2), by=BY)
    assert scene.store.firing.fire(due, prepared(due)) is None
    assert not scene.store.orders.list().items


def schedule_with(schedule: Schedule, **fields: Any) -> NewSchedule:
    kept = {name: getattr(schedule, name) for name in NewSchedule.model_fields}
    return NewSchedule.model_validate({**kept, **fields})


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ({"policy": "skip"}, [("16:00", "missed"), ("17:00", "placed")]),
        ({"policy": "one"}, [("15:00", "missed"), ("16:00", "placed"), ("17:00", "placed")]),
        (
            {"policy": "all", "most": 3},
            [("13:00", "missed"), ("14:00", "placed"), ("15:00", "placed"), ("16:00", "placed"), ("17:00", "placed")],
        ),
    ],
)
def test_what_is_late_is_caught_up_with_as_the_schedule_says(
    scene: Scene, catch_up: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    schedule = scheduled(scene, catch_up=catch_up, max_running=10)
    scene.clock.advance(4 * 3_600 + 61)
    fire(scene)
    scene.clock.advance(3_600 - 61)
    fire(scene)
    assert runs(scene, schedule) == expected
    missed = [run.missed for run in scene.store.schedules.runs(schedule.id).items if run.missed]
    assert [each.count for each in missed] == [4 - (len(expected) - 2)]
    assert missed[0].since == schedule.next[0]
    assert scene.store.schedules.missed(days=1) == [("nightly", missed[0])]


def test_a_run_that_is_a_minute_late_is_not_caught_up_with_but_run(scene: Scene) -> None:
    schedule = scheduled(scene, catch_up={"policy": "skip"})
    scene.clock.advance(3_660)
    fire(scene)
    assert runs(scene, schedule) == [("13:00", "placed")]


def test_a_newest_run_that_is_on_time_takes_the_place_of_the_late_ones(scene: Scene) -> None:
    schedule = scheduled(scene, cron="* * * * *")
    scene.clock.advance(10 * 60 + 10)
    fire(scene)
    assert runs(scene, schedule) == [("12:09", "missed"), ("12:10", "placed")]


def test_however_much_was_missed_is_one_run_and_all_of_it_is_counted(scene: Scene) -> None:
    schedule = scheduled(scene, cron="* * * * *", catch_up={"policy": "all", "most": 2}, max_running=9)
    scene.clock.advance(12_000 * 60 + 90)
    fire(scene)
    missed, *placed = reversed(scene.store.schedules.runs(schedule.id).items)
    assert [run.outcome for run in placed] == ["placed", "placed", "placed"]
    assert missed.missed is not None and missed.missed.count + len(placed) == 12_001
    assert missed.missed.since == schedule.next[0]


def test_a_clock_that_is_set_back_runs_nothing_again(scene: Scene) -> None:
    schedule = scheduled(scene)
    scene.clock.advance(2 * 3_600)
    fire(scene)
    scene.clock.advance(-2 * 3_600)
    assert fire(scene) == []
    scene.clock.advance(3 * 3_600)
    assert [f"{run.instant:%H:%M}" for run in fire(scene)] == ["15:00"]
    assert len(runs(scene, schedule)) == 3


def test_a_paused_schedule_runs_nothing_and_begins_anew_when_it_is_resumed(scene: Scene) -> None:
    schedule = scheduled(scene)
    paused = scene.store.schedules.change(schedule.id, 1, schedule_with(schedule, paused=True), by=BY)
    assert paused.next == () and paused.version == 2
    scene.clock.advance(5 * 3_600)
    assert fire(scene) == []
    resumed = scene.store.schedules.change(schedule.id, 2, schedule_with(schedule, paused=False), by=BY)
    assert fire(scene) == [] and resumed.next[0] == scene.clock.now() + HOUR
    assert runs(scene, schedule) == []
    kinds = [note.kind for note in scene.store.audit.list()]
    assert kinds == ["schedule.resumed", "schedule.paused", "schedule.added"]


def test_a_schedule_ends_with_its_timetable(scene: Scene) -> None:
    schedule = scheduled(scene, until=scene.clock.now() + 2 * HOUR, max_running=9)
    for _ in range(4):
        scene.clock.advance(3_600)
        fire(scene)
    assert runs(scene, schedule) == [("13:00", "placed"), ("14:00", "placed")]
    assert scene.store.schedules.get(schedule.id).next == ()


def test_an_interval_keeps_its_pace_through_changes(scene: Scene) -> None:
    scene.clock.advance(0.5)
    schedule = scheduled(scene, cron=None, every_seconds=600)
    scene.clock.advance(250)
    changed = scene.store.schedules.change(schedule.id, 1, schedule_with(schedule, max_running=3), by=BY)
    assert changed.next == schedule.next


@pytest.mark.parametrize(("when_full", "outcome"), [("skip", "skipped"), ("queue", "held")])
def test_a_schedule_has_only_so_many_unfinished_orders(scene: Scene, when_full: str, outcome: str) -> None:
    schedule = scheduled(scene, when_full=when_full)
    for _ in range(2):
        scene.clock.advance(3_600)
        fire(scene)
    assert runs(scene, schedule) == [("13:00", "placed"), ("14:00", outcome)]
    assert "1 of its orders are unfinished" in scene.store.schedules.runs(schedule.id).items[0].why


def test_a_held_run_is_placed_once_there_is_room(scene: Scene) -> None:
    schedule = scheduled(scene, when_full="queue")
    fired: list[ScheduleRun] = []
    for _ in range(3):
        scene.clock.advance(3_600)
        fired += fire(scene)
    finish(scene, fired[0])
    (run,) = fire(scene)
    assert (run.outcome, scene.store.orders.get(str(run.order_id)).prompt) == ("placed", "Look 14:00")
    assert runs(scene, schedule) == [("13:00", "placed"), ("14:00", "placed"), ("15:00", "held")]


def test_a_held_run_of_a_paused_schedule_waits(scene: Scene) -> None:
    schedule = scheduled(scene, when_full="queue")
    fired: list[ScheduleRun] = []
    for _ in range(2):
        scene.clock.advance(3_600)
        fired += fire(scene)
    scene.store.schedules.change(schedule.id, 1, schedule_with(schedule, paused=True), by=BY)
    finish(scene, fired[0])
    assert fire(scene) == []
    scene.store.schedules.change(schedule.id, 2, schedule_with(schedule, paused=False), by=BY)
    assert len(fire(scene)) == 1


def test_runs_beyond_what_is_held_are_skipped(scene: Scene) -> None:
    schedule = scheduled(scene, cron="* * * * *", when_full="queue", catch_up={"policy": "all", "most": 100})
    for _ in range(2):
        scene.clock.advance(52 * 60)
        fire(scene)
    outcomes = [outcome for _, outcome in runs(scene, schedule)]
    assert (outcomes.count("held"), outcomes.count("skipped")) == (MOST_HELD, 3)


def test_older_orders_make_way_where_the_schedule_says_so(scene: Scene) -> None:
    schedule = scheduled(scene, when_full="cancel_older", max_running=2)
    for _ in range(3):
        scene.clock.advance(3_600)
        fire(scene)
    statuses = [order.status for order in reversed(scene.store.orders.list().items)]
    assert statuses == [OrderStatus.CANCELLED, OrderStatus.QUEUED, OrderStatus.QUEUED]
    assert scene.store.schedules.get(schedule.id).last.why == "1 older of its orders made way"  # type: ignore[union-attr]


def test_an_order_that_is_being_cancelled_is_not_cancelled_again(scene: Scene) -> None:
    scheduled(scene, when_full="cancel_older")
    scene.clock.advance(3_600)
    (first,) = fire(scene)
    scene.hold(str(first.order_id))
    for _ in range(2):
        scene.clock.advance(3_600)
        fire(scene)
    assert len(scene.store.controls.of_order(str(first.order_id))) == 1


def test_orders_of_one_session_are_its_turns_and_a_deleted_session_is_made_anew(scene: Scene) -> None:
    scheduled(scene, session="same", max_running=9)
    sessions: list[str] = []
    for hour in range(4):
        if hour == 2:
            scene.store.removal.begin(sessions[0], by=BY)
        scene.clock.advance(3_600)
        (run,) = fire(scene)
        finish(scene, run)
        sessions.append(scene.store.orders.get(str(run.order_id)).session_id)
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]


def test_a_refused_order_is_told_and_stops_nothing(scene: Scene) -> None:
    schedule = scheduled(scene)
    scene.clock.advance(3_600)
    fire(scene, lambda due: PreparedRun(None, why="there is no model 'fast'."))
    scene.clock.advance(3_600)
    unknown = "0197f000-0000-7000-8000-000000000000"
    fire(scene, lambda due: PreparedRun(NewOrder(prompt="x", document_id=unknown)))
    scene.clock.advance(3_600)
    fire(scene)
    assert [outcome for _, outcome in runs(scene, schedule)] == ["refused", "refused", "placed"]
    second, first = scene.store.schedules.runs(schedule.id).items[1:]
    assert first.why == "there is no model 'fast'." and unknown in second.why
    assert len(scene.store.orders.list().items) == 1


def test_an_order_counts_in_the_budgets_of_its_principal_and_of_the_token_that_saved_it(scene: Scene) -> None:
    person = scene.store.people.add(
        NewPerson(name="Ann", role=Role.MEMBER, budget=DayBudget(orders=3)), by=Actor(OPERATOR)
    )
    by = Actor(person.principal, "api")
    new = NewApiToken(name="ci", scopes=(AccessScope.WRITE,), budget=DayBudget(orders=1))
    token = scene.store.tokens.make("secret", "digest", new, by=by)
    by_token = scheduled(scene, "by-token", by=replace(by, token_id=token.id), max_running=9)
    by_hand = scheduled(scene, "by-hand", by=by, max_running=9)
    for _ in range(3):
        scene.clock.advance(3_600)
        fire(scene)
    assert [outcome for _, outcome in runs(scene, by_token)] == ["placed", "refused", "refused"]
    assert [outcome for _, outcome in runs(scene, by_hand)] == ["placed", "placed", "refused"]
    last = scene.store.schedules.get(by_hand.id).last
    assert last is not None and "budget" in last.why
    # The next day has its own; it was noon.
    scene.clock.advance(10 * 3_600)
    fire(scene)
    assert runs(scene, by_token)[-1][1] == runs(scene, by_hand)[-1][1] == "placed"


def test_expressions_see_the_run_before(scene: Scene) -> None:
    scheduled(scene)
    seen: list[dict[str, str | None]] = []

    def make(due: DueRun) -> PreparedRun:
        seen.append(dict(due.previous))
        return prepared(due)

    scene.clock.advance(3_600)
    (run,) = fire(scene, make)
    finish(scene, run)
    scene.clock.advance(3_600)
    fire(scene, make)
    assert seen == [
        {"instant": None, "order_id": None, "status": None},
        {"instant": "2026-01-01T13:00:00Z", "order_id": run.order_id, "status": "succeeded"},
    ]


def test_a_run_is_asked_for_beside_the_timetable(scene: Scene) -> None:
    schedule = scheduled(scene)
    due = scene.store.firing.asked(schedule.id, by=BY)
    fired = scene.store.firing.fire(due, prepared(due), asked_by=Actor("person:1", "page"))
    assert fired is not None and fired.run is not None and fired.run.outcome == "placed"
    assert scene.store.orders.get(str(fired.run.order_id)).principal == OPERATOR
    assert scene.store.schedules.get(schedule.id).next == schedule.next
    note = scene.store.audit.list()[0]
    assert (note.kind, note.principal) == ("schedule.run", "person:1")
    again = scene.store.firing.asked(schedule.id, by=BY)
    scene.clock.advance(1)
    skipped = scene.store.firing.fire(scene.store.firing.asked(schedule.id, by=BY), prepared(again))
    assert skipped is not None and skipped.run is not None and skipped.run.outcome == "skipped"


def test_a_schedule_is_planned_anew_by_newer_tables_of_the_zones(scene: Scene) -> None:
    schedule = scheduled(scene)
    older = {"zone_data": "2001a", "next_instant": 0, "due_at": 0}
    scene.store.database.write(lambda connection: connection.execute(sa.update(SCHEDULES), older))
    # Nothing is due by these: it is planned anew, and not run.
    assert fire(scene) == []
    scene.store.database.write(lambda connection: connection.execute(sa.update(SCHEDULES), {**older, "due_at": 2**60}))
    assert scene.store.firing.by_newer_zones() == 1
    assert scene.store.firing.by_newer_zones() == 0
    scene.clock.advance(3_600)
    assert [run.instant for run in fire(scene)] == [schedule.next[0]]


def test_old_runs_are_forgotten_but_not_those_of_unfinished_orders(scene: Scene) -> None:
    schedule = scheduled(scene, cron="0 12 * * *", max_running=1)
    for _ in range(KEPT_DAYS + 5):
        scene.clock.advance(24 * 3_600)
        fire(scene)
    outcomes = [outcome for _, outcome in runs(scene, schedule)]
    assert outcomes[0] == "placed" and set(outcomes[1:]) == {"skipped"}
    assert len(outcomes) == KEPT_DAYS + 2


def test_a_removed_schedule_leaves_its_orders(scene: Scene) -> None:
    schedule = scheduled(scene)
    scene.clock.advance(3_600)
    (run,) = fire(scene)
    scene.store.schedules.remove(schedule.id, by=BY)
    scene.clock.advance(3_600)
    assert fire(scene) == [] and scene.store.schedules.list() == []
    assert scene.store.orders.get(str(run.order_id)).status is OrderStatus.QUEUED
    assert scene.store.audit.list()[0].kind == "schedule.removed"


@pytest.mark.parametrize("unknown", ["nobody", "0197f000-0000-7000-8000-000000000000", "\0"])
def test_a_schedule_that_is_not_there_is_told(scene: Scene, unknown: str) -> None:
    new = NewSchedule(name="a", cron="0 * * * *", order={})
    calls: tuple[Callable[[], object], ...] = (
        lambda: scene.store.schedules.get(unknown),
        lambda: scene.store.schedules.change(unknown, 1, new, by=BY),
        lambda: scene.store.schedules.remove(unknown, by=BY),
        lambda: scene.store.schedules.runs(unknown),
        lambda: scene.store.firing.asked(unknown, by=BY),
    )
    for call in calls:
        with pytest.raises(UnknownSchedule):
            call()


def test_a_schedule_that_cannot_be_is_not_saved(scene: Scene) -> None:
    schedule = scheduled(scene)
    refused: tuple[tuple[type[Exception], Callable[[], object]], ...] = (
        (ScheduleNameTaken, lambda: scheduled(scene)),
        (BadTiming, lambda: scheduled(scene, "other", cron="0 0 30 2 *")),
        (BadTiming, lambda: scheduled(scene, "other", jitter_seconds=3_600)),
        (ScheduleChanged, lambda: scene.store.schedules.change(schedule.id, 7, schedule, by=BY)),
        (BadCursor, lambda: scene.store.schedules.runs(schedule.id, cursor="x")),
    )
    for error, call in refused:
        with pytest.raises(error):
            call()
    assert scene.store.schedules.get(schedule.id) == schedule


def test_there_are_only_so_many_schedules(scene: Scene) -> None:
    scheduled(scene)
    rows = scene.store.database.read(lambda connection: connection.execute(sa.select(SCHEDULES)).mappings().all())
    copies = [{**rows[0], "id": f"{number}", "name": f"n{number}"} for number in range(MOST_SCHEDULES - 2)]
    scene.store.database.write(lambda connection: connection.execute(sa.insert(SCHEDULES), copies))
    scheduled(scene, "last")
    with pytest.raises(TooManySchedules):
        scheduled(scene, "another")


def test_pages_of_runs_follow_one_another(scene: Scene) -> None:
    schedule = scheduled(scene, max_running=9)
    for _ in range(5):
        scene.clock.advance(3_600)
        fire(scene)
    first = scene.store.schedules.runs(schedule.id, limit=3)
    second = scene.store.schedules.runs(schedule.id, limit=3, cursor=first.next_cursor)
    assert [f"{run.instant:%H}" for run in (*first.items, *second.items)] == ["17", "16", "15", "14", "13"]
    assert second.next_cursor is None


def test_a_key_counts_for_a_day_and_for_who_has_said_it(scene: Scene) -> None:
    schedule = scheduled(scene, max_running=9)

    def run(by: Actor) -> FiredRun | None:
        scene.clock.advance(1)
        due = scene.store.firing.asked(schedule.id, by=by, key="k")
        return scene.store.firing.fire(due, prepared(due), asked_by=by)

    first, again, others = run(BY), run(BY), run(Actor("person:other"))
    assert first is not None and again is not None and others is not None
    assert (first.is_known, again.is_known, others.is_known) == (False, True, False)
    assert first.run == again.run != others.run
    scene.clock.advance(24 * 3_600 + 1)
    later = run(BY)
    assert later is not None and not later.is_known and later.run != first.run


def test_of_many_requests_with_one_key_one_is_run(scene: Scene) -> None:
    schedule = scheduled(scene, max_running=9)
    due = scene.store.firing.asked(schedule.id, by=BY, key="k")
    fire_it = scene.store.firing.fire
    dues = [
        replace(due, now=due.now + timedelta(microseconds=number), instant=due.now + timedelta(microseconds=number))
        for number in range(4)
    ]
    with ThreadPoolExecutor(4) as pool:
        fired = list(pool.map(lambda one: fire_it(one, prepared(one), asked_by=BY), dues))
    assert sorted(one.is_known for one in fired if one is not None) == [False, True, True, True]
    assert len({one.run.order_id for one in fired if one is not None and one.run is not None}) == 1


@pytest.mark.parametrize("spec", ['{"zone":"Mars/Base"}', '{"when_full":"of another version"}'])
def test_a_schedule_that_this_process_does_not_understand_keeps_no_other_from_being_fired(
    scene: Scene, spec: str, caplog: pytest.LogCaptureFixture
) -> None:
    lost, other = scheduled(scene, "lost", when_full="queue"), scheduled(scene, "other")
    kept = json.loads(lost.model_dump_json(include=set(NewSchedule.model_fields) - {"name", "paused"}))
    values = {"spec_json": json.dumps({**kept, **json.loads(spec)}), "zone_data": "2001a"}
    scene.store.database.write(
        lambda connection: connection.execute(sa.update(SCHEDULES).where(SCHEDULES.c.id == lost.id).values(**values))
    )
    scene.clock.advance(3_600)
    assert [run.outcome for run in fire(scene)] == ["placed"]
    assert runs(scene, other) == [("13:00", "placed")]
    scene.store.firing.by_newer_zones()
    assert caplog.text.count("lost cannot be fired here") == 1


def test_a_schedule_whose_zone_is_gone_is_listed_and_can_be_changed(scene: Scene) -> None:
    schedule = scheduled(scene, zone="Europe/Berlin")
    scene.store.database.write(
        lambda connection: connection.execute(
            sa.update(SCHEDULES).values(spec_json=sa.func.replace(SCHEDULES.c.spec_json, "Europe/Berlin", "Mars/Base"))
        )
    )
    (listed,) = scene.store.schedules.list()
    assert (listed.zone, listed.next) == ("Mars/Base", ())
    changed = scene.store.schedules.change(schedule.id, 1, schedule_with(schedule, zone="UTC"), by=BY)
    assert len(changed.next) == 5
