"""Orders chosen by many filters, listed, cancelled and repeated; usage, failures and views, by command."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.entry import ORDER, Draft
from mcc.contracts.fold import Fold
from mcc.contracts.order import NewOrder, OrderOutcome
from mcc.contracts.order_bulk import ViewContent
from mcc.contracts.order_facts import OrderFinished
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus
from mcc.store.database.tables import LIST_PROGRESS, ORDER_WORDS
from mcc.store.rows.values import Ending
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner

Run = Callable[..., Result]


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def mcc(store: Store, tmp_path: Path) -> Iterator[Run]:
    with Served(store, tmp_path) as served:
        environment = {"MCC_URL": served.url, "MCC_TOKEN": TOKEN}
        yield lambda *words: CliRunner().invoke(app, words, env=environment)


def placed(store: Store, prompt: str = "do it", **fields: Any) -> str:
    return store.orders.place(NewOrder(prompt=prompt, **fields), by=Actor("operator")).order.id


def failed(store: Store, detail: str = "line 7 is wrong", **fields: Any) -> str:
    held = HandDrone(store, agents=("master", "review")).claim(placed(store, **fields))
    held.start()
    why: dict[str, Any] = {"status": OrderStatus.FAILED, "reason": FailureReason.MODEL_ERROR, "detail": detail}
    fold = Fold.of(held.id, store.journal.read(held.id))
    last = Draft(at=now(), origin=ORDER, data=OrderFinished(usage=fold.spent, **why))
    outcome = OrderOutcome(usage=fold.spent, **why)
    store.claims.finish(Ending(held.id, held.claim.epoch, held.seq, 0, [last], outcome, fold.record()))
    return held.id


def listed(answer: Result) -> Any:
    assert answer.exit_code == 0, answer.output
    return [item["id"] for item in json.loads(answer.stdout)["items"]]


def test_orders_are_listed_by_filters_that_combine_and_repeat(store: Store, mcc: Run) -> None:
    fence = placed(store, "Mend the fence", labels=("a",), agent="review", model="fast")
    roof = placed(store, "Mend the roof", labels=("b",))
    broken = failed(store, prompt="Mend nothing")
    store.order_words.advance(young_seconds=0)
    store.tallying.advance()
    (cause,) = store.failures.since(datetime.now(UTC) - timedelta(hours=1))
    sessions = [store.orders.get(order_id).session_id for order_id in (roof, fence)]
    cases = {
        ("--label", "a", "--label", "b"): [roof, fence],
        ("--text", "mend", "--label", "a"): [fence],
        ("--text", "mending"): [broken, roof, fence],
        ("--agent", "review", "--agent", "master"): [broken, roof, fence],
        ("--model", "fast"): [fence],
        ("--drone", "drone-1"): [broken],
        ("--group", "done"): [broken],
        ("--group", "needs-input"): [],
        ("--fingerprint", cause.fingerprint): [broken],
        ("--session", sessions[0], "--session", sessions[1][-12:]): [roof, fence],
        ("--since", "1h", "--status", "failed", "--status", "queued"): [broken, roof, fence],
        ("--until", "1h"): [],
    }
    for words, expected in cases.items():
        assert listed(mcc("orders", "list", "--json", *words)) == expected, words


def test_the_same_filters_find_orders_where_no_service_runs(store: Store, tmp_path: Path) -> None:
    from mcc.cli.archive import Archive

    fence, roof = placed(store, "Mend the fence", labels=("a",)), placed(store, "Mend the roof", labels=("b",))
    store.order_words.advance(young_seconds=0)
    orders = Archive(store).orders
    assert [one.id for one in orders.list(text="mend", label=["a", "b"]).items] == [roof, fence]
    assert [one.id for one in orders.list(text="roof", group="working", status="queued").items] == [roof]


@pytest.mark.parametrize(
    "words", [("--status", "gone"), ("--group", "few"), ("--fingerprint", "xyz"), ("--since", "x")]
)
def test_a_filter_that_cannot_be_is_refused(mcc: Run, words: tuple[str, str]) -> None:
    answer = mcc("orders", "list", *words)
    assert answer.exit_code == 2 and words[0].removeprefix("--") in answer.stderr


def test_all_that_fit_are_cancelled_and_no_other(store: Store, mcc: Run) -> None:
    mine = [placed(store, labels=("mine",)) for _ in range(3)]
    other, over = placed(store), failed(store, labels=("mine",))
    done = mcc("orders", "cancel", "--label", "mine", "--reason", "enough", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"requested": 3, "ended": 3, "next_cursor": None})
    assert [store.orders.get(one).status for one in (*mine, other, over)] == [*["cancelled"] * 3, "queued", "failed"]
    assert store.controls.of_order(mine[0])[0].reason == "enough"
    assert "1 order told to end; 1 of them have ended" in mcc("orders", "cancel", "--all").stdout
    assert store.orders.get(other).status == "cancelled"


@pytest.mark.parametrize(
    "words", [("cancel",), ("retry",), ("cancel", "--all", "--label", "a"), ("retry", "@last", "--label", "a")]
)
def test_which_orders_are_meant_must_be_said_and_once(store: Store, mcc: Run, words: tuple[str, ...]) -> None:
    order_id = placed(store, labels=("a",))
    assert mcc("orders", *words).exit_code == 2
    assert store.orders.get(order_id).status == "queued" and len(store.orders.list().items) == 1


@pytest.mark.parametrize("words", [("cancel", "--status", "failed"), ("retry", "--status", "running")])
def test_an_order_in_the_wrong_state_is_not_asked_for(mcc: Run, words: tuple[str, ...]) -> None:
    assert mcc("orders", *words).exit_code == 2


def test_the_failures_of_one_cause_are_placed_once_more(store: Store, mcc: Run) -> None:
    first, second = failed(store, "line 7 is wrong"), failed(store, "line 8 is wrong")
    failed(store, "the roof leaks")
    told = json.loads(mcc("failures", "--since", "1d", "--json").stdout)["items"]
    assert [(cause["count"], cause["detail"]) for cause in told] == [(2, "line 8 is wrong"), (1, "the roof leaks")]
    assert "line 8 is wrong" in mcc("failures").stdout
    answer = mcc("orders", "retry", "--fingerprint", told[0]["fingerprint"])
    assert answer.exit_code == 0 and "2 of 2 orders placed once more" in answer.stderr
    again = [store.orders.get(order_id) for order_id in answer.stdout.split()]
    assert {order.origin.order_id for order in again if order.origin} == {first, second}


def test_usage_is_shown_by_key_with_a_total(store: Store, mcc: Run) -> None:
    for labels in (("a",), ("a", "b")):
        held = HandDrone(store).claim(placed(store, labels=labels))
        held.start()
        held.finish()
    store.tallying.advance()
    placed(store)
    lines = mcc("usage", "--by", "label").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["LABEL", "ORDERS"],
        ["a", "2"],
        ["b", "1"],
        ["total", "2"],
        ["open", "1"],
    ]
    report = json.loads(mcc("usage", "--by", "label", "--json").stdout)
    assert report["totals"]["orders"] == 2 and len(report["days"]) == 2
    assert mcc("usage", "--from", "2020-01-01", "--to", "2020-01-02").stdout.splitlines()[1].split()[:2] == [
        "total",
        "0",
    ]
    assert [mcc("usage", *words).exit_code for words in (("--by", "moon"), ("--from", "monday"))] == [2, 2]


def test_views_are_listed_and_deleted(store: Store, mcc: Run) -> None:
    store.views.put("operator", "nightly", ViewContent(query={"label": ["nightly"]}))
    assert '{"label":["nightly"]}' in mcc("views").stdout
    assert mcc("views", "delete", "nightly").exit_code == 0
    assert mcc("views", "delete", "nightly").exit_code == 1
    assert json.loads(mcc("views", "list", "--json").stdout) == {"items": []}


def test_a_list_ends_while_older_orders_are_still_made_findable(store: Store, mcc: Run) -> None:
    new = placed(store, "Mend the roof", labels=("a",))

    def forget(connection: sa.Connection) -> None:
        connection.execute(sa.delete(ORDER_WORDS))
        connection.execute(sa.insert(LIST_PROGRESS), {"name": "words", "reached": "g"})

    store.database.write(forget)
    answer = mcc("orders", "list", "--text", "roof")
    assert answer.exit_code == 0 and "still being made findable" in answer.stderr
    assert mcc("orders", "cancel", "--text", "roof").exit_code == 1
    assert store.orders.get(new).status == "queued"
