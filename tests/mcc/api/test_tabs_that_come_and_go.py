"""Tabs that open the one stream and are gone without a word: nothing of them stays."""

import asyncio
import os
from pathlib import Path

import httpx

from mcc.contracts.callers import Actor
from mcc.contracts.order import NewOrder
from mcc.feed.feed import Pace
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import Served
from tests.mcc.api.signing import V1
from tests.waiting import until

TABS, AT_ONCE = 400, 50


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def come_and_go(served: Served, head: bytes, *, is_read: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(head)
    if is_read:
        await reader.readuntil(b"event: snapshot")
    # By a reset, as of a browser that was killed; half of them before the first byte has come.
    writer.transport.abort()


def test_tabs_that_come_and_go_leave_nothing_behind(store: Store, tmp_path: Path) -> None:
    held = HandDrone(store).claim(store.orders.place(NewOrder(prompt="x"), by=Actor("test")).order.id)
    held.start()
    with Served(store, tmp_path, pace=Pace(0.2, 0.02)) as served:
        operator = {"Authorization": f"Bearer {served.token}"}
        code = httpx.post(f"{served.url}{V1}/signin/links", json={}, headers=operator).json()["url"].partition("#")[2]
        signed = httpx.post(f"{served.url}{V1}/signin", json={"code": code})
        cookie = "; ".join(f"{name}={value}" for name, value in signed.cookies.items())
        head = (
            f"GET {V1}/stream?orders={held.id}:0 HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nCookie: {cookie}\r\n\r\n"
        ).encode()

        async def wave(count: int) -> None:
            await asyncio.gather(*(come_and_go(served, head, is_read=number % 2 == 0) for number in range(count)))

        def is_quiet() -> bool:
            return served.viewers == 0 and not served.app.state.service.feed.watched

        asyncio.run(wave(AT_ONCE))
        until(is_quiet, "the first tabs are gone")
        before = descriptors()
        for _ in range(TABS // AT_ONCE):
            asyncio.run(wave(AT_ONCE))
        until(is_quiet, "all tabs are gone")
        # Connections of the database, which are made as many ask at once, are kept; there are few of them.
        until(lambda: descriptors() < before + AT_ONCE, "their connections are closed")
        assert served.app.state.service.open_credentials.streams == 0
