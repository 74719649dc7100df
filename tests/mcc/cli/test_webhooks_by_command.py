"""`mcc webhooks`: an endpoint by its name, from its registration to its removal."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder
from mcc.contracts.replies import ForgeReply
from mcc.store.doors.trigger_deliveries import KnownDelivery, TriggeredOrder
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner

Mcc = Callable[..., Result]


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with Served(store, tmp_path) as service:
        yield service


@pytest.fixture
def mcc(served: Served) -> Mcc:
    def run(*words: str) -> Result:
        return CliRunner().invoke(app, ["webhooks", *words], env={"MCC_URL": served.url, "MCC_TOKEN": TOKEN})

    return run


def test_an_endpoint_is_added_shown_turned_off_and_removed(mcc: Mcc) -> None:
    added = mcc("add", "ci", "https://ci.example.com/hook", "--type", "order.finished", "--label", "nightly")
    assert added.exit_code == 0 and added.stdout.startswith("whsec_")
    shown = mcc("show", "ci").stdout
    assert "order.finished" in shown and "only labels" in shown and "nightly" in shown
    assert "ci" in mcc("list").stdout and "orders" in mcc().stdout
    assert "off since" in mcc("off", "ci").stderr and mcc("on", "ci").stderr == "ci is on\n"
    rotated = mcc("rotate", "ci", "--keep-seconds", "0")
    assert rotated.stdout.startswith("whsec_") and rotated.stdout != added.stdout
    assert mcc("remove", "ci").exit_code == 0
    unknown = mcc("show", "ci")
    assert unknown.exit_code == 2 and "mcc webhooks list" in unknown.stderr


def test_what_is_dead_is_listed_and_replayed(mcc: Mcc, store: Store) -> None:
    mcc("add", "ci", "https://ci.example.com/hook")
    store.orders.place(NewOrder(prompt="x"), by=Actor("test"))
    store.webhooks.fanning_out.advance()
    assert "order.queued" in mcc("deliveries", "--endpoint", "ci").stdout
    mcc("remove", "ci")
    (dead,) = json.loads(mcc("deliveries", "--state", "dead", "--json").stdout)["items"]
    assert "its endpoint was removed" in mcc("deliveries").stdout
    assert dead["id"] in mcc("replay", dead["id"]).stderr
    assert mcc("replay", "--hours", "1").stderr == "tried again: 0\n"
    assert mcc("replay", dead["id"], "--hours", "1").exit_code == 2


def test_replies_are_listed_by_the_table_that_they_go_to(mcc: Mcc, store: Store) -> None:
    by, target = Actor("trigger:issues", "trigger/issues"), ForgeReply(forge="hub", project="team/shop", number=7)
    order = TriggeredOrder(NewOrder(prompt="x"), by, None, 20, reply=target)
    placed = store.trigger_deliveries.place(KnownDelivery("issues", "1", "b"), order)
    store.controls.request(str(placed.order_id), ControlKind.CANCEL, NewControl(), by=by)
    store.webhooks.fanning_out.advance()
    for words in ((), ("--endpoint", "forges.hub")):
        assert "forges.hub" in mcc("deliveries", *words).stdout
    assert "Nothing yet." in mcc("deliveries", "--endpoint", "forges.lab").stdout
    assert mcc("deliveries", "--endpoint", "hub").exit_code == 2
    assert "tried again: 0" in mcc("replay", "--endpoint", "forges.hub").stderr
