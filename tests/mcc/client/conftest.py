"""Shared by the client's tests: a service that listens on a port, and connections that break."""

import random
import time
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest

from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import Served


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def served(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(store, tmp_path_factory.mktemp("data")) as served:
        yield served


class _Broken(httpx.AsyncByteStream):
    """A body that breaks off after so many bytes."""

    def __init__(self, body: httpx.AsyncByteStream, whole_bytes: int) -> None:
        self._body = body
        self._left = whole_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._body:
            if len(part) >= self._left:
                yield part[: self._left]
                raise httpx.ReadError("the connection broke")
            self._left -= len(part)
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


class Breaking(httpx.AsyncBaseTransport):
    """A transport whose connections break at random places; each goes to a random one of `ports`."""

    def __init__(self, ports: list[int], seed: int, most_bytes: int) -> None:
        self._inner = httpx.AsyncHTTPTransport()
        self._ports = ports
        self._chance = random.Random(seed)
        self._most_bytes = most_bytes
        self.broken = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(port=self._chance.choice(self._ports))
        answer = await self._inner.handle_async_request(request)
        if not request.url.path.endswith("/events"):
            return answer
        self.broken += 1
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        answer.stream = _Broken(answer.stream, self._chance.randint(1, self._most_bytes))
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.fixture
def breaking() -> type[Breaking]:
    return Breaking


def eventually(true: Callable[[], bool]) -> None:
    """Poll until a condition holds. AssertionError after ten seconds."""
    for _ in range(2_000):
        if true():
            return
        time.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    return eventually
