"""`mcc orders record --all --jsonl`: every record there is, whatever its age has made of its rows."""

import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.contracts.shape import now
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.testing.hand_drone import HandDrone
from tests.mcc.cli.in_process import CliRunner


def told(tmp_path: Path, *options: str) -> list[dict[str, Any]]:
    environment = {"MCC_DATA_DIR": str(tmp_path), "HOME": str(tmp_path), "MCC_PORT": "1"}
    done = CliRunner().invoke(app, ["orders", "record", *options], env=environment)
    assert done.exit_code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def worked(store: Store, prompt: str) -> str:
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt=prompt), by=Actor("t")).order.id)
    held.start()
    held.finish("the answer")
    return held.id


def test_records_of_all_orders_that_ended_are_told_packed_ones_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'mcc.db'}"
    upgrade(url)
    store = open_store(url)
    orders = [worked(store, prompt) for prompt in ("first", "second")]
    store.orders.place(NewOrder(prompt="never begun"), by=Actor("t"))
    fresh = told(tmp_path, "--all", "--jsonl")
    assert [line["order"]["id"] for line in fresh] == orders[::-1]
    assert [line["prompt"] for line in fresh] == ["second", "first"]
    assert list(store.packing.pack(now() + timedelta(days=1)))
    store.close()
    with closing(sqlite3.connect(tmp_path / "mcc.db")) as link:
        assert link.execute("SELECT count(*) FROM chat_records").fetchone() == (0,)
    assert told(tmp_path, "--all", "--jsonl") == fresh
    assert told(tmp_path, "--all", "--jsonl", "--since", "1h") == fresh
    assert not told(tmp_path, "--all", "--jsonl", "--since", "2999-01-01")


def test_one_order_or_all_of_them(tmp_path: Path) -> None:
    upgrade(f"sqlite:///{tmp_path / 'mcc.db'}")
    environment = {"MCC_DATA_DIR": str(tmp_path), "MCC_PORT": "1"}
    for options in ((), ("--all",), ("--jsonl", "x"), ("--since", "1h", "x"), ("--all", "--jsonl", "x")):
        done = CliRunner().invoke(app, ["orders", "record", *options], env=environment)
        assert done.exit_code == 2, options
