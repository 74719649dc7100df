"""The one stream of a page over HTTP: what it takes, what it refuses, and how many there may be."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.feed.feed import Pace
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served

STREAM = "/api/v1/stream"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SOME_ID = "01900000-0000-7000-8000-000000000000"


@pytest.fixture
def held(store: Store) -> HeldOrder:
    return HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with Served(store, tmp_path, pace=Pace(0.2, 0.02, most_viewers=3)) as served:
        yield served


def events(served: Served, orders: str, last: str) -> list[str]:
    """The lines of a stream up to the event `last`."""
    lines: list[str] = []
    with httpx.stream("GET", served.url + STREAM, params={"orders": orders}, headers=HEADERS, timeout=20) as answer:
        assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            lines.append(line)
            if line == f"event: {last}":
                break
    return lines


def test_a_page_gets_all_in_one_stream(served: Served, held: HeldOrder) -> None:
    held.start()
    last = held.finish()
    lines = events(served, f"{held.id}:2,{SOME_ID}:0", "gone")
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert kinds[:2] == ["hello", "snapshot"]
    lines = events(served, f"{held.id}:2", "end")
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    assert ids == [f"{held.id}:{seq}" for seq in range(3, last + 1)]


@pytest.mark.parametrize(
    "orders",
    ["x", "x:1", f"{SOME_ID}:-1", f"{SOME_ID}:x", f"{SOME_ID}:1:2", f"{SOME_ID}:{'9' * 16}", ",".join([SOME_ID] * 17)],
)
def test_what_names_no_orders_is_refused(served: Served, orders: str) -> None:
    answer = httpx.get(served.url + STREAM, params={"orders": orders}, headers=HEADERS)
    assert answer.status_code in (400, 422)


def test_more_streams_than_may_be_are_told_when_to_come_again(served: Served) -> None:
    with ExitStack() as opened:
        streams = [
            opened.enter_context(httpx.stream("GET", served.url + STREAM, headers=HEADERS, timeout=20)).iter_lines()
            for _ in range(3)
        ]
        assert all("event: hello" in lines for lines in streams)
        refused = httpx.get(served.url + STREAM, headers=HEADERS)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_another_site_does_not_watch(served: Served, headers: dict[str, str]) -> None:
    assert httpx.get(served.url + STREAM, headers={**HEADERS, **headers}).status_code == 403
