"""The offline model hands its findings in: in any form, with less in it each time it is refused."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcc.transcript.messages import ToolSpec
from tests.drone.models.offline.playing import READING, Failure, Game, play

FILES = {
    "README.md": "# Glimmer\n\nGlimmer hums for people.\n",
    "pyproject.toml": '[project]\nname = "glimmer"\n',
    "glimmer/quorvex.py": '"""Quorvexes hum in three voices."""\n\n\ndef hum():\n    pass\n',
    "checks/test_quorvex.py": "def test_it():\n    pass\n",
}
TEXT = {"type": "string"}
REPORT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["completed", "blocked", "failed"]},
        "summary": {"type": "string", "maxLength": 4000},
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"title": TEXT, "evidence": TEXT, "paths": {"type": "array", "items": TEXT}},
                "required": ["title"],
            },
        },
        "check_only": {"type": "boolean"},
    },
    "required": ["status", "summary"],
}
Judge = Callable[[Mapping[str, Any]], str | None]
"""What is wrong with a result; None when nothing is."""


def workspace(name: str, arguments: Mapping[str, Any]) -> str:
    match name:
        case "find_files":
            return "\n".join([f"{len(FILES)} files of {len(FILES)} in . match **/*", *sorted(FILES)])
        case "read_file":
            text = FILES[arguments["path"]].rstrip("\n").split("\n")
            lines = [f"{number}\t{line}" for number, line in enumerate(text, 1)]
            return "\n".join([f"{arguments['path']}, lines 1-{len(text)} of {len(text)}, 99 bytes", *lines])
    return "0 matching lines in 0 files, of 4 files in ."


async def handed_in(
    judge: Judge = lambda result: None,
    schema: Mapping[str, Any] = REPORT,
    tool: Callable[[str, Mapping[str, Any]], str] = workspace,
) -> tuple[Any, Game]:
    """The last result that was handed in, and the run."""

    def answer(name: str, arguments: Mapping[str, Any]) -> str:
        if name != "submit_result":
            return tool(name, arguments)
        if wrong := judge(arguments):
            raise Failure(f"Not accepted: {wrong}")
        return "Accepted."

    game = await play("Explain this repository", answer, (*READING, ToolSpec("submit_result", "Hand in.", schema)))
    return game.called("submit_result")[-1], game


async def test_findings_name_only_files_that_were_read_and_quote_them() -> None:
    result, game = await handed_in()
    read = {arguments["path"] for arguments in game.called("read_file")}
    assert result["status"] == "completed" and "no language model was asked" in result["summary"]
    assert {path for one in result["findings"] for path in one.get("paths", ())} <= read
    assert any(one.get("evidence") == "Quorvexes hum in three voices." for one in result["findings"])
    assert "check_only" not in result and len(game.called("submit_result")) == 1


async def test_a_gate_that_takes_no_findings_gets_a_result_without() -> None:
    result, _ = await handed_in(lambda result: "none, please" if result["findings"] else None)
    assert result["findings"] == [] and result["status"] == "completed"


async def test_a_gate_that_never_accepts_completion_gets_a_blocked_result_with_its_reason() -> None:
    result, _ = await handed_in(lambda result: "Nobody believes it." if result["status"] == "completed" else None)
    assert result["status"] == "blocked" and "Nobody believes it." in result["summary"]


async def test_a_workspace_that_refuses_every_tool_is_blocked_and_says_why() -> None:
    def nothing(name: str, arguments: object) -> str:
        raise Failure("The disk of Zorbax is gone.")

    result, _ = await handed_in(tool=nothing)
    assert result["status"] == "blocked" and "Zorbax" in result["summary"]


def asking(required: list[str] | None = None, **properties: object) -> dict[str, Any]:
    place = {"type": "object", "properties": {"file": TEXT, "line": {"type": "integer"}}}
    return {"type": "object", "properties": properties, "required": required or [], "$defs": {"place": place}}


async def test_a_form_of_any_kind_is_filled_by_the_names_and_types_of_its_properties() -> None:
    message = {"message": {"type": "string", "maxLength": 20}, "path": TEXT}
    issues = {"type": "array", "maxItems": 2, "items": {"type": "object", "properties": message}}
    form = asking(
        ["owner"],
        file_count={"type": "integer"},
        languages={"type": "array", "items": TEXT},
        language=TEXT,
        has_tests={"type": "boolean"},
        owner={"type": ["string", "null"]},
        verdict={"enum": ["ok", "not ok"]},
        issues=issues,
        answer={"anyOf": [{"type": "null"}, TEXT]},
        issue={"$ref": "#/$defs/place"},
    )
    result, _ = await handed_in(schema=form)
    assert (result["file_count"], result["languages"], result["language"]) == (4, ["Python"], "Python")
    assert (result["owner"], result["verdict"], result["has_tests"]) == (None, "ok", True)
    assert len(result["issues"]) == 2 and all(len(one["message"]) <= 20 for one in result["issues"])
    assert result["issues"][0]["path"] in FILES and "no language model" in result["answer"]


@pytest.mark.parametrize(
    ("schema", "result"),
    [
        (asking(), {}),
        (asking(colour=TEXT), {}),
        (asking(["colour"], colour=TEXT), {"colour": "not determined"}),
        (asking(["n"], n={"type": "integer", "minimum": 3}), {"n": 3}),
        (asking(["result"], result={"const": 7}), {"result": 7}),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {}),
        ({"properties": {"loop": {"$ref": "#"}}, "required": ["loop"]}, None),
    ],
    ids=["anything", "an optional unknown", "an unknown", "a number", "a constant", "a circle", "itself within itself"],
)
async def test_properties_without_a_fact_are_left_out_or_called_unknown(schema: dict[str, Any], result: object) -> None:
    filled, _ = await handed_in(schema=schema)
    assert result is None or filled == result
