"""The offline model submits its findings: a true report, checked and corrected, in any form."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from drone.agent.ports.messages import AssistantMessage, ToolSpec, UserMessage
from tests.drone.models.offline.playing import READING, REPORT, Failure, Game, finishing, play, spec
from tests.drone.models.offline.test_offline_explorer import INVENTED, real_format

Gate = Callable[[Mapping[str, Any], Game], str | None]
"""What is wrong with a result; None when nothing is."""


async def explored(
    gate: Gate = lambda result, game: None,
    *,
    prompt: str = "Explain this repository",
    schema: Mapping[str, object] = REPORT,
    tools: Sequence[ToolSpec] = READING,
    workspace: Callable[[str, Mapping[str, object]], str] = real_format,
) -> Game:
    seen = Game([])

    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        if name != "submit_result":
            content = workspace(name, arguments)
            seen.calls.append((name, arguments))
            return content
        if wrong := gate(arguments, seen):
            raise Failure(f"Not accepted: {wrong}")
        return "This would be accepted." if asks(arguments) else "Accepted."

    return await play(prompt, answerer, (*tools, *finishing(schema)))


def asks(arguments: Mapping[str, object]) -> bool:
    """Whether the call is a check that ends nothing."""
    return arguments.get("check_only") is True


def checks(game: Game) -> list[bool]:
    """For each call of the gate in order: whether it only checked."""
    return [asks(arguments) for name, arguments in game.calls if name == "submit_result"]


def handed_in(game: Game) -> Mapping[str, Any]:
    assert game.names[-1] == "submit_result"
    return game.calls[-1][1]


def every_path_was_read(result: Mapping[str, Any], game: Game) -> str | None:
    read = {arguments["path"] for name, arguments in game.calls if name == "read_file"}
    return next(
        (
            f"findings[{number}].paths: {path} was never read"
            for number, finding in enumerate(result.get("findings", ()))
            for path in finding.get("paths", ())
            if path not in read
        ),
        None,
    )


async def test_findings_name_only_files_that_were_read() -> None:
    game = await explored(every_path_was_read)
    result = handed_in(game)
    assert game.names.count("submit_result") == 1
    assert result["status"] == "completed"
    assert "no language model was asked" in result["summary"]
    assert {path for one in result["findings"] for path in one["paths"]} >= {"README.md", "glimmer/__main__.py"}
    assert any("Quorvexes hum" in one["evidence"] for one in result["findings"])


async def test_the_same_work_gives_the_same_submission() -> None:
    assert handed_in(await explored()) == handed_in(await explored())


async def test_a_file_that_a_complaint_names_is_read_before_the_next_attempt() -> None:
    def gate(result: Mapping[str, Any], game: Game) -> str | None:
        read = {arguments["path"] for name, arguments in game.calls if name == "read_file"}
        return None if "notes/care.txt" in read else "read notes/care.txt before you speak of care"

    def workspace(name: str, arguments: Mapping[str, object]) -> str:
        return "Sing to them." if arguments.get("path") == "notes/care.txt" else real_format(name, arguments)

    game = await explored(gate, workspace=workspace)
    at = game.names.index("submit_result")
    assert game.calls[at + 1] == ("read_file", {"path": "notes/care.txt"})
    assert checks(game)[-2:] == [True, False]


async def test_a_refused_result_is_checked_before_it_is_submitted_again() -> None:
    def gate(result: Mapping[str, Any], game: Game) -> str | None:
        return "steps: must not be there" if "steps" in result else None

    game = await explored(gate)
    assert checks(game)[-3:] == [False, True, False]
    assert "steps" not in handed_in(game)


async def test_a_gate_that_never_accepts_completion_gets_a_blocked_result() -> None:
    game = await explored(
        lambda result, _: "Nobody believes a completed result." if result["status"] == "completed" else None
    )
    result = handed_in(game)
    assert result["status"] == "blocked"
    assert "Nobody believes a completed result." in result["summary"]


async def test_a_workspace_that_refuses_every_tool_is_blocked_and_says_why() -> None:
    def nothing(name: str, arguments: Mapping[str, object]) -> str:
        raise Failure("The disk of Zorbax is gone.")

    result = handed_in(await explored(workspace=nothing))
    assert result["status"] == "blocked"
    assert "Zorbax" in result["summary"]


FACTS_WANTED: Mapping[str, object] = {
    "$defs": {"place": {"type": "object", "properties": {"file": {"type": "string"}, "line": {"type": "integer"}}}},
    "type": "object",
    "properties": {
        "project": {"type": "string"},
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
                "properties": {"message": {"type": "string", "maxLength": 40}, "path": {"type": "string"}},
                "required": ["message"],
            },
        },
        "answer": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "odd": {"allOf": [{"type": "object", "properties": {"title": {"type": "string"}}}, {"required": ["title"]}]},
    },
    "required": ["project", "file_count", "owner", "verdict", "issues"],
}


async def test_a_form_of_any_kind_is_filled_by_the_names_and_types_of_its_properties() -> None:
    game = await explored(schema=FACTS_WANTED)
    result = handed_in(game)
    assert checks(game)[-2:] == [True, False]
    assert (result["project"], result["file_count"], result["languages"]) == ("glimmer", 6, ["Python"])
    assert (result["has_tests"], result["owner"], result["verdict"]) == (True, None, "ok")
    assert len(result["issues"]) == 2 and all(len(one["message"]) <= 40 for one in result["issues"])
    assert result["issues"][0]["path"] in INVENTED
    assert "no language model" in result["answer"]
    assert result["odd"] == {"title": "glimmer"}


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
async def test_properties_without_a_fact_are_left_out_or_called_unknown(
    schema: dict[str, object], result: object
) -> None:
    found = handed_in(await explored(schema=schema))
    assert result is None or found == result


async def test_little_room_makes_a_short_result() -> None:
    from drone.agent.ports.model import Ask
    from drone.models.offline import OfflineModel
    from tests.drone.models.offline.playing import Recorded

    whole = await explored()
    before = whole.messages[: -2 * len(checks(whole))]
    ask = Ask("", before, (*READING, *finishing()), max_output_tokens=300)
    reply = await OfflineModel().ask(ask, Recorded())
    assert reply.tool_calls[0].name == "submit_result"
    assert len(json.dumps(reply.tool_calls[0].arguments)) < len(json.dumps(dict(handed_in(whole)))) / 2


async def test_a_single_tool_request_is_submitted_with_the_tool_s_result() -> None:
    result = handed_in(await explored(prompt="Read the file glimmer/zanthe.py"))
    assert result["findings"][0]["paths"] == ["glimmer/zanthe.py"]
    assert "def zanthe()" in result["findings"][0]["evidence"]


async def test_a_continued_explorer_answers_from_what_it_knows() -> None:
    first = await explored()
    again = [*first.messages, UserMessage("Name the files that your result rests on.")]

    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        return "Accepted." if name == "submit_result" else real_format(name, arguments)

    game = await play(again, answerer, (*READING, *finishing()))
    assert set(game.names) == {"read_file", "submit_result"}
    assert every_path_was_read(handed_in(game), game) is None
    assert any(one["paths"] for one in handed_in(game)["findings"])


async def test_a_reply_that_was_sent_back_is_no_new_task() -> None:
    complaint = (
        "A reply alone does not end your work: hand the result in with the tool submit_result. (4 attempts left.)"
    )
    said = [UserMessage("Explain this repository"), AssistantMessage.of("It is"), UserMessage(complaint)]
    game = await play(said, real_format, (*READING, *finishing()))
    assert handed_in(game)["status"] == "completed"
    assert all("attempts" not in str(arguments) for name, arguments in game.calls if name == "search_text")


REVIEWER = "You are a reviewer. You read code and name concrete risks."
GUARD = "You are a security analyst: you look for weaknesses in the security of code."


def risky(name: str, arguments: Mapping[str, object]) -> str:
    """A workspace with one thing to find for each kind of review."""
    import re

    files = {"app/run.py": "import os\n\ndef go(text):\n    os.system(text)  # TODO: not like this\n"}
    match name:
        case "list_files" | "find_files":
            return "\n".join(files)
        case "search_text":
            found = re.compile(str(arguments["pattern"]))
            lines = ((path, n, line) for path, text in files.items() for n, line in enumerate(text.splitlines(), 1))
            hits = [f"{path}:{n}:{line}" for path, n, line in lines if found.search(line)]
            return "\n".join([f"{len(hits)} matching lines in 1 file, of 1 file in .", *hits])
        case "read_file":
            return files[str(arguments["path"])]
    return "On branch main\n M app/run.py" if name == "git_status" else "{}"


@pytest.mark.parametrize(
    ("system", "title", "severity"),
    [(REVIEWER, "Marked as unfinished", "info"), (GUARD, "A shell is started", "warning")],
    ids=["reviewer", "security analyst"],
)
async def test_a_reviewer_looks_for_the_patterns_of_its_kind_of_review(system: str, title: str, severity: str) -> None:
    tools = (*READING, spec("git_status"), spec("git_log", "limit"), *finishing())

    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        return "Accepted." if name == "submit_result" else risky(name, arguments)

    game = await play("Look at this workspace", answerer, tools, system=system)
    found = next(one for one in handed_in(game)["findings"] if one["title"] == title)
    assert (found["severity"], found["paths"]) == (severity, ["app/run.py"])
    assert "app/run.py:4" in found["evidence"]
    assert any("M app/run.py" in step for step in handed_in(game)["steps"])
    assert all(one["paths"] for one in handed_in(game)["findings"])


async def test_a_secret_that_it_finds_is_not_repeated() -> None:
    def leaky(name: str, arguments: Mapping[str, object]) -> str:
        line = 'API_KEY = "abcdefghijklmnopqrstuvwxyz0123"'
        if name == "search_text":
            return f"1 matching line in 1 file, of 1 file in .\napp/key.py:1:{line}" if "api" in str(arguments) else ""
        return line if name == "read_file" else "Accepted." if name == "submit_result" else "app/key.py"

    game = await play("Look at this workspace", leaky, (*READING, *finishing()), system=GUARD)
    assert "app/key.py:1" in str(handed_in(game)) and "abcdefgh" not in str(handed_in(game))
