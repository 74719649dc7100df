"""Fixtures of the API tests: a temporary store and a client with the right token."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.app import RedisAccess, build_app
from mcc.dispatch.nudge import Nudger
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def settings(tmp_path: Path) -> ServiceSettings:
    return ServiceSettings(data_dir=tmp_path / "data", workspace_roots=(tmp_path / "work",), queues=("default", "slow"))


@pytest.fixture(scope="session")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The OpenAPI document. It takes a second to build and is the same for every store."""
    opened = temporary_store()
    yield build_app(ServiceSettings(data_dir=tmp_path_factory.mktemp("described")), opened, token="").openapi()
    opened.close()


class RecordedNudges(Nudger):
    trouble = ""

    def __init__(self) -> None:  # asks no broker
        self.sent: list[tuple[str, str, int]] = []
        self._moved = threading.Condition()

    def nudge(self, order_id: str, *, queue: str = "default", priority: int = 5, last_seq: int = 1) -> bool:
        with self._moved:
            self.sent.append((order_id, queue, priority))
            self._moved.notify_all()
        return True

    async def until(self, count: int) -> list[tuple[str, str, int]]:
        """All nudges, once there are `count`: they are sent after the answer, from a thread."""
        await asyncio.to_thread(self._wait, count)
        return self.sent

    def _wait(self, count: int) -> None:
        with self._moved:
            assert self._moved.wait_for(lambda: len(self.sent) >= count, 30)


@pytest.fixture
def nudges() -> RecordedNudges:
    return RecordedNudges()


@pytest.fixture
async def api(store: Store, settings: ServiceSettings, nudges: RecordedNudges) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application in this event loop; paths begin with /."""
    app = build_app(settings, store, token=TOKEN, redis=RedisAccess(nudger=nudges))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app, raise_app_exceptions=False),
            base_url="http://127.0.0.1:8420",
            headers={"Authorization": f"Bearer {TOKEN}"},
        ) as client,
    ):
        yield client
