"""The offline model as a master: roles by the schemas of its tools, and one answer made of what comes back."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from drone.agent.ports.messages import AssistantMessage, Message, ToolSpec, UserMessage
from drone.models.offline.report import HONEST
from tests.drone.models.offline.playing import READING, SUBAGENT, Failure, Game, finishing, play, spec


def run_tool(*roles: str) -> ToolSpec:
    text = {"type": "string"}
    agent = {"id": text, "role": {**text, "enum": list(roles)}, "title": text, "task": text}
    agent["success_criteria"] = {"type": "array", "items": text}
    agents = {"type": "array", "items": {"type": "object", "properties": agent}, "maxItems": 5}
    return spec("subagents_run", agents=agents, mode={"type": "string", "enum": ["parallel", "chain"]})


ALL = (*READING, SUBAGENT, run_tool("explore", "general", "scout", "review", "security_analyst"))


def report(title: str, *findings: Mapping[str, object], **more: object) -> dict[str, object]:
    return {"status": "completed", "summary": f"{title} is told.", "findings": list(findings), **more}


def finding(title: str, path: str, line: int, evidence: str, severity: str = "info") -> dict[str, object]:
    return {"title": title, "path": path, "line": line, "evidence": evidence, "severity": severity}


LAYOUT = report("Layout", finding("A program begins here", "src/wozzle.rs", 7, "fn main() {"))
RISK = report("Risk", finding("A shell is started", "src/blim.rs", 4, "sh(x)", "medium"))
PURPOSE = {"status": "completed", "text": f"*{HONEST}*\n\n**It says of itself**\n- `Cargo.toml:3`: “Knits socks.”"}


async def led(prompt: str, answers: Mapping[str, Any], tools: Sequence[ToolSpec] = ALL) -> Game:
    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        told = answers.get(name, "{}")
        if isinstance(told, Exception):
            raise told
        return told if isinstance(told, str) else json.dumps(told)

    return await play(prompt, answerer, tools)


@pytest.mark.parametrize(
    ("prompt", "roles"),
    [
        ("Explain this repository", ["scout", "explore", "review"]),
        ("Review this code", ["scout", "review"]),
        ("Is the security of this code good?", ["scout", "review", "security_analyst"]),
    ],
)
async def test_roles_that_fit_the_request_are_asked_side_by_side(prompt: str, roles: list[str]) -> None:
    game = await led(prompt, {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK][: len(roles)]}})
    [asked] = game.called("subagents_run")
    agents: Any = asked["agents"]
    assert [one["role"] for one in agents] == roles and asked["mode"] == "parallel"
    assert len({one["id"] for one in agents}) == len(roles) and all(one["success_criteria"] for one in agents)
    assert all(f"`{role}`" in game.replies[0].text for role in roles) and "offline model" in game.replies[0].text


async def test_where_only_single_subagents_are_to_be_had_each_part_is_a_call() -> None:
    kinds = spec("subagent", "prompt", agent_type={"type": "string", "enum": ["digger", "sifter"]})
    game = await led("Explain this repository", {"subagent": "Found src/it.py.\n\nrecord_id: r-77"}, (*READING, kinds))
    assert [one["agent_type"] for one in game.called("subagent")] == ["digger", "digger"]
    assert "Found src/it.py." in game.answer and "record_id" not in game.answer


async def test_the_answer_has_a_section_for_each_report_and_says_what_it_is_once() -> None:
    answer = (await led("Explain this repository", {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK]}})).answer
    for told in (
        "## Structure and entry points\n\nLayout is told.\n\n**A program begins here**\n- `src/wozzle.rs:7`: “fn main",
        "## What the code does\n\n**It says of itself**\n- `Cargo.toml:3`: “Knits socks.”",
        "**A shell is started** (medium)\n- `src/blim.rs:4`: “sh(x)”",
        "From 3 of 3 subagents",
    ):
        assert told in answer, answer
    assert answer.count(HONEST) == 1


async def test_a_report_that_is_missing_is_named_and_the_others_are_kept() -> None:
    lost = {"id": "explore_2", "status": "blocked", "summary": "Zorbax was away.", "findings": []}
    told = Failure(json.dumps({"agents": [LAYOUT, lost, RISK]}))
    answer = (await led("Explain this repository", {"subagents_run": told})).answer
    assert "What the code does: not finished" in answer and "Zorbax was away." in answer
    assert "wozzle" in answer and "From 2 of 3 subagents" in answer


async def test_without_any_report_the_order_is_not_done() -> None:
    answer = (await led("Explain this repository", {"subagents_run": Failure("No slot is free.")})).answer
    assert answer.startswith("This was not done.") and "No slot is free." in answer


async def test_a_form_gets_the_findings_of_the_children_the_worst_first() -> None:
    answers = {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK]}, "submit_result": "Accepted."}
    name, result = (await led("Explain this repository", answers, (*ALL, *finishing()))).calls[-1]
    findings: Any = result["findings"]
    assert name == "submit_result" and findings[0]["title"] == "A shell is started"
    assert findings[0]["paths"] == ["src/blim.rs"] and "A program begins here" in str(findings)


async def test_a_question_about_one_subject_is_answered_without_subagents() -> None:
    game = await led("How are its tests run?", {"find_files": "1 file of 1 in . match **/*\nREADME.md"})
    assert not game.called("subagents_run") and game.called("search_text")


async def test_a_new_turn_of_a_session_is_worked_on_anew() -> None:
    before: list[Message] = [UserMessage("Explain this repository"), AssistantMessage.of("It is small.")]
    again = await play([*before, UserMessage("Where is `Wibbet`?")], lambda name, _: "", ALL)
    assert "Wibbet" in str(again.called("search_text"))
