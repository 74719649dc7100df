"""C15: MCP servers crash, hang, shout, change and do not end: the call fails, the order goes on, others see nothing."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.journal import MemoryJournal
from drone.crew import Crew
from drone.local_run import order_from
from drone.mcp_servers.transports import load
from drone.order_context import OrderContext
from drone.settings import Settings
from mcc.contracts.journal import ToolFinished
from mcc.contracts.status import OrderStatus
from tests.drone.mcp_servers.conftest import FAKE
from tests.drone.sandbox.conftest import sandbox as sandbox

CHANGED = [{"name": "echo", "description": "Something else.", "inputSchema": {"type": "object"}}]
FAULTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "crash": ({}, "crash", "it fell over"),
    "reply of 50 MB": ({}, "big", "more than 8,388,608 bytes"),
    "reply that never comes": ({}, "hang", "did not finish within"),
    "hang at init": ({"init": "hang"}, "echo", "There is no tool"),
    "crash at init": ({"init": "crash"}, "echo", "There is no tool"),
    "changed list": ({"next": CHANGED, "tell": True}, "echo", "mcc tools approve"),
    "noise": ({"noise": True}, "echo", "well"),
    "slow close": ({"close": "slow"}, "echo", "well"),
}


@pytest.fixture
def crew(sandbox: object, tmp_path: Path) -> Iterator[Crew]:
    """A drone's crew with a server of each fault, and a model that calls the tool which its prompt names."""
    rules = [
        {
            "match": f"fault {number}!",
            "replies": [
                {"tool_calls": [{"name": f"s{number}__{tool}", "arguments": {"text": text}}]}
                for text in (("tell", "well") if "next" in plan else ("well",))
            ]
            + [{"text": "went on"}],
        }
        for number, (plan, tool, _) in enumerate(FAULTS.values())
    ]
    (tmp_path / "script.json").write_text(json.dumps({"rules": rules}))
    servers = "".join(
        f"[mcp.s{number}]\ncommand = {json.dumps([sys.executable, str(FAKE), json.dumps(plan)])}\n"
        'effects = {"*" = "read"}\nstart_seconds = 2\n'
        for number, (plan, _, _) in enumerate(FAULTS.values())
    )
    models = f'[models.m]\nprovider = "scripted"\nmodel = "{tmp_path}/script.json"\n[defaults]\nmodel = "m"\n'
    (tmp_path / "mcc.toml").write_text(models + servers)
    environ = {"MCC_CONFIG": str(tmp_path / "mcc.toml"), "MCC_DATA_DIR": str(tmp_path / "data")}
    (tmp_path / "work").mkdir()
    yield Crew.from_settings(Settings(environ, workspace_roots=(tmp_path / "work",)))


async def test_calls_fail_and_orders_go_on(crew: Crew, tmp_path: Path) -> None:
    await load()

    async def one(number: int) -> tuple[OrderStatus, str, str | None]:
        order = order_from(f"fault {number}!", tmp_path / "work", "master", None, ["tool_seconds=2"])
        journal = MemoryJournal(order.id)
        outcome = await crew.run(order, OrderContext(journal))
        said = [entry.data.content for entry in journal.entries if isinstance(entry.data, ToolFinished)]
        assert said, outcome
        return outcome.status, said[-1], outcome.answer

    try:
        ended = await asyncio.gather(*map(one, range(len(FAULTS))))
    finally:
        async with asyncio.timeout(30):
            await crew.close()
    for (name, (_, _, told)), (status, said, answer) in zip(FAULTS.items(), ended, strict=True):
        assert (status, answer) == (OrderStatus.SUCCEEDED, "went on"), name
        assert told in said, (name, said)
