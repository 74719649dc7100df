"""Trials of MCP servers: the database names them, and one drone makes each once."""

import asyncio
from collections.abc import Iterator

import pytest

from drone.worker.loop import AsyncStore
from drone.worker.mcp_state import StorePins
from drone.worker.trials import ServerTrials
from mcc.contracts.callers import Actor
from mcc.contracts.shape import to_json
from mcc.contracts.tool_tests import ToolTest, ToolTested
from mcc.contracts.wire import TryServer
from mcc.dispatch.broker import RedisAt
from mcc.store.store import Store
from mcc.testing.store import temporary_store


class Servers:
    def __init__(self) -> None:
        self.tried: list[ToolTest] = []
        self.all_tried = asyncio.Event()

    async def test(self, test: ToolTest) -> ToolTested:
        self.tried.append(test)
        self.all_tried.set()
        return ToolTested(server=test.server)


class Crew:
    def __init__(self) -> None:
        self.servers = Servers()


@pytest.fixture
def store() -> Iterator[Store]:
    store = temporary_store()
    yield store
    store.close()


async def test_only_trials_in_the_database_are_made_and_each_once(store: Store) -> None:
    crew = Crew()
    trials = ServerTrials(crew, AsyncStore(store), RedisAt("redis://127.0.0.1:1/0"), "a")  # type: ignore[arg-type]
    test = ToolTest(server="tracker", tool="close", arguments={"id": 1})
    trial = store.mcp_servers.ask(test)
    said = to_json(TryServer(trial_id=trial))
    forged = to_json(TryServer(trial_id="0" * 8 + "-0000-7000-8000-" + "0" * 12))
    for data in (b"", b'{"type":"try_server"}', 7, forged, said, said):
        trials.hear(data)
    await asyncio.wait_for(crew.servers.all_tried.wait(), 10)
    await trials.close()
    assert crew.servers.tried == [test]


async def test_drones_pin_in_the_database(store: Store) -> None:
    pins = StorePins(AsyncStore(store))
    assert await pins.seen("t", {"list": "a"}) == {"list": "a"}
    assert await pins.seen("t", {"list": "b"}) == {"list": "a"}
    store.mcp_servers.approve("t", None, by=Actor("me"))
    assert await pins.approved("t") == {"list": "b"}
