"""`mcc orders call`: the model calls of an order, and what one of them was asked with."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from mcc.contracts.blocks import ToolCall, blocks_of
from mcc.contracts.callers import Actor
from mcc.contracts.journal import ToolFinished
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order import NewOrder
from mcc.contracts.usage import Usage
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from mcc.testing.served import TOKEN, Served
from tests.mcc.cli.in_process import CliRunner


@pytest.fixture
def store() -> Iterator[Store]:
    opened = temporary_store()
    yield opened
    opened.close()


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with Served(store, tmp_path) as service:
        yield service


def run(service: Served, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["orders", "call", *arguments], env={"MCC_URL": service.url, "MCC_TOKEN": TOKEN})
    assert result.exit_code == code, result.output
    return result


def asked(number: int) -> ModelStarted:
    return ModelStarted(round=number, attempt=1, model="offline", reserved_output_tokens=100)


def replied(number: int, *calls: ToolCall, text: str = "") -> ModelReplied:
    used = Usage(model_calls=1, input_tokens=100, cached_input_tokens=40)
    blocks = blocks_of(text, "I think.", calls)
    return ModelReplied(round=number, attempt=1, model="offline", finish_reason="stop", usage=used, blocks=blocks)


@pytest.fixture
def order(store: Store) -> HeldOrder:
    """An order with two model calls, of which the second was told a result with an escape sequence."""
    placed = store.orders.place(NewOrder(prompt="Look"), by=Actor("test")).order
    held = HandDrone(store).claim(placed.id)
    tools = [{"name": "read_file", "description": "Reads a file.\nAll of it.", "parameters": {}}]
    held.start(setup=json.dumps({"system": "Be brief.", "tools": tools}))
    look = ToolCall(call_id="c1", name="read_file", arguments={"path": "a.txt"})
    result = ToolFinished(call_id="c1", name="read_file", content="red\x1b[2J\nroses", is_error=False)
    held.write(asked(1), replied(1, look), result, asked(2), replied(2, text="Red."))
    return held


def test_the_calls_of_an_order_are_listed_by_their_entries(served: Served, order: HeldOrder) -> None:
    lines = run(served, order.id).stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["ENTRY", "AGENT", "MODEL", "ROUND"],
        ["4", "master", "offline", "1"],
        ["7", "master", "offline", "2"],
    ]
    assert [one["seq"] for one in json.loads(run(served, order.id, "--json").stdout)] == [4, 7]


def test_a_call_is_told_whole_and_nothing_is_obeyed(served: Served, order: HeldOrder) -> None:
    assert run(served, order.id[-12:], "7").stdout.splitlines() == [
        "# Parameters",
        "model: offline",
        "tool_choice: auto",
        "max_output_tokens: 100",
        f"cache_key: {order.claim.order.session_id}:master",
        "input: 100 tokens, 40% of them from the cache",
        "",
        "# System prompt",
        "Be brief.",
        "",
        "# Tools",
        "read_file: Reads a file.",
        "",
        "# 1. user (entry 3)",
        "Look",
        "",
        "# 2. assistant (entry 5)",
        "[thinking]",
        "I think.",
        '[call of read_file] {"path":"a.txt"}',
        "",
        "# 3. tool (entry 6)",
        "[result of read_file]",
        "red⟦U+001B⟧[2J",
        "roses",
    ]
    told = json.loads(run(served, order.id, "7", "--json").stdout)
    assert [one["seq"] for one in told["messages"]] == [3, 5, 6] and told["next_cursor"] is None
    assert "is no model call but model.replied" in run(served, order.id, "5", code=1).output
