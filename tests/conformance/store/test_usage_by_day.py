"""What orders used is counted once, by day and key, whoever ends them and however the counting is interrupted."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewFork, NewOrder, OrderOutcome
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.contracts.usage import Usage
from mcc.contracts.usage_days import MOST_KEYS, OTHERS, UsageReport, UsageSum
from mcc.store.database.tables import LIST_PROGRESS, STATE, USAGE_DAYS, USAGE_OUTBOX
from mcc.store.lists.usage import UsageQuery
from mcc.store.rows import usage_rows
from mcc.store.rows.usage_rows import count_usage
from mcc.store.upkeep.tallying import AT_ONCE, ROUNDS, Tallying
from tests.conformance.store.scene import Scene, at_once, replied, started

FIRST, LAST = date(2025, 1, 1), date(2026, 1, 31)


def done(scene: Scene, tokens: int = 10, reason: FailureReason | None = None, **order: Any) -> str:
    held = scene.running(**order)
    held.write(started(), replied(tokens=tokens))
    status = OrderStatus.SUCCEEDED if reason is None else OrderStatus.FAILED
    scene.store.claims.finish(held.ending(status, reason=reason))
    return held.order_id


def report(scene: Scene, by: Any = "day", first: date = FIRST, last: date = LAST) -> UsageReport:
    return scene.store.usage.report(UsageQuery(by, first, last))


def by_key(scene: Scene, by: str) -> dict[str, int]:
    return {row.key: row.orders for row in report(scene, by).days}


def test_an_order_is_counted_by_everything_that_it_is_found_by(scene: Scene) -> None:
    done(scene, 10, agent="review", labels=["nightly", "slow"])
    done(scene, 20, FailureReason.MODEL_ERROR)
    assert scene.store.tallying.advance() == 2
    assert by_key(scene, "day") == {"2026-01-01": 2}
    assert by_key(scene, "agent") == {"review": 1, "master": 1}
    assert by_key(scene, "model") == {"openai/fast": 2}
    assert by_key(scene, "label") == {"nightly": 1, "slow": 1, "": 1}
    assert by_key(scene, "person") == {"someone": 2}
    assert by_key(scene, "drone") == {"drone-1": 2}
    totals = report(scene, "label").totals
    assert (totals.orders, totals.succeeded, totals.failed, totals.unpriced) == (2, 1, 1, 0)
    assert (totals.input_tokens, totals.output_tokens, totals.model_calls, totals.cost_usd) == (30, 2, 2, 1.0)


def test_an_order_is_counted_by_the_token_that_it_came_by(scene: Scene) -> None:
    for by in (Actor("person:a", "api", "token-1"), Actor("person:a", "page")):
        held = scene.hold(scene.store.orders.place(NewOrder(prompt="x"), by=by).order.id, token=str(by.token_id))
        held.finish()
    scene.store.tallying.advance()
    assert by_key(scene, "token") == {"token-1": 1, "": 1}


def test_what_is_not_settled_is_open(scene: Scene) -> None:
    scene.place()
    running = scene.running()
    running.write(started(), replied(tokens=7))
    done(scene, 5)
    before = report(scene)
    assert (before.days, before.totals, before.as_of) == ((), UsageSum(), scene.clock.now())
    assert (before.open.orders, before.open.succeeded, before.open.input_tokens) == (3, 1, 12)
    scene.store.tallying.advance()
    after = report(scene)
    assert (after.open.orders, after.open.succeeded, after.open.input_tokens) == (2, 0, 7)
    assert (after.totals.orders, after.totals.input_tokens, after.open.cost_usd) == (1, 5, 0.5)


def test_as_of_is_when_the_oldest_order_ended_that_is_not_counted(scene: Scene) -> None:
    done(scene)
    ended_at = scene.clock.now()
    scene.clock.advance(30)
    assert report(scene).as_of == ended_at
    scene.store.tallying.advance()
    assert report(scene).as_of == scene.clock.now()


def test_orders_of_unknown_cost_are_counted_apart(scene: Scene) -> None:
    held = scene.running()
    unpriced = replied().model_copy(update={"usage": Usage(input_tokens=3, model_calls=1, cost_usd=None)})
    held.write(started(), unpriced)
    before = report(scene).open
    assert (before.unpriced, before.cost_usd) == (1, 0.0)
    held.finish()
    done(scene)
    scene.store.tallying.advance()
    totals = report(scene).totals
    assert (totals.orders, totals.unpriced, totals.cost_usd) == (2, 1, 0.5)


@pytest.mark.parametrize("cost", [float("inf"), float("nan"), 1e300, -1.0])
def test_no_figure_of_a_provider_keeps_a_day_from_adding_up(scene: Scene, cost: float) -> None:
    usage = Usage.model_construct(**{**dict(Usage()), "input_tokens": 2**62, "cost_usd": cost})
    ids = [scene.running().order_id for _ in range(2)]
    used = {"input_tokens": 2**62, "cost_usd": cost}
    scene.store.database.write(lambda one: one.execute(sa.update(STATE).values(used)))
    assert report(scene).open.input_tokens == 2 * usage_rows.HIGHEST
    outcome = OrderOutcome(status=OrderStatus.SUCCEEDED).model_copy(update={"usage": usage})
    for order_id in ids:
        scene.store.database.write(partial(usage_rows.note_usage, order_id=order_id, outcome=outcome, at=0))
    scene.store.tallying.advance()
    totals = report(scene, first=date(1970, 1, 1)).totals
    assert (totals.orders, totals.input_tokens) == (2, 2 * usage_rows.HIGHEST)


def test_the_day_is_that_of_the_end_in_utc(scene: Scene) -> None:
    late = scene.running()
    scene.clock.advance(timedelta(hours=11, minutes=59, seconds=59).total_seconds())
    done(scene)
    scene.clock.advance(1)
    late.finish()
    scene.store.tallying.advance()
    assert by_key(scene, "day") == {"2026-01-01": 1, "2026-01-02": 1}
    assert report(scene, last=date(2026, 1, 1)).totals.orders == 1
    assert report(scene, first=date(2026, 1, 2)).totals.orders == 1


def test_whoever_counts_at_the_same_time_counts_each_order_once(scene: Scene) -> None:
    for _ in range(12):
        done(scene, 3)
    counters = [Tallying(scene.store.database, scene.store.order_words) for _ in range(4)]
    counted = at_once(*(counter.advance for counter in counters))
    assert all(isinstance(count, int) for count in counted), counted
    scene.store.tallying.advance()
    assert report(scene).totals.orders == 12
    assert report(scene).totals.input_tokens == 36


class Crash(Exception):
    """Where a process dies."""


def test_a_crash_in_the_midst_of_counting_counts_nothing_or_everything(scene: Scene) -> None:
    order_id = done(scene)

    def dies(connection: sa.Connection) -> None:
        assert list(count_usage(connection, [order_id])) == [order_id]
        raise Crash

    with pytest.raises(Crash):
        scene.store.database.write(dies)
    assert report(scene).totals.orders == 0
    assert scene.store.tallying.advance() == 1
    # After a commit whose answer was lost, it is tried again.
    assert scene.store.database.write(lambda one: list(count_usage(one, [order_id]))) == []
    assert report(scene).totals.orders == 1


def test_totals_are_the_sums_of_the_orders_whatever_happened_to_them(scene: Scene) -> None:
    """Over takeovers, ends by the store, retries, forks and rollbacks."""
    lost = scene.running()
    lost.write(started(), replied(tokens=100))
    scene.lose()
    again = scene.hold(lost.order_id, scene.drone("drone-2"))
    again.write(replied(tokens=40, round_number=2))
    again.finish()
    cancelled = scene.running()
    cancelled.write(started(), replied(tokens=7))
    scene.store.controls.request(cancelled.order_id, ControlKind.CANCEL, NewControl(), by=Actor("someone"))
    scene.lose()
    scene.store.orders.fork(lost.order_id, NewFork(after=3), by=Actor("someone"))
    retried = scene.store.orders.retry(lost.order_id, by=Actor("someone")).order.id
    for each in (retried, *(order.id for order in scene.store.orders.list(status=OrderStatus.QUEUED).items)):
        if scene.status(each) is OrderStatus.QUEUED:
            held = scene.hold(each, scene.drone("drone-3"))
            if not scene.fold(each).usage.model_calls:
                held.write(started())
            held.write(replied(tokens=1, round_number=3))
            held.finish()
            scene.store.tallying.advance()
    scene.store.orders.roll_back(retried, by=Actor("someone"))
    expired = scene.place(expires_at=scene.clock.now() + timedelta(seconds=5)).id
    scene.lose()
    scene.store.tallying.advance()
    orders = scene.store.orders.list(limit=100).items
    assert {order.status for order in orders} == {OrderStatus.SUCCEEDED, OrderStatus.CANCELLED, OrderStatus.FAILED}
    assert scene.status(expired) is OrderStatus.FAILED and len(orders) == 5
    expected: Counter[str] = Counter()
    for order in orders:
        expected.update({name: value for name, value in dict(order.usage).items() if name != "cost_usd"})
    totals = report(scene).totals
    assert {name: getattr(totals, name) for name in expected} == dict(expected)
    assert totals.cost_usd == sum(order.usage.cost_usd or 0 for order in orders)
    assert (totals.orders, report(scene).open.orders) == (5, 0)
    # A fork's own calls alone: those that it copied were paid by its source.
    assert expected["input_tokens"] == 100 + 40 + 7 + 1 + 1


def test_an_order_stays_counted_when_it_is_deleted(scene: Scene) -> None:
    order_id = done(scene)
    session_id = scene.store.orders.get(order_id).session_id
    scene.store.removal.begin(session_id, by=Actor("someone"))
    scene.store.removal.advance()
    assert not scene.store.orders.list().items
    assert scene.store.tallying.advance() == 0
    assert by_key(scene, "agent") == {"master": 1}


def test_of_many_keys_the_largest_are_told_and_the_others_together(scene: Scene) -> None:
    columns = dict.fromkeys(usage_rows.SUMS, 0)
    rows = [
        {"day": "2026-01-01", "by": "label", "key": f"label-{number}", **columns, "orders": 1, "cost_nanos": number}
        for number in range(MOST_KEYS + 5)
    ]
    scene.store.database.write(lambda one: one.execute(sa.insert(USAGE_DAYS), rows))
    counts = by_key(scene, "label")
    # 396 days leave room for 15 keys.
    assert len(counts) == 15 + 1 and counts[OTHERS] == MOST_KEYS + 5 - 15
    assert f"label-{MOST_KEYS + 4}" in counts and "label-0" not in counts
    day = report(scene, "label", date(2026, 1, 1), date(2026, 1, 1)).days
    assert len(day) == MOST_KEYS + 1


def test_a_day_has_a_bounded_number_of_keys(scene: Scene) -> None:
    rows = [
        {"day": "2026-01-01", "by": "label", "key": f"old-{number}", **dict.fromkeys(usage_rows.SUMS, 1)}
        for number in range(usage_rows.KEYS_OF_DAY - 1)
    ]
    scene.store.database.write(lambda one: one.execute(sa.insert(USAGE_DAYS), rows))
    for number in range(3):
        done(scene, labels=[f"new-{number}"])
    done(scene, labels=["old-0"])
    scene.store.tallying.advance()
    labels = sa.select(USAGE_DAYS.c.key, USAGE_DAYS.c.orders).where(USAGE_DAYS.c.by == "label")
    kept = dict(scene.store.database.read(lambda one: [(row.key, row.orders) for row in one.execute(labels)]))
    assert kept["old-0"] == 2 and kept["new-0"] == 1 and kept[OTHERS] == 2
    assert len(kept) == usage_rows.KEYS_OF_DAY + 1


def test_since_says_that_endings_before_were_not_counted(scene: Scene) -> None:
    assert report(scene).since is None
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = {"name": "usage", "reached": str(int(at.timestamp()) * 1_000_000)}
    scene.store.database.write(lambda one: one.execute(sa.insert(LIST_PROGRESS), row))
    assert report(scene).since == at


def test_one_round_counts_a_bounded_number_of_orders(scene: Scene) -> None:
    columns = dict.fromkeys(usage_rows.COUNTED, 1)
    many = AT_ONCE * ROUNDS + 1
    rows = [
        {"order_id": f"gone-{number}", "ended_at": 0, "status": "succeeded", **columns, "cost_nanos": 1}
        for number in range(many)
    ]
    scene.store.database.write(lambda one: one.execute(sa.insert(USAGE_OUTBOX), rows))
    assert [scene.store.tallying.advance() for _ in range(3)] == [many - 1, 1, 0]
    assert report(scene, first=date(1970, 1, 1)).totals.orders == many
