"""The offline model hands its findings in: in any form, with less in it each time it is refused."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from drone.agent.ports.messages import ToolSpec
from tests.drone.models.offline.playing import READING, REPORT, Failure, Game, finishing, play

FILES = {
    "README.md": "# Glimmer\n\nGlimmer hums for people.\n",
    "pyproject.toml": '[project]\nname = "glimmer"\n',
    "glimmer/quorvex.py": '"""Quorvexes hum in three voices."""\n\n\ndef hum():\n    pass\n',
    "checks/test_quorvex.py": "def test_it():\n    pass\n",
}
Judge = Callable[[Mapping[str, Any]], str | None]
"""What is wrong with a result; None when nothing is."""


def workspace(name: str, arguments: Mapping[str, object]) -> str:
    match name:
        case "find_files":
            return "\n".join([f"{len(FILES)} files of {len(FILES)} in . match **/*", *sorted(FILES)])
        case "read_file":
            text = FILES[str(arguments["path"])].rstrip("\n").split("\n")
            lines = [f"{number}\t{line}" for number, line in enumerate(text, 1)]
            return "\n".join([f"{arguments['path']}, lines 1-{len(text)} of {len(text)}, 99 bytes", *lines])
    return "0 matching lines in 0 files, of 4 files in ."


async def handed_in(
    judge: Judge = lambda result: None,
    schema: Mapping[str, Any] = REPORT,
    tool: Callable[[str, Mapping[str, object]], str] = workspace,
    tools: Sequence[ToolSpec] = READING,
) -> Game:
    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        if name != "submit_result":
            return tool(name, arguments)
        if wrong := judge(arguments):
            raise Failure(f"Not accepted: {wrong}")
        return "Accepted."

    return await play("Explain this repository", answerer, (*tools, *finishing(schema)))


async def test_findings_name_only_files_that_were_read_and_quote_them() -> None:
    game = await handed_in()
    result: Any = game.calls[-1][1]
    read = {arguments["path"] for arguments in game.called("read_file")}
    assert result["status"] == "completed" and "no language model was asked" in result["summary"]
    assert {path for one in result["findings"] for path in one.get("paths", ())} <= read
    assert any(one["evidence"] == "Quorvexes hum in three voices." for one in result["findings"])
    assert game.names.count("submit_result") == 1


async def test_a_gate_that_takes_no_findings_gets_a_result_without() -> None:
    game = await handed_in(lambda result: "findings: none, please" if result["findings"] else None)
    assert game.calls[-1][1]["findings"] == [] and game.calls[-1][1]["status"] == "completed"


async def test_a_gate_that_never_accepts_completion_gets_a_blocked_result_with_its_reason() -> None:
    game = await handed_in(lambda result: "Nobody believes it." if result["status"] == "completed" else None)
    result: Any = game.calls[-1][1]
    assert result["status"] == "blocked" and "Nobody believes it." in result["summary"]


async def test_a_workspace_that_refuses_every_tool_is_blocked_and_says_why() -> None:
    def nothing(name: str, arguments: Mapping[str, object]) -> str:
        raise Failure("The disk of Zorbax is gone.")

    result: Any = (await handed_in(tool=nothing)).calls[-1][1]
    assert result["status"] == "blocked" and "Zorbax" in result["summary"]


WANTED: Mapping[str, object] = {
    "$defs": {"place": {"type": "object", "properties": {"file": {"type": "string"}, "line": {"type": "integer"}}}},
    "type": "object",
    "properties": {
        "file_count": {"type": "integer"},
        "languages": {"type": "array", "items": {"type": "string"}},
        "has_tests": {"type": "boolean"},
        "owner": {"type": ["string", "null"]},
        "verdict": {"enum": ["ok", "not ok"]},
        "issues": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"message": {"type": "string", "maxLength": 20}, "path": {"type": "string"}},
                "required": ["message"],
            },
        },
        "answer": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
        "odd": {"allOf": [{"type": "object", "properties": {"result": {"type": "string"}}}, {"required": ["result"]}]},
    },
    "required": ["file_count", "owner", "verdict", "issues"],
}


async def test_a_form_of_any_kind_is_filled_by_the_names_and_types_of_its_properties() -> None:
    result: Any = (await handed_in(schema=WANTED)).calls[-1][1]
    assert (result["file_count"], result["languages"], result["has_tests"]) == (4, ["Python"], True)
    assert (result["owner"], result["verdict"]) == (None, "ok")
    assert len(result["issues"]) == 2 and all(len(one["message"]) <= 20 for one in result["issues"])
    assert result["issues"][0]["path"] in FILES
    assert "no language model" in result["answer"] and "Quorvexes" in result["odd"]["result"]


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        ({"type": "object"}, {}),
        ({"type": "object", "properties": {"colour": {"type": "string"}}}, {}),
        (
            {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]},
            {"colour": "not determined"},
        ),
        ({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}, {"n": 3}),
        ({"type": "object", "properties": {"result": {"const": 7}}, "required": ["result"]}, {"result": 7}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {}),
        ({"properties": {"loop": {"$ref": "#"}}, "required": ["loop"]}, None),
    ],
    ids=["anything", "an optional unknown", "an unknown", "a number", "a constant", "a circle", "itself within itself"],
)
async def test_properties_without_a_fact_are_left_out_or_called_unknown(schema: dict[str, Any], result: object) -> None:
    found = (await handed_in(schema=schema)).calls[-1][1]
    assert result is None or found == result


async def test_little_room_makes_a_short_result() -> None:
    from drone.agent.ports.model import Ask
    from drone.models.offline import OfflineModel
    from tests.drone.models.offline.playing import Recorded

    whole = await handed_in()
    ask = Ask("", whole.messages[:-2], (*READING, *finishing()), max_output_tokens=200)
    reply = await OfflineModel().ask(ask, Recorded())
    assert reply.tool_calls[0].name == "submit_result"
    assert len(json.dumps(reply.tool_calls[0].arguments)) < len(json.dumps(dict(whole.calls[-1][1]))) / 2
