"""The entries of all orders through both clients."""

import threading
from typing import Any

import httpx
import pytest

from mcc.api.access.credentials import digest_of
from mcc.client import MCC, AsyncMCC, Invalid, Unauthorized, Unreachable
from mcc.client.watching import LineParser
from mcc.contracts.callers import OPERATOR, AccessScope, Actor, Role
from mcc.contracts.entry import Entry
from mcc.contracts.order import NewOrder
from mcc.contracts.people import NewApiToken, NewPerson
from mcc.contracts.token_text import new_token
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import Served


@pytest.fixture
def held(store: Store) -> HeldOrder:
    order = store.orders.place(NewOrder(prompt="x", labels=("a",)), by=Actor("test")).order
    return HandDrone(store).claim(order.id)


class Writing:
    """Writes entries until it is told to stop, for readers that cannot know when they are heard."""

    def __init__(self, held: HeldOrder) -> None:
        self._held = held
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def _write(self) -> None:
        while not self._over.wait(0.01):
            self._held.steps(1)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_entries_come_typed_and_chosen(served: Served, held: HeldOrder) -> None:
    with MCC(served.url, token=served.token) as mcc, Writing(held):
        entries = mcc.events(kind=["agent.step", "order.finished"], label="a", who="test")
        told = [next(entries) for _ in range(5)]
        entries.close()
    assert {type(entry) for entry in told} == {Entry} and {entry.kind for entry in told} == {"agent.step"}
    assert [entry.seq for entry in told] == list(range(told[0].seq, told[0].seq + 5))


async def test_entries_come_to_an_event_loop(served: Served, held: HeldOrder) -> None:
    async with AsyncMCC(served.url, token=served.token) as mcc:
        with Writing(held):
            entries = mcc.events(agent="master", session_id=held.claim.order.session_id)
            told = [await anext(entries) for _ in range(3)]
            await entries.aclose()
    assert {entry.order_id for entry in told} == {held.id}


def test_the_end_of_the_right_is_an_error_that_says_why(served: Served, store: Store, held: HeldOrder) -> None:
    person = store.people.add(NewPerson(name="Ann", role=Role.VIEWER), by=Actor(OPERATOR))
    secret = new_token("personal")
    new = NewApiToken(name="x", scopes=(AccessScope.READ,))
    token = store.tokens.make(secret, digest_of(secret), new, by=Actor(person.principal))
    with MCC(served.url, token=secret) as mcc, MCC(served.url, token=served.token) as operator, Writing(held):
        entries = mcc.events()
        next(entries)
        operator.tokens.revoke(token.id)
        with pytest.raises(Unauthorized, match="revoked"):
            list(entries)


def test_what_no_entry_is_like_is_refused(served: Served) -> None:
    with MCC(served.url, token=served.token) as mcc, pytest.raises(Invalid, match="finishd"):
        next(mcc.events(kind="order.finishd"))


def test_a_body_without_an_end_is_no_end(held: HeldOrder, store: Store) -> None:
    class Torn(httpx.SyncByteStream):
        def __iter__(self) -> Any:
            yield b'{"type":"ping"}\n'
            raise httpx.RemoteProtocolError("incomplete chunked read")

    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Torn()))
    with MCC("http://127.0.0.1:1", token="x", transport=transport) as mcc, pytest.raises(Unreachable):
        next(mcc.events())


def test_lines_are_parsed_wherever_they_are_cut(held: HeldOrder, store: Store) -> None:
    written = list(store.journal.read(held.id))
    body = b'{"type":"ping"}\n' + b"".join(entry.model_dump_json().encode() + b"\n" for entry in written)
    for at in range(len(body)):
        parser = LineParser()
        assert [*parser.feed(body[:at]), *parser.feed(body[at:])] == written
