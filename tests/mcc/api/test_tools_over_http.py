"""Tools over HTTP: approving definitions, and trying MCP servers on a drone that has them."""

import httpx
import pytest

from mcc.contracts.drones import Capability, Registration
from mcc.store.store import Store


def drone(store: Store, name: str, *tools: Capability) -> None:
    shape = {"incarnation": name, "name": name, "pid": 1, "host": "h", "version": "1", "queues": ("default",)}
    store.leases.register(Registration(**shape, slots=1, tools=tools), lease_seconds=60)  # type: ignore[arg-type]


async def test_definitions_are_approved(api: httpx.AsyncClient, store: Store) -> None:
    store.mcp_servers.seen("t", {"list": "a", "close": "b"})
    store.mcp_servers.seen("t", {"list": "A", "close": "b"})
    one = await api.post("/api/v1/tools/approve", json={"server": "t", "tool": "close"})
    assert one.json() == {"server": "t", "tools": []}
    every = await api.post("/api/v1/tools/approve", json={"server": "t"})
    assert every.json() == {"server": "t", "tools": ["list"]}
    assert store.mcp_servers.approved("t") == {"list": "A", "close": "b"}
    unknown = await api.post("/api/v1/tools/approve", json={"server": "no"})
    assert unknown.status_code == 404 and "no drone has seen" in unknown.json()["detail"]


@pytest.mark.parametrize("body", [{}, {"server": ""}, {"server": "t", "tool": "x", "arguments": []}])
async def test_a_trial_names_a_server(api: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await api.post("/api/v1/tools/test", json=body)).status_code == 422


async def test_without_redis_nothing_can_be_tried(api: httpx.AsyncClient, store: Store) -> None:
    drone(store, "a", Capability(name="t__list", server="t", state="usable"))
    answer = await api.post("/api/v1/tools/test", json={"server": "t"})
    assert answer.status_code == 503 and "Redis" in answer.json()["detail"]


async def test_tools_say_what_they_are(api: httpx.AsyncClient, store: Store) -> None:
    shown = {"server": "t", "group": "mcp", "effects": "read", "digest": "sha256:1", "tokens": 30, "state": "deferred"}
    drone(store, "a", Capability(name="t__list", **shown))  # type: ignore[arg-type]
    (only,) = (await api.get("/api/v1/tools")).json()["items"]
    assert {key: only[key] for key in shown} == shown and only["problem"] is None
