"""The process that reads deliveries is killed while it reads one: nothing is lost, and nothing stands as refused."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager

import httpx
import psutil
import pytest

from mcc.api.triggers.taking import TriggerDoor
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from tests.mcc.api.test_signed_deliveries_over_http import ISSUES, LABELED, delivered, serving, told
from tests.waiting import eventually


def readers() -> Sequence[psutil.Process]:
    """The side processes of this one that read deliveries."""
    found = []
    for child in psutil.Process().children():
        try:
            if any("mcc.triggers.reading:" in word for word in child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def door_of(hooks: httpx.AsyncClient) -> TriggerDoor:
    transport = hooks._transport
    assert isinstance(transport, httpx.ASGITransport)
    door = transport.app.state.service.triggers  # type: ignore[attr-defined]
    assert isinstance(door, TriggerDoor)
    return door


@pytest.fixture
async def hooks(store: Store, settings: ServiceSettings) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(store, settings, issues=ISSUES) as client:
        yield client


async def test_a_delivery_whose_reader_is_killed_is_read_again_and_placed_once(hooks: httpx.AsyncClient) -> None:
    await delivered(hooks, LABELED | {"number": 1}, delivery="first")
    (reader,) = readers()
    reader.suspend()  # From here on it reads for as long as nobody kills it.
    sent = asyncio.create_task(delivered(hooks, LABELED | {"number": 2}, delivery="second"))
    await eventually(lambda: door_of(hooks)._waiting == 1)
    reader.kill()
    answer = await sent
    assert answer.status_code == 202 and answer.json()["verdict"] == "placed", answer.text
    rows = (await told(hooks, "triggers/issues/deliveries"))["items"]
    assert [row["verdict"] for row in rows] == ["placed", "placed"]
    assert len((await told(hooks, "orders"))["items"]) == 2
    again = await delivered(hooks, LABELED | {"number": 2}, delivery="second")
    assert again.json() == {**again.json(), "verdict": "repeated", "order_id": answer.json()["order_id"]}


@contextmanager
def killing_all() -> Iterator[list[int]]:
    """Meanwhile each reader is killed as soon as it is there; their pids."""
    over, killed = threading.Event(), list[int]()

    def kill() -> None:
        while not over.is_set():
            for reader in readers():
                reader.send_signal(signal.SIGKILL)
                killed.append(reader.pid)
            over.wait(0.005)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


async def test_a_delivery_whose_readers_are_all_killed_is_asked_for_again_and_not_remembered(
    hooks: httpx.AsyncClient,
) -> None:
    with killing_all() as killed:
        answer = await delivered(hooks)
    assert len(set(killed)) == 2, "it is read twice, and not for ever"
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert (await told(hooks, "triggers/issues/deliveries"))["items"] == []
    assert (await delivered(hooks)).json()["verdict"] == "placed"
