"""`mcc sessions`: defaults, lists, forks, exports and deletion at the command line."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder
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
def mcc(store: Store, tmp_path: Path) -> Iterator[Mcc]:
    with Served(store, tmp_path) as served:
        runner = CliRunner()
        yield lambda *words: runner.invoke(app, ["sessions", *words], env={"MCC_URL": served.url, "MCC_TOKEN": TOKEN})


@pytest.fixture
def orders(store: Store, tmp_path: Path) -> Iterator[Mcc]:
    with Served(store, tmp_path) as served:
        runner = CliRunner()
        yield lambda *words: runner.invoke(app, ["orders", *words], env={"MCC_URL": served.url, "MCC_TOKEN": TOKEN})


def ended_turn(store: Store, session_id: str) -> str:
    order = store.orders.place(NewOrder(prompt="one\x1b[2J", session_id=session_id), by=Actor("p")).order
    store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    return order.id


def test_defaults_are_set_merged_and_unset(mcc: Mcc) -> None:
    session_id = mcc("new", "Talk", "--set", "agent=review", "--set", "limits.rounds=5").stdout.strip()
    set_both = json.loads(mcc("set", session_id, "limits.cost_usd=0.5", "mode=plan", "--json").stdout)
    assert (set_both["agent"], set_both["mode"]) == ("review", "plan")
    assert set_both["limits"] == {"rounds": 5, "cost_usd": 0.5}
    unset = json.loads(mcc("set", session_id, "limits.rounds=", "agent=", "--json").stdout)
    assert (unset["agent"], unset["limits"]) == (None, {"cost_usd": 0.5})
    assert json.loads(mcc("set", session_id, "limits=", "--json").stdout)["limits"] is None
    for wrong in ("agent", "nothing=1", "limits.=1", "limits=5", "agent.x=1"):
        assert mcc("set", session_id, wrong).exit_code == 2


def test_archived_sessions_are_listed_apart(mcc: Mcc) -> None:
    session_id = mcc("new", "Talk").stdout.strip()
    assert mcc("rename", session_id, "Other\x1b[2J").exit_code == 0
    assert mcc("archive", session_id).exit_code == 0
    assert session_id not in mcc("list").stdout
    listed = mcc("list", "--archived", "--text", "OTHER").stdout
    assert session_id in listed and "\x1b" not in listed
    assert mcc("unarchive", session_id).exit_code == 0
    assert session_id in mcc("list").stdout


def test_a_session_is_read_forked_and_exported(mcc: Mcc, store: Store, tmp_path: Path) -> None:
    session_id = mcc("new", "Talk").stdout.strip()
    order_id = ended_turn(store, session_id)
    assert json.loads(mcc("show", session_id, "--json").stdout)["unread"] == 1
    assert mcc("read", session_id).exit_code == 0
    assert json.loads(mcc("show", session_id, "--json").stdout)["unread"] == 0
    assert order_id in mcc("usage", session_id).stdout
    fork = mcc("fork", session_id, "--turn", "1").stdout.strip()
    assert f"turn 1 of session {session_id}" in mcc("show", fork).stdout
    text = mcc("export", session_id).stdout
    assert "## Turn 1" in text and "\x1b" not in text
    file = tmp_path / "talk.jsonl"
    assert mcc("export", session_id, "--format", "jsonl", "--out", str(file)).exit_code == 0
    assert [list(json.loads(line)) for line in file.read_text("utf-8").splitlines()] == [
        ["session"],
        ["order", "record"],
    ]
    assert mcc("export", session_id, "--out", str(tmp_path / "none" / "x")).exit_code == 1


def test_nothing_is_deleted_where_nobody_can_be_asked(mcc: Mcc, store: Store) -> None:
    session_id = mcc("new", "Talk").stdout.strip()
    ended_turn(store, session_id)
    assert mcc("delete", session_id).exit_code == 2
    assert mcc("show", session_id).exit_code == 0
    assert mcc("delete", session_id, "--yes").exit_code == 0
    assert mcc("show", session_id).exit_code == 1


def test_words_are_found_with_their_turns_and_what_was_rolled_back_says_so(mcc: Mcc, store: Store) -> None:
    session_id = mcc("new", "Talk").stdout.strip()
    for prompt in ("The pelican\x1b[2J rests", "two herons"):
        order = store.orders.place(NewOrder(prompt=prompt, session_id=session_id), by=Actor("p")).order
        store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    store.orders.roll_back(order.id, by=Actor("p"))
    shown = mcc("search", session_id, "pelicans", "gull").stdout
    assert "1/1" in shown and "The pelican" in shown and "\x1b" not in shown
    assert "prompt, rolled back" in mcc("search", session_id, "heron").stdout
    assert "None of these words was said." in mcc("search", session_id, "gull").stdout
    found = json.loads(mcc("search", session_id, "heron", "--turn", "2", "--limit", "1", "--json").stdout)
    assert [(item["turn"], item["left_out"]) for item in found["items"]] == [(2, True)]
    assert mcc("search", session_id).exit_code == 2
    fork = mcc("fork", session_id, "--turn", "1").stdout.strip()
    assert "^1/1  " in mcc("search", fork, "pelican").stdout, "a turn of the session that it was forked from"
    own = store.orders.place(NewOrder(prompt="a pelican flies", session_id=fork), by=Actor("p")).order
    store.controls.request(own.id, ControlKind.CANCEL, NewControl(), by=Actor("p"))
    for turn, text in (("1", "a pelican flies"), ("^1", "The pelican")):
        found = json.loads(mcc("search", fork, "pelican", "--turn", turn, "--json").stdout)
        assert [item["excerpt"][: len(text)] for item in found["items"]] == [text]
    assert mcc("search", fork, "pelican", "--turn", "1^").exit_code == 2
    for _ in store.retention.clear(datetime.now(UTC) + timedelta(days=1)):
        pass
    told = mcc("search", fork, "pelican").stderr
    assert "turns 1, ^1: pruned" in told


def test_a_session_is_compacted_by_an_order_that_only_its_kind_lists(mcc: Mcc, orders: Mcc, store: Store) -> None:
    session_id = mcc("new", "Talk").stdout.strip()
    refused = mcc("compact", session_id)
    assert refused.exit_code == 1 and "nothing to compact" in refused.stderr
    ended_turn(store, session_id)
    order_id = mcc("compact", session_id).stdout.strip()
    assert json.loads(mcc("compact", session_id, "--json").stdout)["id"] == order_id
    assert store.orders.get(order_id).compacts == session_id
    assert order_id not in orders("list").stdout
    assert order_id in orders("list", "--kind", "compact").stdout
    assert orders("list", "--kind", "none").exit_code != 0
