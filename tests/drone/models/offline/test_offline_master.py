"""The offline model as a master: two explorers in parallel, and one answer merged from their reports."""

from collections.abc import Mapping

import pytest

from drone.agent.ports.messages import AssistantMessage, UserMessage
from tests.drone.models.offline.playing import READING, SUBAGENT, Failure, play, spec

ALL = (*READING, SUBAGENT)


def told(*reports: str) -> object:
    left = list(reports)

    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        return left.pop(0) if name == "subagent" else "{}"

    return answerer


@pytest.mark.parametrize(
    "prompt",
    [
        "Explain this repository",
        "Describe the code base for a newcomer",
        "explore the project",
        "How is this library organised?",
    ],
)
async def test_the_first_reply_plans_and_starts_two_explorers_side_by_side(prompt: str) -> None:
    game = await play(prompt, told("One.", "Two."), ALL)  # type: ignore[arg-type]
    first = game.replies[0]
    started = [call.arguments for call in first.tool_calls if call.name == "subagent"]
    assert len(started) == 2
    assert all(isinstance(one, Mapping) and one["agent_type"] == "explore" for one in started)
    assert len({str(one["prompt"]) for one in started if isinstance(one, Mapping)}) == 2
    assert "offline model" in first.text and "plan" in first.text
    assert first.finish_reason == "tool_calls"
    assert len(game.replies) == 2


async def test_the_available_subagents_are_read_from_the_schema() -> None:
    kinds = spec("subagent", "prompt", agent_type={"type": "string", "enum": ["digger", "sifter"]})
    game = await play("Explain this repository", told("a", "b"), (*READING, kinds))  # type: ignore[arg-type]
    assert {one["agent_type"] for one in game.called("subagent")} == {"digger"}
    assert all(set(one) == {"agent_type", "prompt"} for one in game.called("subagent"))


async def test_names_counts_and_places_of_invented_reports_are_in_the_answer() -> None:
    reports = told(
        "The repository Frobnicate holds 37 Rust files. It starts at bin/frob_main.rs:12; its crate is src/wozzle.rs.",
        "It knits socks from `yarn/skein.toml`. There are 14 tests under checks/knit_spec.rs.",
    )
    game = await play("Explain this repository", reports, ALL)  # type: ignore[arg-type]
    for fact in (
        "Frobnicate",
        "37 Rust files",
        "bin/frob_main.rs",
        "src/wozzle.rs",
        "yarn/skein.toml",
        "14 tests",
        "knits socks",
    ):
        assert fact in game.answer, fact
    assert "No language model".lower() in game.answer.lower()


async def test_a_child_that_failed_is_named_and_the_others_result_is_kept() -> None:
    left = [
        Failure("The subagent failed: the disk of Zorbax is full. It had nothing to tell yet."),
        "Found src/blim.go.",
    ]

    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        if name != "subagent":
            return "{}"
        result = left.pop(0)
        if isinstance(result, Failure):
            raise result
        return result

    answer = (await play("Explain this repository", answerer, ALL)).answer
    assert "Zorbax" in answer and "not finished" in answer and "src/blim.go" in answer
    assert "From 1 of 2 subagents" in answer


async def test_children_of_its_own_kind_are_put_together_section_by_section() -> None:
    def workspace(root: str) -> object:
        files = f"{root}/engine.py\n{root}/test_engine.py\nREADME.md"

        def tool(name: str, arguments: Mapping[str, object]) -> str:
            if name == "read_file" and arguments["path"] == "README.md":
                return f"# {root.title()}\n\nThis is all about {root} and nothing besides."
            if name == "search_text":
                return f"{root}/engine.py:7:def main():"
            return files if name in ("list_files", "find_files") else ""

        async def answerer(name: str, arguments: Mapping[str, object]) -> str:
            if name != "subagent":
                return tool(name, arguments)
            return (await play(str(arguments["prompt"]), tool)).answer

        return answerer

    answers = [
        (await play("Explain this repository", workspace(root), ALL)).answer  # type: ignore[arg-type]
        for root in ("wibble", "flarn")
    ]
    for root, answer in zip(("wibble", "flarn"), answers, strict=True):
        for fact in (f"`{root}/engine.py:7`", f"all about {root}", "3 files", f"{root}/test_engine.py"):
            assert fact in answer, fact
        assert answer.count("## Layout") == 1
    assert "wibble" not in answers[1] and "flarn" not in answers[0]


async def test_a_new_turn_of_a_session_is_worked_on_anew() -> None:
    earlier = [
        UserMessage("Explain this repository"),
        AssistantMessage.of("It is small."),
        UserMessage("Explain the code again"),
    ]
    game = await play(earlier, told("Now src/again.py.", "And src/more.py."), ALL)  # type: ignore[arg-type]
    assert len(game.called("subagent")) == 2
    assert "src/again.py" in game.answer


async def test_a_steer_to_wrap_up_ends_the_work() -> None:
    game = await play("Explain this repository", told("Seen src/here.py.", "b"), ALL)  # type: ignore[arg-type]
    steered = [*game.messages[:1], *game.messages[1:], UserMessage("Please wrap up with what you have.")]
    assert "src/here.py" in (await play(steered, told(), ALL)).answer  # type: ignore[arg-type]


async def test_with_subagents_only_a_request_about_code_is_delegated_and_another_one_is_not() -> None:
    game = await play("Explain this repository", told("a", "b"), (SUBAGENT,))  # type: ignore[arg-type]
    assert len(game.called("subagent")) == 2
    other = await play("What is the capital of Peru?", told(), (SUBAGENT,))  # type: ignore[arg-type]
    assert not other.calls
    assert "Peru" in other.answer
