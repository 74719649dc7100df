"""Server-sent events over HTTP, against a listening server."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from mcc.contracts.callers import Actor
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewOrder
from mcc.feed.feed import Pace
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served

HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def held(store: Store) -> HeldOrder:
    return HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with Served(store, tmp_path) as served:
        yield served


def events_path(held: HeldOrder) -> str:
    return f"/api/v1/orders/{held.id}/events"


def get(served: Served, path: str, **headers: str) -> httpx.Response:
    return httpx.get(served.url + path, headers=HEADERS | headers, timeout=20)


def ids(text: str) -> list[int]:
    return [int(line[4:]) for line in text.splitlines() if line.startswith("id: ")]


def eventually(true: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


def test_a_finished_order_is_told_whole_and_the_stream_ends(served: Served, held: HeldOrder) -> None:
    held.start()
    last = held.finish("a\u2028b\x00c")
    answer = get(served, events_path(held))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert "content-length" not in answer.headers
    assert answer.text.startswith("retry: 1000\n\n")
    assert ids(answer.text) == list(range(1, last + 1))
    assert f"id: {last}\nevent: order.finished\ndata: {{" in answer.text


def test_a_viewer_resumes_by_header_before_query(served: Served, held: HeldOrder) -> None:
    held.start()
    last = held.finish()
    assert ids(get(served, events_path(held) + "?after=2").text) == list(range(3, last + 1))
    resumed = get(served, events_path(held) + "?after=1", **{"Last-Event-ID": "4"})
    assert ids(resumed.text) == list(range(5, last + 1))


@pytest.mark.parametrize("beyond", [0, 1, 1_000_000])
def test_at_or_beyond_the_final_entry_there_is_no_content(served: Served, held: HeldOrder, beyond: int) -> None:
    held.start()
    last = held.finish()
    answer = get(served, events_path(held), **{"Last-Event-ID": str(last + beyond)})
    assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize("place", ["3", "999999", "-1", "x", "1.5", "0x1", "1 OR 1=1", "9" * 16, "١"])
def test_a_future_or_senseless_number_is_refused_while_the_order_runs(
    served: Served, held: HeldOrder, place: str
) -> None:
    for answer in (
        httpx.get(served.url + events_path(held), params={"after": place}, headers=HEADERS),
        httpx.get(
            served.url + events_path(held), headers=[*httpx.Headers(HEADERS).raw, (b"Last-Event-ID", place.encode())]
        ),
    ):
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"


def test_the_own_number_of_a_running_order_waits_for_the_next(served: Served, held: HeldOrder) -> None:
    with httpx.stream(
        "GET", served.url + events_path(held), params={"after": 2}, headers=HEADERS, timeout=20
    ) as answer:
        assert answer.status_code == 200
        held.start()
        held.finish()
        assert ids(answer.read().decode()) == [3, 4, 5]


def test_a_stream_of_an_order_that_does_not_exist_is_not_found(served: Served) -> None:
    assert get(served, "/api/v1/orders/01900000-0000-7000-8000-000000000000/events").status_code == 404


def test_a_viewer_that_goes_is_forgotten(served: Served, held: HeldOrder) -> None:
    for path in (events_path(held), "/api/v1/events"):
        with httpx.stream("GET", served.url + path, headers=HEADERS, timeout=20) as answer:
            parts = answer.iter_bytes()
            assert next(parts)
            eventually(lambda: served.viewers == 1)
        eventually(lambda: served.viewers == 0)


def test_viewers_are_let_go_when_the_service_stops(store: Store, held: HeldOrder, tmp_path: Path) -> None:
    with (
        Served(store, tmp_path) as served,
        httpx.stream("GET", served.url + events_path(held), headers=HEADERS, timeout=20) as answer,
    ):
        parts = answer.iter_bytes()
        assert next(parts)
        stopping = threading.Thread(target=served.stop)
        stopping.start()
        assert isinstance(b"".join(parts), bytes)
        stopping.join(10)
        assert not stopping.is_alive(), "it waits for its viewers"


def test_a_reader_that_takes_nothing_is_dropped_and_resumes_without_a_gap(
    store: Store, held: HeldOrder, tmp_path: Path
) -> None:
    with Served(store, tmp_path, pace=Pace(poll_without_hints_seconds=0.02, send_seconds=2.0)) as served:
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            head = f"GET {events_path(held)} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(head.encode())
            eventually(lambda: served.viewers == 1)
            for _ in range(40):
                held.write(AgentStep(name="note", message="x" * 400_000))
            eventually(lambda: served.viewers == 0)
        held.start()
        last = held.finish()
        resumed = get(served, events_path(held), **{"Last-Event-ID": "2"})
        assert ids(resumed.text) == list(range(3, last + 1))


def test_more_viewers_than_there_is_room_for_are_asked_to_come_later(
    store: Store, held: HeldOrder, tmp_path: Path
) -> None:
    with (
        Served(store, tmp_path, pace=Pace(most_viewers=1)) as served,
        httpx.stream("GET", served.url + events_path(held), headers=HEADERS, timeout=20) as answer,
    ):
        parts = answer.iter_bytes()
        assert next(parts)
        eventually(lambda: served.viewers == 1)
        for path in (events_path(held), "/api/v1/events"):
            refused = get(served, path)
            assert refused.status_code == 503 and refused.headers["retry-after"]


def test_all_orders_are_watched_in_one_stream(served: Served, held: HeldOrder) -> None:
    with httpx.stream("GET", served.url + "/api/v1/events", headers=HEADERS, timeout=20) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if line.startswith("event: ")) == "event: snapshot"
        assert held.id in next(lines)
        placed = httpx.post(served.url + "/api/v1/orders", json={"prompt": "new"}, headers=HEADERS).json()
        # What waits for a person is told as well, at its own time.
        told = (line for line in lines if line.startswith("event: ") and line != "event: inbox")
        assert next(told) == "event: order.status"
        assert placed["id"] in next(lines)
