"""Budgets of a day: reserved when an order is placed, spent when it ends, on every store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.changes import NewRevert
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewFork, NewOrder, OrderKind, WorkOrder
from mcc.contracts.people import NewApiToken, NewPerson, PersonChange
from mcc.contracts.sessions import NewSession
from mcc.contracts.status import OrderStatus
from mcc.contracts.token_text import new_token
from mcc.contracts.usage import Usage
from mcc.store.database.errors import BudgetUsedUp
from mcc.store.database.tables import BUDGET_DAYS, ORDERS
from mcc.store.rows.budget_rows import day_of
from mcc.store.rows.stored_turns import PlannedCompaction
from mcc.store.rows.values import BatchOrder, Placed
from tests.conformance.store.course import placed as generated
from tests.conformance.store.scene import Scene, at_once, replied, started

ADMIN = Actor(OPERATOR)
COST = Usage(model_calls=1, cost_usd=0.4)


def ann(scene: Scene, budget: DayBudget | None = None) -> Actor:
    person = scene.store.people.add(NewPerson(name="Ann", role=Role.MEMBER, budget=budget), by=ADMIN)
    return Actor(person.principal, "api")


def with_token(scene: Scene, by: Actor, budget: DayBudget) -> Actor:
    new = NewApiToken(name="ci", scopes=(AccessScope.WRITE,), budget=budget)
    secret = new_token("personal")
    made = scene.store.tokens.make(secret, secret, new, by=by)
    return replace(by, token_id=made.id)


def place(scene: Scene, by: Actor, key: str | None = None, **fields: Any) -> Placed:
    new = NewOrder.model_validate({"prompt": "do it", **fields})
    return scene.store.orders.place(new, by=by, idempotency_key=key)


def order_of(scene: Scene, by: Actor, usd: float | None = None, **fields: Any) -> WorkOrder:
    return place(scene, by, **({} if usd is None else {"limits": {"cost_usd": usd}}) | fields).order


def used(scene: Scene, owner: str) -> dict[str, tuple[int, float, float]]:
    """By day: how many orders were placed, what is reserved, what is spent."""
    wanted = sa.select(BUDGET_DAYS).where(BUDGET_DAYS.c.owner == owner)
    rows = scene.store.database.read(lambda connection: connection.execute(wanted).all())
    return {row.day: (row.orders, row.reserved / 1e6, row.spent / 1e6) for row in rows}


def today(scene: Scene, by: Actor) -> tuple[int, float, float]:
    (day,) = used(scene, by.principal).values()
    return day


def finish(scene: Scene, order: WorkOrder, cost_usd: float | None) -> None:
    held = scene.hold(order.id, token=order.id)
    ending = held.ending()
    usage = COST.model_copy(update={"cost_usd": cost_usd})
    scene.store.claims.finish(replace(ending, outcome=ending.outcome.model_copy(update={"usage": usage})))


def cancel(scene: Scene, order: WorkOrder) -> None:
    scene.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=ADMIN)


def test_an_order_reserves_what_it_may_cost_and_its_limit_is_that(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=10, order_usd=3))
    stated = order_of(scene, by, 1.25)
    assert stated.limits == Limits(cost_usd=1.25, unknown_price="refuse")
    usual = order_of(scene, by)
    assert usual.limits == Limits(cost_usd=3, unknown_price="refuse") and scene.store.orders.get(usual.id) == usual
    assert today(scene, by) == (2, 4.25, 0)
    claim = scene.claim(usual.id, scene.drone())
    assert claim is not None and claim.order.limits == usual.limits


def test_without_an_amount_of_its_own_it_is_a_tenth_and_the_last_one_gets_what_is_left(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    assert order_of(scene, by).limits == Limits(cost_usd=0.1, unknown_price="refuse")
    order_of(scene, by, 0.87)
    last = order_of(scene, by)
    assert last.limits is not None and last.limits.cost_usd == 0.03
    with pytest.raises(BudgetUsedUp) as refused:
        order_of(scene, by)
    left = refused.value.left
    assert (left.owner, left.day, left.orders) == (by.principal, "2026-01-01", None) and left.usd is not None
    assert (left.usd.limit, left.usd.spent, left.usd.reserved) == (1, 0, 1)
    assert left.resets_at == datetime(2026, 1, 2, tzinfo=UTC) and refused.value.seconds == 12 * 3_600
    assert today(scene, by) == (3, 1, 0)


def test_a_stated_amount_is_never_cut(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    with pytest.raises(BudgetUsedUp):
        order_of(scene, by, 1.01)
    assert used(scene, by.principal) in ({}, {"2026-01-01": (0, 0, 0)})
    assert len(scene.store.orders.list().items) == 0


def test_less_than_a_cent_is_no_budget_for_an_order(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    order_of(scene, by, 0.991)
    with pytest.raises(BudgetUsedUp):
        order_of(scene, by)


@pytest.mark.parametrize(("budget", "placed", "reserved"), [(0.05, 10, 0.05), (0.2, 20, 0.2)])
def test_orders_of_next_to_nothing_are_bounded_by_the_budget_too(
    scene: Scene, budget: float, placed: int, reserved: float
) -> None:
    by = ann(scene, DayBudget(usd=budget))
    orders = [order_of(scene, by, 1e-9) for _ in range(placed)]
    assert {order.limits and order.limits.cost_usd for order in orders} == {1e-9}
    with pytest.raises(BudgetUsedUp):
        order_of(scene, by, 1e-9)
    assert today(scene, by) == (placed, reserved, 0)


def test_of_orders_that_race_as_many_are_placed_as_the_budget_has_room_for(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=10))
    answers = at_once(*[partial(order_of, scene, by, 1.0)] * 24)
    refused = [answer for answer in answers if isinstance(answer, BudgetUsedUp)]
    assert len(refused) == 14 and len(scene.store.orders.list().items) == 10
    assert today(scene, by) == (10, 10, 0)


def test_the_number_of_orders_is_bounded_too_and_their_limits_stay(scene: Scene) -> None:
    by = ann(scene, DayBudget(orders=2))
    first = order_of(scene, by)
    assert first.limits is None and first.requested_limits is None
    order_of(scene, by, 500.0)
    with pytest.raises(BudgetUsedUp, match="2 of 2 orders were placed"):
        order_of(scene, by)
    finish(scene, first, 0.4)
    with pytest.raises(BudgetUsedUp):
        order_of(scene, by)
    assert today(scene, by) == (2, 0, 0.4)


def test_an_order_that_ends_frees_what_it_did_not_spend(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    known, unknown, over, cancelled = (order_of(scene, by, 0.25) for _ in range(4))
    finish(scene, known, 0.1)
    assert today(scene, by) == (4, 0.75, 0.1)
    finish(scene, unknown, None)
    finish(scene, over, 0.5)
    cancel(scene, cancelled)
    assert today(scene, by) == (4, 0, 0.85)


def test_an_ending_whose_answer_got_lost_is_settled_once(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    held = scene.hold(order_of(scene, by, 0.5).id)
    ending = held.ending()
    ending = replace(ending, outcome=ending.outcome.model_copy(update={"usage": COST}))
    scene.store.claims.finish(ending)
    scene.store.claims.finish_together([ending])
    assert today(scene, by) == (1, 0, 0.4)


def test_both_the_person_and_the_token_must_have_enough(scene: Scene) -> None:
    person = ann(scene, DayBudget(usd=2))
    by = with_token(scene, person, DayBudget(usd=1, order_usd=0.6))
    order = order_of(scene, by)
    assert order.limits is not None and order.limits.cost_usd == 0.2
    order_of(scene, by, 0.7)
    with pytest.raises(BudgetUsedUp, match="this token"):
        order_of(scene, by, 0.2)
    order_of(scene, person, 1.0)
    with pytest.raises(BudgetUsedUp, match=person.principal):
        order_of(scene, by, 0.101)
    finish(scene, order, 0.05)
    assert used(scene, f"token:{by.token_id}") == {"2026-01-01": (2, 0.7, 0.05)}
    assert today(scene, person) == (3, 1.7, 0.05)


def test_who_has_none_of_their_own_has_the_usual_one_and_the_operator_none(scene: Scene) -> None:
    scene.store.budgets.make_usual(DayBudget(usd=1), "UTC", by=ADMIN)
    richer, usual = ann(scene, DayBudget(usd=100)), ann(scene)
    order_of(scene, richer, 50.0)
    with pytest.raises(BudgetUsedUp):
        order_of(scene, usual, 1.5)
    order_of(scene, ADMIN, 1_000.0)
    assert used(scene, OPERATOR) == {} and scene.store.budgets.today(ADMIN) is None
    scene.store.people.change(usual.principal.removeprefix("person:"), PersonChange(budget=DayBudget()), by=ADMIN)
    order_of(scene, usual, 1.5)
    scene.store.people.change(usual.principal.removeprefix("person:"), PersonChange(budget=None), by=ADMIN)
    with pytest.raises(BudgetUsedUp):
        order_of(scene, usual, 1.5)


def test_a_service_has_the_budget_of_its_token(scene: Scene) -> None:
    scene.store.budgets.make_usual(DayBudget(usd=1), "UTC", by=ADMIN)
    new = NewApiToken(name="x", kind="service", role=Role.MEMBER, scopes=(AccessScope.WRITE,), budget=DayBudget(usd=5))
    made = scene.store.tokens.make(new_token("service"), "digest", new, by=ADMIN)
    by = Actor(made.principal, "api", made.id)
    order_of(scene, by, 4.0)
    assert today(scene, by) == (1, 4, 0) and used(scene, f"token:{made.id}") == {}


def test_orders_together_are_placed_if_the_budget_has_room_for_all_of_them(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    session = scene.store.sessions.open(NewSession(), by=by)
    several = [
        BatchOrder(NewOrder(prompt=f"order {number}", session_id=session.id if number % 2 else None))
        for number in range(4)
    ]
    placed = scene.store.orders.place_all(several, by=by)
    assert {order.order.limits for order in placed} == {Limits(cost_usd=0.1, unknown_price="refuse")}
    assert {scene.store.orders.get(order.order.id).limits for order in placed} == {placed[0].order.limits}
    assert today(scene, by) == (4, 0.4, 0)
    dear = [BatchOrder(NewOrder(prompt="x", limits=Limits(cost_usd=0.25))) for _ in range(3)]
    with pytest.raises(BudgetUsedUp, match="2 of these orders would fit"):
        scene.store.orders.place_all(dear, by=by)
    assert today(scene, by) == (4, 0.4, 0) and len(scene.store.orders.list().items) == 4


def test_what_makes_no_order_reserves_nothing(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    first = place(scene, by, key="k", limits={"cost_usd": 1.0}).order
    assert not place(scene, by, key="k", limits={"cost_usd": 1.0}).created
    scene.hold(first.id)
    steered = place(scene, by, session_id=first.session_id, when_busy="steer")
    assert steered.receipt is not None and today(scene, by) == (1, 1, 0)


def test_a_revert_is_an_order_without_money(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1, orders=2))
    source = order_of(scene, by, 1.0, workspace="/work/a")
    finish(scene, source, 1.0)
    revert = scene.store.orders.revert(source.id, NewRevert(), by=by).order
    assert revert.kind is OrderKind.REVERT and revert.limits is None
    assert today(scene, by) == (2, 0, 1)
    with pytest.raises(BudgetUsedUp):
        scene.store.orders.revert(source.id, NewRevert(), by=by)


def test_a_delivery_is_an_order_without_money(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1, orders=2))
    source = order_of(scene, by, 1.0, workspace="https://git.test/team/service.git")
    cancel(scene, source)
    order_of(scene, by, 1.0)
    with pytest.raises(BudgetUsedUp):
        scene.store.orders.deliver(source.id, None, by=by)
    person_id = by.principal.removeprefix("person:")
    scene.store.people.change(person_id, PersonChange(budget=DayBudget(usd=1, orders=3)), by=ADMIN)
    delivery = scene.store.orders.deliver(source.id, None, by=by).order
    assert (delivery.kind, delivery.limits) == (OrderKind.DELIVER, None)
    assert today(scene, by) == (3, 1, 0)


def test_who_does_it_once_more_reserves_anew_by_the_limits_that_were_asked_for(scene: Scene) -> None:
    poor, rich = ann(scene, DayBudget(usd=0.02)), ann(scene, DayBudget(usd=50))
    source = order_of(scene, poor, limits={"rounds": 7})
    assert source.limits == Limits(rounds=7, cost_usd=0.002, unknown_price="refuse")
    assert source.requested_limits == Limits(rounds=7)
    held = scene.hold(source.id)
    held.write(started(), replied())
    held.finish()
    retry = scene.store.orders.retry(source.id, by=rich).order
    assert retry.limits == Limits(rounds=7, cost_usd=5, unknown_price="refuse")
    free = scene.store.orders.fork(source.id, NewFork(after=held.last_seq), by=ADMIN).order
    assert free.limits == Limits(rounds=7) and free.requested_limits is None
    assert today(scene, rich) == (1, 5, 0)
    with pytest.raises(BudgetUsedUp):
        scene.store.orders.retry(source.id, by=poor)


def test_a_document_is_ordered_from_the_budget_or_not_begun(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    order = generated(scene, by=by).order
    assert order.limits is not None and (order.limits.cost_usd, today(scene, by)) == (0.1, (1, 0.1, 0))
    generated(scene, order.document_id, by=by, limits={"cost_usd": 0.9})
    with pytest.raises(BudgetUsedUp):
        generated(scene, by=by)
    assert len(scene.store.documents.list().items) == 1


def test_an_order_that_takes_the_place_of_another_has_what_that_one_reserved(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    first = order_of(scene, by, 1.0)
    second = order_of(scene, by, 1.0, session_id=first.session_id, when_busy="interrupt")
    assert scene.status(first.id) is OrderStatus.CANCELLED and second.status is OrderStatus.QUEUED
    assert today(scene, by) == (2, 1, 0)


def test_a_compaction_reserves_for_who_asks_and_is_not_placed_without(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    turn = order_of(scene, by, 0.5)
    finish(scene, turn, 0.5)
    order = scene.store.compactions.ask(turn.session_id, by=by).order
    assert order.limits is not None and order.limits.cost_usd == 0.1
    assert today(scene, by) == (2, 0.1, 0.5)
    cancel(scene, order)
    order_of(scene, by, 0.5)
    with pytest.raises(BudgetUsedUp):
        scene.store.compactions.ask(turn.session_id, by=by)
    assert today(scene, by) == (3, 0.5, 0.5)


def idle(scene: Scene, order: WorkOrder) -> None:
    """End this turn, with the wish to compact its session when nobody has spoken for an hour."""
    due = scene.clock.now() + timedelta(hours=1)
    ending = scene.hold(order.id, token=order.id).ending()
    scene.store.claims.finish(replace(ending, compaction=PlannedCompaction(due=due, tokens=1_000, window=8_000)))


def test_a_compaction_after_a_turn_is_not_placed_where_the_budget_does_not_suffice(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1, orders=3))
    for _ in range(2):
        idle(scene, order_of(scene, by, 0.5))
    (compacting,) = scene.store.orders.list(kind=OrderKind.COMPACT).items
    assert (compacting.principal, today(scene, by)) == (by.principal, (3, 0.1, 0))


def test_the_day_is_that_of_acceptance(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    late = order_of(scene, by, 1.0)
    scene.clock.advance(12 * 3_600)
    order_of(scene, by, 0.75)
    finish(scene, late, 0.5)
    assert used(scene, by.principal) == {"2026-01-01": (1, 0, 0.5), "2026-01-02": (1, 0.75, 0)}


def test_a_clock_that_jumps_opens_no_budget_twice(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=1))
    order_of(scene, by, 1.0)
    scene.clock.advance(24 * 3_600)
    order_of(scene, by, 1.0)
    scene.clock.turn_back(24 * 3_600)
    with pytest.raises(BudgetUsedUp) as refused:
        order_of(scene, by, 0.1)
    assert refused.value.left.day == "2026-01-01" and refused.value.seconds == 12 * 3_600


def test_days_begin_in_the_time_zone_of_the_configuration(scene: Scene) -> None:
    scene.store.budgets.make_usual(DayBudget(usd=1), "Pacific/Auckland", by=ADMIN)
    by = ann(scene)
    order_of(scene, by, 1.0)
    assert list(used(scene, by.principal)) == ["2026-01-02"]
    left = scene.store.budgets.today(by)
    assert left is not None and left.resets_at == datetime(2026, 1, 2, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "at", "day", "begins"),
    [
        ("Europe/Berlin", "2026-03-29T00:30", "2026-03-29", "2026-03-29T22:00"),
        ("Europe/Berlin", "2026-10-25T22:59", "2026-10-25", "2026-10-25T23:00"),
        # Midnight is left out: the day begins when the clock goes from 23:59:59 to 01:00.
        ("Africa/Cairo", "2026-04-23T21:59", "2026-04-23", "2026-04-23T22:00"),
        # The hour after midnight comes twice: the day begins with the first.
        ("America/Havana", "2026-11-01T03:59", "2026-10-31", "2026-11-01T04:00"),
        ("America/Havana", "2026-11-01T05:30", "2026-11-01", "2026-11-02T05:00"),
        # A day that was left out.
        ("Pacific/Apia", "2011-12-30T09:59", "2011-12-29", "2011-12-30T10:00"),
        ("Australia/Lord_Howe", "2026-04-04T13:30", "2026-04-05", "2026-04-05T13:30"),
    ],
)
def test_a_day_is_one_of_the_calendar(zone: str, at: str, day: str, begins: str) -> None:
    at_time, next_time = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (at, begins))
    assert day_of(at_time, zone) == (day, next_time)
    assert day_of(next_time, zone)[0] > day == day_of(next_time - timedelta(microseconds=1), zone)[0]


def test_a_budget_that_is_lowered_under_what_is_spent_takes_no_more(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=10))
    order = order_of(scene, by, 5.0)
    person_id = by.principal.removeprefix("person:")
    scene.store.people.change(person_id, PersonChange(budget=DayBudget(usd=1)), by=ADMIN)
    with pytest.raises(BudgetUsedUp):
        order_of(scene, by, 0.0)
    finish(scene, order, 4.5)
    left = scene.store.budgets.today(by)
    assert left is not None and left.usd is not None and (left.usd.limit, left.usd.spent) == (1, 4.5)
    note = scene.store.audit.list(1)[0]
    assert (note.kind, note.detail["of"], note.detail["budget"]["usd"], note.detail["was"]["usd"]) == (
        "budget.set",
        by.principal,
        1,
        10,
    )
    scene.store.people.change(person_id, PersonChange(budget=DayBudget(usd=10)), by=ADMIN)
    order_of(scene, by, 5.5)


def test_orders_and_endings_of_two_owners_at_once_wait_for_each_other_in_one_sequence(scene: Scene) -> None:
    people = [ann(scene, DayBudget(usd=100)) for _ in range(2)]
    waiting = [order_of(scene, by, 1.0) for _ in range(6) for by in people]
    holder = scene.drone()
    held = [scene.hold(order.id, holder, order.id) for order in waiting]
    pairs = [held[index : index + 2] for index in range(0, len(held), 2)]
    ends = [partial(scene.store.claims.finish_together, [one.ending() for one in pair]) for pair in pairs]
    batches = [BatchOrder(NewOrder(prompt="more", limits=Limits(cost_usd=1.0)))] * 2
    places = [partial(scene.store.orders.place_all, batches, by=by) for by in people * 3]
    answers = at_once(*ends, *places)
    assert not [answer for answer in answers if isinstance(answer, BaseException)]
    assert [today(scene, by) for by in people] == [(12, 6, 0)] * 2


def test_a_days_budget_is_the_sum_of_its_orders_whatever_became_of_them(scene: Scene) -> None:
    by = ann(scene, DayBudget(usd=100))
    lost, poison, expired, cancelled, handed_back, done = (order_of(scene, by, 2.0) for _ in range(6))
    held = scene.hold(lost.id, token="lost")
    held.write(started(), replied())
    scene.lose()
    again = scene.hold(lost.id, scene.drone("drone-2"), "again")
    again.write(replied(round_number=2))
    again.finish(OrderStatus.FAILED)
    for number in range(6):
        if scene.status(poison.id) is OrderStatus.QUEUED:
            scene.hold(poison.id, scene.drone(f"drone-p{number}"), f"p{number}")
            scene.lose()
    begun = scene.hold(cancelled.id, scene.drone("drone-3"), "cancelled")
    begun.write(started(), replied())
    cancel(scene, cancelled)
    scene.lose()
    back = scene.drone("drone-4")
    returned = scene.hold(handed_back.id, back, "back")
    returned.write(started(), replied())
    cancel(scene, handed_back)
    scene.store.claims.hand_back([(handed_back.id, returned.epoch)], drone="drone-4", message="bye")
    finish(scene, done, 0.125)
    cancel(scene, expired)
    page = scene.store.orders.list().items
    assert all(order.finished_at is not None for order in page)
    reserved = sa.select(sa.func.sum(ORDERS.c.reserved))
    assert scene.store.database.read(lambda connection: connection.scalar(reserved)) == 12_000_000
    orders, left, spent = today(scene, by)
    assert (orders, left) == (6, 0)
    assert spent == pytest.approx(sum(order.usage.cost_usd or 0 for order in page)) and spent > 0
