"""`mcc orders diff` and `log`, and what a followed order ends with."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.callers import Actor
from mcc.contracts.changes import ChangedFile, Changes, CheckpointTaken
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.status import OrderStatus
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner

DIFF = (
    "--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a - b\n+a + b\n--- /dev/null\n+++ b/n.md\n@@ -0,0 +1 @@\n+x\x1b[2J\n"
)
FILES = (
    ChangedFile(path="calc.py", change="modified", added=1, removed=1),
    ChangedFile(path="n.md", change="added", added=1),
)


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with Served(store, tmp_path) as service:
        yield service


def held(store: Store) -> HeldOrder:
    order = store.orders.place(NewOrder(prompt="Fix it"), by=Actor("test")).order
    claimed = HandDrone(store).claim(order.id)
    claimed.start()
    return claimed


def changed(store: Store) -> str:
    """An order that has ended and changed two files."""
    order = held(store)
    diff = store.texts.keep(DIFF, owner=order.id)
    taken = (CheckpointTaken(after=3, id="c"),)
    order.finish(changes=Changes(workspace="/w", files=FILES, diff=diff, checkpoints=taken))
    return order.id


def run(service: Served, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["orders", *arguments], env={"MCC_URL": service.url, "MCC_TOKEN": TOKEN})
    assert result.exit_code == code, result.output
    return result


def test_the_diff_is_whole_or_of_a_path_and_hides_nothing(served: Served, store: Store) -> None:
    order_id = changed(store)
    whole = run(served, "diff", order_id[-12:]).stdout
    assert whole == DIFF.replace("\x1b", "⟦U+001B⟧")
    assert run(served, "diff", order_id, "calc.py").stdout == whole.split("--- /dev/null")[0]
    assert run(served, "diff", order_id, "--stat").stdout.splitlines() == [
        "+1 −1  modified  calc.py",
        "+1 −0  added     n.md",
        "2 files, +2 −1 lines",
    ]
    told = json.loads(run(served, "diff", order_id, "n.md", "--json").stdout)
    assert [file["path"] for file in told["files"]] == ["n.md"] and told["diff"].startswith("--- /dev/null")
    assert "changed nothing at other" in run(served, "diff", order_id, "other", code=2).stderr


def test_an_order_without_changes_says_so_and_one_under_way_that_they_come(served: Served, store: Store) -> None:
    running = held(store)
    assert "told at its end" in run(served, "diff", running.id).stderr
    running.finish()
    assert "changed nothing" in run(served, "diff", running.id).stderr
    assert json.loads(run(served, "diff", running.id, "--json").stdout) == {"files": [], "diff": ""}


def test_an_order_that_is_followed_ends_with_what_it_changed_and_how_to_take_it_back(
    served: Served, store: Store
) -> None:
    order_id = changed(store)
    *_, files, see, back = run(served, "watch", order_id).stderr.splitlines()
    assert files.split(maxsplit=1) == ["changed", "+2 −1 lines: calc.py, n.md"]
    assert see.endswith(f"mcc orders diff {order_id[-12:]}") and back.endswith(f"mcc orders revert {order_id[-12:]}")
    assert "calc.py" not in run(served, "watch", order_id, "--quiet").output
    json_lines = run(served, "watch", order_id, "--json")
    assert not json_lines.stderr and all(json.loads(line) for line in json_lines.stdout.splitlines())


def test_the_log_tells_calls_with_arguments_and_why_they_failed(served: Served, store: Store) -> None:
    order = held(store)
    for number, is_error in enumerate((False, True)):
        path, content = {"path": f"f{number}"}, "there is none" if is_error else "text"
        order.write(
            ToolStarted(call_id=path["path"], name="read_file", round=1, index=number, arguments=path, idempotent=True),
            ToolFinished(call_id=path["path"], name="read_file", content=content, is_error=is_error),
        )
    lines = run(served, "log", order.id).stdout
    assert "path: f0" in lines and "│ text" in lines and "read_file failed" in lines and "│ there is none" in lines
    failed = run(served, "log", order.id, "--failed").stdout
    assert "f0" not in failed and "path: f1" in failed and "│ there is none" in failed
    steps = [json.loads(line) for line in run(served, "log", order.id, "--failed", "--json").stdout.splitlines()]
    assert [(one["agent"], one["step"]["content"]) for one in steps] == [("master", "there is none")]
    assert run(served, "log", order.id, "--record", "master").stdout == lines
    assert "there is: master" in run(served, "log", order.id, "--record", "nobody", code=2).stderr


def placed(store: Store, prompt: str, **fields: Any) -> str:
    return store.orders.place(NewOrder(prompt=prompt, **fields), by=Actor("test")).order.id


def test_orders_are_cancelled_by_what_they_have_in_common(served: Served, store: Store, tmp_path: Path) -> None:
    nightly = [placed(store, "x", labels=("nightly",)) for _ in range(2)]
    here, scout, rest = (
        placed(store, "y", workspace=str(tmp_path)),
        placed(store, "z", agent="scout"),
        placed(store, "r"),
    )
    assert run(served, "cancel", "--label", "nightly").stdout == "2 orders told to end; 2 of them have ended\n"
    told = run(served, "cancel", "--workspace", str(tmp_path), "--reason", "full", "--json").stdout
    assert json.loads(told) == {"requested": 1, "ended": 1, "next_cursor": None}
    assert store.orders.get(here).detail == "full"
    run(served, "cancel", "--agent", "scout", "--since", "1h", "--status", "queued")
    cancelled = {one.id for one in store.orders.list(status=OrderStatus.CANCELLED).items}
    assert cancelled == {*nightly, here, scout}
    assert "1 order told" in run(served, "cancel", "--all").stdout and store.orders.get(rest).status == "cancelled"


def test_a_cancel_names_one_order_or_says_which(served: Served, store: Store) -> None:
    order_id = placed(store, "x")
    for arguments in ((), ("--reason", "x"), (order_id, "--all"), (order_id, "--label", "a"), ("--since", "whenever")):
        run(served, "cancel", *arguments, code=2)
    assert store.orders.get(order_id).status == "queued"


def test_lists_are_filtered_alike_and_say_what_orders_wait_for(served: Served, store: Store, tmp_path: Path) -> None:
    here, scout = placed(store, "here", workspace=str(tmp_path)), placed(store, "there", agent="scout")
    assert all(scout in run(served, "list", *one).stdout for one in (("--agent", "scout"), ("--since", "1h"), ()))
    listed = run(served, "list", "--workspace", str(tmp_path)).stdout
    assert here in listed and scout not in listed and "no drone takes orders of the queue default" in listed
    assert re.search("detail +no drone takes orders of the queue default", run(served, "show", here).stdout)
