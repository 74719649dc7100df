"""`mcc run --file`: many orders of one file, each accepted once and by itself, and followed to its end."""

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import Result

from mcc.api.access.credentials import digest_of
from mcc.cli.main import app
from mcc.cli.many_orders import WAITED_FOR, waiting_lines
from mcc.cli.order_file import LINE_BYTES, OrderFile, OrderLine
from mcc.client.calls import TRIES
from mcc.contracts.budgets import DayBudget
from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.people import NewApiToken
from mcc.contracts.status import OrderStatus
from mcc.contracts.token_text import new_token
from mcc.contracts.waits import WaitsFor, WaitsKind
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner
from tests.waiting import until


def lines(*texts: str | bytes, run: str = "", **defaults: Any) -> list[OrderLine]:
    content = b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)
    return list(OrderFile(BytesIO(content), defaults, run))


def test_each_line_has_a_key_that_comes_of_what_it_asks_for() -> None:
    one, again, other = lines('{"prompt": "a"}', '{"prompt": "a"}', '{"prompt": "b"}', agent="scout")
    assert len({one.key, again.key, other.key}) == 3
    moved = lines('{"prompt": "b"}', "", '{"agent": "scout", "prompt": "a"}', '{"prompt": "a"}', agent="scout")
    assert [line.key for line in moved] == [other.key, one.key, again.key]
    assert [line.number for line in moved] == [1, 3, 4]
    assert lines('{"prompt": "b"}')[0].key != other.key, "without the default it is another order"
    assert lines('{"prompt": "b"}', run="second", agent="scout")[0].key != other.key
    assert lines('{"prompt": "b", "idempotency_key": "own"}')[0].key == "own"


def test_a_line_says_more_than_the_defaults() -> None:
    asked = [
        line.fields
        for line in lines(
            b'\xef\xbb\xbf{"prompt": "a", "agent": "review"}',
            '{"prompt": "b", "workspace": null}',
            '{"prompt": "c", "workspace": "sub"}',
            agent="scout",
            workspace="/srv/work",
        )
    ]
    assert [one.get("workspace") for one in asked] == ["/srv/work", None, str(Path("sub").resolve())]
    assert [one["agent"] for one in asked] == ["review", "scout", "scout"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"prompt": ', "not JSON"),
        ('["a"]', "no object"),
        ('{"promt": "a"}', "prompt"),
        ('{"prompt": "a", "prompt": "b"}', "twice"),
        ('{"prompt": "a", "idempotency_key": "with space"}', "idempotency_key"),
        (b'{"prompt": "\xff"}', "UTF-8"),
        pytest.param("[" * 100_000, "nested too deeply", id="nested"),
        pytest.param('{"prompt": "' + "x" * LINE_BYTES + '"}', "longer than 1,000,000", id="long"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_and_the_next_one_counts(text: str | bytes, why: str) -> None:
    bad, good = lines(text, '{"prompt": "fine"}')
    assert why in bad.problem and bad.number == 1
    assert not good.problem and good.number == 2


@pytest.fixture
def served(tmp_path: Path) -> Any:
    store = temporary_store()
    with Served(store, tmp_path / "data") as running:
        yield running, store
    store.close()


def run(served: Served, file: Path, *options: str, code: int, token: str = TOKEN) -> Result:
    environment = {"MCC_TOKEN": token, "MCC_DATA_DIR": str(file.parent / "elsewhere")}
    found = CliRunner().invoke(app, ["run", "--file", str(file), "--url", served.url, *options], env=environment)
    assert found.exit_code == code, found.output
    return found


def written(tmp_path: Path, *orders: dict[str, Any] | str) -> Path:
    file = tmp_path / "orders.jsonl"
    told = (one if isinstance(one, str) else json.dumps({"workspace": None, **one}) for one in orders)
    file.write_text("\n".join(told), "utf-8")
    return file


def json_lines(found: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.stdout.splitlines()]


def test_a_bad_line_keeps_no_other_back_and_the_same_command_places_nothing_twice(
    served: tuple[Served, Store], tmp_path: Path
) -> None:
    service, store = served
    HandDrone(store)
    file = written(
        tmp_path,
        {"prompt": "first", "labels": ["l"]},
        "{broken",
        {"prompt": "nobody", "agent": "mastr"},
        {"prompt": "outside", "workspace": "/etc"},
        {"prompt": "last"},
    )
    found = json_lines(run(service, file, "--detach", "--json", code=1))
    assert [one["line"] for one in found if one["type"] == "refused"] == [2, 3, 4]
    accepted = [one for one in found if one["type"] == "accepted"]
    assert [(one["line"], one["created"]) for one in accepted] == [(1, True), (5, True)]
    assert "orders." not in " ".join(one.get("message", "") for one in found)
    mended = written(tmp_path, {"prompt": "first", "labels": ["l"]}, {"prompt": "second"}, {"prompt": "last"})
    ids = run(service, mended, "--detach", code=0).stdout.split()
    assert [ids[0], ids[2]] == [one["id"] for one in accepted]
    assert store.orders.counts() == {OrderStatus.QUEUED: 3}
    assert len(set(run(service, mended, "--detach", "--idempotency-key", "anew", code=0).stdout.split()) - {*ids}) == 3


def test_more_than_one_request_takes_are_placed_in_their_order(served: tuple[Served, Store], tmp_path: Path) -> None:
    service, store = served
    file = written(tmp_path, *({"prompt": f"order {number}"} for number in range(1_101)))
    ids = run(service, file, "--detach", "--quiet", code=0).stdout.split()
    assert len(ids) == 1_101 and ids == sorted(ids)
    assert store.orders.get(ids[700]).prompt == "order 700"


def test_what_a_budget_has_no_room_for_is_refused_and_the_rest_is_placed(
    served: tuple[Served, Store], tmp_path: Path
) -> None:
    service, store = served
    token, limits = new_token("service"), {"cost_usd": 0.4}
    scopes = (AccessScope.READ, AccessScope.WRITE)
    new = NewApiToken(name="ci", kind="service", role=Role.MEMBER, scopes=scopes, budget=DayBudget(usd=1))
    store.tokens.make(token, digest_of(token), new, by=Actor(OPERATOR))
    file = written(tmp_path, *({"prompt": f"order {number}", "limits": limits} for number in range(4)))
    found = json_lines(run(service, file, "--detach", "--json", code=1, token=token))
    assert [(one["type"], one["line"]) for one in found] == [
        ("accepted", 1),
        ("accepted", 2),
        ("refused", 3),
        ("refused", 4),
    ]
    assert "does not suffice" in found[-1]["message"]


def test_the_ends_of_all_are_told_with_their_lines(served: tuple[Served, Store], tmp_path: Path) -> None:
    service, store = served
    drone = HandDrone(store)
    file = written(tmp_path, {"prompt": "one"}, {"prompt": "two"}, "nonsense")
    ids = run(service, file, "--detach", code=1).stdout.split()
    for order_id, answer in zip(ids, ("first answer", "2"), strict=True):
        held = drone.claim(order_id)
        held.start()
        held.finish(answer)
    found = run(service, file, code=1)
    assert "line 1 " in found.stdout and "succeeded: first answer" in found.stdout and "line 2 " in found.stdout
    assert found.stderr.splitlines()[-1] == "2 of 2 orders have ended, 0 without success"
    good = written(tmp_path, {"prompt": "one"}, {"prompt": "two"})
    ended = [one for one in json_lines(run(service, good, "--json=final", code=0)) if one["type"] == "order"]
    assert sorted((one["line"], one["answer"]) for one in ended) == [(1, "first answer"), (2, "2")]


def test_what_cannot_be_done_at_all_is_said_with_its_exit_code(served: tuple[Served, Store], tmp_path: Path) -> None:
    service, _ = served
    assert "one order a line" in run(service, tmp_path / "missing", code=2).output
    run(service, written(tmp_path, "nonsense"), code=2)
    fine = written(tmp_path, {"prompt": "one"})
    assert "--session" in run(service, fine, "--session", "01900000-0000-7000-8000-000000000000", code=2).output
    assert "a prompt, or --file" in run(service, fine, "a prompt too", code=2).output
    service.stop()
    run(service, fine, "--detach", code=3)


class Restarts:
    """A service that is stopped and started again on the same data and port; in between, every connection breaks."""

    def __init__(self, store: Store, data_dir: Path) -> None:
        self._store, self._data_dir = store, data_dir
        self.service = Served(store, data_dir)
        self.service.__enter__()

    def start_again(self, missed: int) -> None:
        """Start the service, which was stopped, once it has been called in vain this many times."""
        port = self.service.port
        with socket.create_server(("127.0.0.1", port)) as nobody:
            nobody.settimeout(60)
            for _ in range(missed):
                nobody.accept()[0].close()
        self.service = Served(self._store, self._data_dir, port=port)
        self.service.__enter__()


def test_a_restart_of_the_service_is_waited_out_while_orders_are_placed_and_followed(tmp_path: Path) -> None:
    store = temporary_store()
    restarts, drone, file = Restarts(store, tmp_path / "data"), HandDrone(store), tmp_path / "orders.jsonl"
    os.mkfifo(file)
    texts = [json.dumps({"prompt": f"{number} " + "x" * 150_000, "workspace": None}) + "\n" for number in range(9)]

    def placed() -> int:
        return sum(store.orders.counts().values())

    def disturb() -> None:
        with file.open("w") as stream:
            # A request takes six of these lines, and is made when the seventh has been read.
            stream.writelines(texts[:7])
            stream.flush()
            until(lambda: placed() == 6, "the first orders are placed")
            restarts.service.stop()
            stream.writelines(texts[7:])
        restarts.start_again(2 * TRIES)
        until(lambda: placed() == 9, "all orders are placed")
        restarts.service.stop()
        restarts.start_again(TRIES + 1)
        for order in store.orders.list(limit=20).items:
            held = drone.claim(order.id)
            held.start()
            held.finish("done")

    with ThreadPoolExecutor(1) as beside:
        disturbance = beside.submit(disturb)
        told = run(restarts.service, file, code=0)
        disturbance.result()
    assert placed() == 9 and store.orders.counts() == {OrderStatus.SUCCEEDED: 9}
    assert told.stderr.count("the service is away, trying again") == 2
    assert "9 of 9 orders have ended, 0 without success" in told.stderr
    restarts.service.stop()
    store.close()


def test_what_orders_wait_for_is_told_by_kind_in_the_words_of_the_oldest() -> None:
    said = {
        "b" * 12: WaitsFor(kind="slot", message="2nd in line"),
        "a" * 12: WaitsFor(kind="slot", message="1st in line"),
        "c" * 12: WaitsFor(kind="provider", message="asked again in 8 s (4th try): refused\x1b[2J"),
    }
    assert list(waiting_lines(said)) == [
        "2 wait for a slot: 1st in line",
        "cccccccccccc waits: asked again in 8 s (4th try): refused⟦U+001B⟧[2J",
    ]
    assert set(WAITED_FOR) == set(get_args(WaitsKind))
