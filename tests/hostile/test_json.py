"""JSON that two readers would read differently: a key twice, and true where a number belongs."""

import json
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Literal

import httpx
import pytest
from pydantic import BaseModel, Field

from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.model import WantedCall
from drone.agent.ports.report import Report
from drone.agent.turns.toolset import StartedCall
from drone.models.json_text import arguments
from drone.models.scripted import Line, call
from drone.sandbox.places.paths import Workspace
from drone.tools.files.listing import list_files
from drone.tools.files.reading import read_file
from drone.tools.frame.tool import FunctionTools, tool
from mcc.api.app import build_app
from mcc.contracts.entry import Origin
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import GateChecked, ToolStarted
from mcc.rules.near_json import MOST_REPAIRED
from mcc.settings import ServiceSettings
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN
from tests.drone.agent.lone import Lone

ORDERS = "/api/v1/orders"
TWICE = [
    '{"prompt": "harmless", "prompt": "other"}',
    '{"prompt": "x", "limits": {"rounds": 1, "rounds": 50}}',
    '{"prompt": "x", "labels": [], "rules": [{"cel": "false", "cel": "true"}]}',
    '{"prompt": "x", "result_schema": {"properties": {"a": [{"b": 1, "b": 1}]}}}',
    '{"prompt": "x", "\\u0070rompt": "y"}',
]


@pytest.fixture
def store() -> Store:
    return temporary_store()


async def posted(store: Store, directory: Path, body: str) -> httpx.Response:
    app = build_app(ServiceSettings(data_dir=directory), store, token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        return await client.post(ORDERS, content=body)


@pytest.mark.parametrize("body", TWICE)
async def test_a_body_with_a_key_twice_is_refused_in_a_sentence(store: Store, tmp_path: Path, body: str) -> None:
    answer = await posted(store, tmp_path, body)
    assert answer.status_code == 422 and "stands twice" in answer.json()["detail"]
    assert not store.orders.list(limit=1).items


async def test_the_same_key_in_different_objects_is_no_repetition(store: Store, tmp_path: Path) -> None:
    schema = '{"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}'
    assert (await posted(store, tmp_path, f'{{"prompt": "x", "result_schema": {schema}}}')).status_code == 201


@pytest.mark.parametrize("part", ['"priority": true', '"limits": {"rounds": true}', '"limits": {"wall_seconds": true}'])
async def test_true_is_no_number_in_a_body(store: Store, tmp_path: Path, part: str) -> None:
    assert (await posted(store, tmp_path, f'{{"prompt": "x", {part}}}')).status_code == 422


@tool()
async def write_note(text: str) -> str:
    """Write a note."""
    return f"wrote {text}"


@pytest.mark.parametrize(
    "sent", ['{"text": "a", "text": "b"}', '{}{"text": "a", "text": "b"}', json.dumps('{"text": "a", "text": "b"}')]
)
async def test_arguments_with_a_key_twice_run_nothing_and_the_model_is_told(sent: str) -> None:
    wanted = WantedCall("write_note", arguments(sent))
    lone = Lone(
        [Line(calls=(wanted,)), Line(calls=(call("write_note", text="c"),)), "Done."], FunctionTools([write_note])
    )
    assert (await lone.run()).completed
    first, second = lone.results()
    assert first.is_error and "key 'text' stands twice" in first.content
    assert unfenced(second.content) == "wrote c"
    assert '"b"' in str(lone.facts(ToolStarted)[0].arguments), "the record keeps both"


async def test_a_result_with_a_key_twice_is_refused_by_the_gate() -> None:
    sent = arguments('{"status": "failed", "status": "completed", "summary": "All is well."}')
    good = call("submit_result", status="completed", summary="All is well.")
    lone = Lone([Line(calls=(WantedCall("submit_result", sent),)), Line(calls=(good,))], gate=ReportGate())
    report: Report = await lone.run()
    assert report.completed
    refused, accepted = lone.facts(GateChecked)
    assert not refused.ok and "stands twice" in refused.errors[0] and accepted.ok


class Level(IntEnum):
    LOW = 1


class Part(BaseModel):
    number: int
    parts: "list[Part]" = []


@tool()
def many(
    parts: Sequence[Part] = (),
    numbers: dict[str, float] | None = None,
    pair: tuple[str, int] | None = None,
    level: Level = Level.LOW,
    kind: Literal[1, 2] = 1,
    either: int | bool = 0,
    flag: bool = False,
    some: int | list[int | None] | Part | None = None,
    most: Annotated[int, Field(ge=1)] | None = None,
) -> str:
    """Takes numbers wherever they can stand."""
    return "ran"


async def told(tools: FunctionTools, name: str, **given: object) -> tuple[bool, str]:
    output = await tools.call(StartedCall("call-1", name, given, Origin(record_id="record-1", agent="master")))
    return output.is_error, unfenced(output.content)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"parts": [{"number": True}]}, "parts.0.number"),
        ({"parts": [{"number": 1, "parts": [{"number": False}]}]}, "parts.0.parts.0.number"),
        ({"numbers": {"a": 1, "b": True}}, "numbers.b"),
        ({"pair": ["a", True]}, "pair.1"),
        ({"level": True}, "level"),
        ({"kind": True}, "kind"),
        ({"most": True}, "most"),
        ({"some": True}, "some"),
        ({"some": [1, None, True]}, "some.2"),
        ({"some": {"number": True}}, "some.number"),
    ],
)
async def test_true_is_no_number_in_the_arguments_of_a_tool(given: dict[str, object], where: str) -> None:
    failed, said = await told(FunctionTools([many]), "many", **given)
    assert failed and f"`{where}`: input should be" in said and "but it was " in said


@pytest.mark.parametrize(
    "given",
    [
        {"either": True, "flag": True},
        {"parts": [{"number": 1}], "numbers": None, "pair": ["a", 1], "level": 1, "kind": 2, "most": None},
        {"most": "3", "numbers": {"a": "0.5"}},
        {"some": [1, None]},
        {"some": {"number": 1}},
        {"some": 1},
    ],
)
async def test_what_is_meant_as_a_number_or_as_true_is_taken(given: dict[str, object]) -> None:
    assert await told(FunctionTools([many]), "many", **given) == (False, "ran")


async def test_the_tools_that_ship_do_not_take_true_for_line_1(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    tools = FunctionTools([read_file, list_files], workspace=Workspace(tmp_path))
    for name, given in (
        ("read_file", {"start_line": True}),
        ("read_file", {"end_line": True}),
        ("list_files", {"depth": True}),
    ):
        failed, said = await told(tools, name, path="a" if name == "read_file" else ".", **given)
        assert failed and "integer, but it was true" in said


@pytest.mark.parametrize(("characters", "repaired"), [(1_000, True), (MOST_REPAIRED + 1, False)])
def test_only_arguments_that_a_model_could_have_meant_are_repaired(characters: int, repaired: bool) -> None:
    """Repair looks at every character: megabytes of what is nearly JSON would hold up the other orders of a drone."""
    nearly = '{"a": "' + "x" * (characters - 10) + '",}'
    assert isinstance(arguments(nearly), dict) is repaired
