"""The entries of all orders over HTTP: who gets them, in which form, and how it ends."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from mcc.api.access.credentials import digest_of
from mcc.api.streams import LineStream
from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.journal import AgentStep
from mcc.contracts.order import NewOrder
from mcc.contracts.people import NewApiToken, NewPerson
from mcc.contracts.token_text import new_token
from mcc.feed.feed import Pace
from mcc.feed.firehose import ReaderTooSlow
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served

EVENTS = "/api/v1/events"
NDJSON = "application/x-ndjson"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Accept": NDJSON}


@pytest.fixture
def held(store: Store) -> HeldOrder:
    return HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)


def eventually(true: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with Served(store, tmp_path, pace=Pace(0.2, 0.02, send_seconds=2.0, most_viewers=2)) as served:
        yield served


def lines_of(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in answer.iter_lines())


def listening(served: Served, **more: Any) -> Any:
    return httpx.stream("GET", served.url + EVENTS, **{"headers": HEADERS, "timeout": 20, **more})


@pytest.mark.parametrize("accept", [NDJSON, f"text/html, {NDJSON};q=0.9", NDJSON.upper()])
def test_a_line_says_that_it_is_live_and_then_comes_what_the_journal_says(
    served: Served, held: HeldOrder, accept: str
) -> None:
    with listening(served, headers={**HEADERS, "Accept": accept}) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, NDJSON)
        lines = lines_of(answer)
        assert next(lines) == {"type": "ping"}
        held.write(AgentStep(name="note", message="half \ud800 and\u2028whole"))
        told = next(lines)
    kept = httpx.get(f"{served.url}/api/v1/orders/{held.id}/journal?after=2", headers=HEADERS).json()["items"]
    assert [told] == kept and told["data"]["message"] == "half \ufffd and\u2028whole"


def test_filters_choose_among_entries(served: Served, store: Store, held: HeldOrder) -> None:
    other = store.orders.place(NewOrder(prompt="x", labels=("b",)), by=Actor("test")).order
    asked = {"kind": ["agent.step", "order.finished"], "label": ["a", "b"], "who": "test"}
    with listening(served, params=asked) as answer:
        lines = lines_of(answer)
        assert next(lines) == {"type": "ping"}
        held.steps(2)
        claimed = HandDrone(store, name="second").claim(other.id)
        claimed.start()
        claimed.finish()
        told = next(lines)
    assert (told["order_id"], told["kind"]) == (other.id, "order.finished")


@pytest.mark.parametrize(
    ("params", "accept", "status"),
    [
        ({"kind": "order.finishd"}, NDJSON, 422),
        ({"labels": "a"}, NDJSON, 422),
        ({"label": ""}, NDJSON, 422),
        ({"session_id": "x"}, NDJSON, 422),
        ({"label": ["x"] * 51}, NDJSON, 422),
        ({"label": "a"}, "text/event-stream", 400),
        ({"kind": "order.finished"}, "*/*", 400),
    ],
)
def test_filters_that_cannot_be_are_refused(served: Served, params: Any, accept: str, status: int) -> None:
    answer = httpx.get(served.url + EVENTS, params=params, headers={**HEADERS, "Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


@pytest.mark.parametrize("accept", [None, "*/*", "text/event-stream", "application/json"])
def test_whoever_asks_for_no_lines_gets_the_events_of_before(served: Served, accept: str | None) -> None:
    headers = {"Authorization": HEADERS["Authorization"]} | ({"Accept": accept} if accept else {})
    with listening(served, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert next(answer.iter_lines()) == "retry: 1000"


def test_readers_count_among_the_viewers(served: Served) -> None:
    with ExitStack() as opened:
        streams = [opened.enter_context(listening(served)).iter_lines() for _ in range(2)]
        assert all(next(lines) for lines in streams)
        assert served.viewers == 2
        refused = httpx.get(served.url + EVENTS, headers=HEADERS)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_another_site_does_not_listen(served: Served, headers: dict[str, str]) -> None:
    assert httpx.get(served.url + EVENTS, headers={**HEADERS, **headers}).status_code == 403


def test_nobody_listens_without_the_right_to_read(served: Served, store: Store) -> None:
    assert httpx.get(served.url + EVENTS, headers={"Accept": NDJSON}).status_code == 401
    secret = new_token("personal")
    new = NewApiToken(name="x", scopes=(AccessScope.METRICS,))
    store.tokens.make(secret, digest_of(secret), new, by=Actor(OPERATOR))
    refused = httpx.get(served.url + EVENTS, headers={"Authorization": f"Bearer {secret}", "Accept": NDJSON})
    assert refused.status_code == 403


@pytest.mark.parametrize("end", ["revoked", "disabled"])
def test_the_last_line_says_why_the_right_has_ended(served: Served, store: Store, end: str) -> None:
    person = store.people.add(NewPerson(name="Ann", role=Role.VIEWER), by=Actor(OPERATOR))
    secret = new_token("personal")
    token = store.tokens.make(
        secret, digest_of(secret), NewApiToken(name="x", scopes=(AccessScope.READ,)), by=Actor(person.principal)
    )
    with listening(served, headers={**HEADERS, "Authorization": f"Bearer {secret}"}) as answer:
        lines = lines_of(answer)
        assert next(lines) == {"type": "ping"}
        if end == "revoked":
            done = httpx.delete(f"{served.url}/api/v1/tokens/{token.id}", headers=HEADERS)
        else:
            path = f"{served.url}/api/v1/people/{person.id}"
            done = httpx.patch(path, json={"disabled": True}, headers=HEADERS)
        assert done.is_success
        *_, last = lines
    assert last["type"] == "signed_out" and end in last["why"]


def test_a_reader_that_takes_nothing_is_let_go(served: Served, held: HeldOrder) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as connection:
        head = f"GET {EVENTS} HTTP/1.1\r\nHost: localhost\r\nAccept: {NDJSON}\r\n"
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
        eventually(lambda: served.viewers == 1)
        for _ in range(20):
            held.write(AgentStep(name="note", message="x" * 400_000))
        eventually(lambda: served.viewers == 0)


async def test_the_body_of_a_reader_that_is_cut_has_no_end() -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield b'{"type":"ping"}\n'
        raise ReaderTooSlow("10 s behind")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await LineStream(lines(), 5.0)({"type": "http"}, receive, send)
    assert [message.get("more_body") for message in sent] == [None, True]


def test_a_service_that_stops_ends_it_in_good_order(store: Store, tmp_path: Path) -> None:
    with Served(store, tmp_path) as served, listening(served) as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines)) == {"type": "ping"}
        served.call(served.app.state.service.feed.end_streams)
        assert list(lines) == []
