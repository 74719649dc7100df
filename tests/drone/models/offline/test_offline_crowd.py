"""The offline model as a master with more tools: several roles in one call, and cut results read in full."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drone.agent.ports.messages import ToolSpec, UserMessage
from drone.models.offline.report import HONEST
from tests.drone.models.offline.playing import READING, SUBAGENT, Failure, Game, finishing, play, spec

Answers = Mapping[str, Any]


def run_tool(*roles: str) -> ToolSpec:
    text = {"type": "string"}
    agent = {"id": text, "role": {**text, "enum": list(roles)}, "title": text, "task": text}
    agent["success_criteria"] = {"type": "array", "items": text}
    agents = {"type": "array", "items": {"type": "object", "properties": agent}, "maxItems": 5}
    return spec("subagents_run", agents=agents, mode={"type": "string", "enum": ["parallel", "chain"]})


ALL = (*READING, SUBAGENT, run_tool("explore", "general", "scout", "review", "security_analyst"))


def report(title: str, *findings: Mapping[str, object], record_id: str = "", **more: object) -> dict[str, object]:
    told = {
        "status": "completed",
        "summary": f"{title} is told.",
        "findings": list(findings),
        "record_id": record_id or title,
    }
    return {**told, "recommended_next_actions": [], **more}


def finding(title: str, evidence: str, *paths: str, severity: str = "info") -> dict[str, object]:
    return {"title": title, "evidence": evidence, "paths": list(paths), "severity": severity}


LAYOUT = report("Layout", finding("Layout", "- 37 files, among them `src/wozzle.rs`.", "src/wozzle.rs"))
RISK = report("Risk", finding("A shell is started", "- `src/blim.rs:4`: `sh(x)`", "src/blim.rs", severity="warning"))
CLEAN = report("Security", summary=f"{HONEST.strip('*')} Read: `src/wozzle.rs`. Nothing was found.")
PURPOSE = report("Purpose", finding("Purpose", "- `Cargo.toml` calls it **frob**: Knits socks.", "Cargo.toml"))


async def led(
    prompt: str, answers: Answers, tools: Sequence[ToolSpec] = ALL, before: Sequence[UserMessage] = ()
) -> Game:
    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        told = answers.get(name, "{}")
        if isinstance(told, Exception):
            raise told
        return told if isinstance(told, str) else json.dumps(told)

    return await play(prompt, answerer, tools)


async def test_several_roles_are_asked_in_one_call() -> None:
    game = await led("Explain this repository", {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK]}})
    [asked] = game.called("subagents_run")
    agents = asked["agents"]
    assert isinstance(agents, list)
    assert [one["role"] for one in agents] == ["scout", "explore", "review"]
    assert len({one["id"] for one in agents}) == 3 and all(one["success_criteria"] for one in agents)
    assert asked["mode"] == "parallel"
    assert all(f"`{one['role']}`" in game.replies[0].text for one in agents)


async def test_a_question_of_security_has_its_analyst() -> None:
    game = await led("Is the security of this code good?", {"subagents_run": {"agents": [LAYOUT, RISK, CLEAN]}})
    agents = game.called("subagents_run")[0]["agents"]
    assert isinstance(agents, list)
    assert [one["role"] for one in agents] == ["scout", "review", "security_analyst"]
    assert game.answer.index("Worth a second look") < game.answer.index("## Layout")
    assert "## Security\nRead: `src/wozzle.rs`. Nothing was found." in game.answer


async def test_where_one_role_is_there_each_piece_is_a_call() -> None:
    tools = (*READING, SUBAGENT, run_tool("explore"))
    game = await led("Explain this repository", {"subagent": PURPOSE}, tools)
    assert len(game.called("subagent")) == 2 and not game.called("subagents_run")


async def test_findings_become_sections_and_doubts_a_section_of_their_own() -> None:
    answer = (await led("Explain this repository", {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK]}})).answer
    assert "# frob: what is in this workspace" in answer
    assert "## Layout\n- 37 files" in answer
    assert "## Worth a second look\n- **A shell is started** (warning)\n  - `src/blim.rs:4`" in answer
    assert "From 3 of 3 subagents" in answer


async def test_one_report_that_is_missing_is_named_and_the_others_are_kept() -> None:
    lost = {"id": "explore_2", "role": "explore", "status": "blocked", "summary": "Zorbax was away.", "findings": []}
    told = Failure(json.dumps({"agents": [LAYOUT, lost, RISK]}))
    answer = (await led("Explain this repository", {"subagents_run": told})).answer
    assert "What the code does: not finished" in answer and "Zorbax was away." in answer
    assert "37 files" in answer and "From 2 of 3 subagents" in answer


async def test_a_child_s_text_is_shown_without_lines_added_by_the_tool() -> None:
    told = "It is all quite usual in src/it.py.\n\nrecord_id: r-77"
    game = await led("Explain this repository", {"subagent": told}, (SUBAGENT,))
    assert "src/it.py" in game.answer and "record_id" not in game.answer


async def test_a_cut_result_is_read_whole_before_anything_is_made_of_it() -> None:
    gap = "[… 99 of 70,000 characters are left out here; read them with read_artifact, id 0123456789abcdef …]"
    tools = (*READING, spec("read_artifact", "id", "start", "length"))

    def answerer(name: str, arguments: Mapping[str, object]) -> str:
        if name == "read_artifact":
            return f"characters {arguments['start']} of 70000\n" + (
                "dep.py\nhidden/d" if not arguments["start"] else "epths.py"
            )
        return (
            f"dep.py\n\n{gap}\n"
            if name in ("list_files", "find_files")
            else "# Readme\n\nThis is about depths and nothing besides."
        )

    game = await play("Explain this repository", answerer, tools)
    assert [one["start"] for one in game.called("read_artifact")] == [0, 60_000]
    assert "hidden/depths.py" in game.answer


async def test_an_order_with_a_form_gets_the_children_s_findings_in_it() -> None:
    answers = {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK]}, "submit_result": "Accepted."}
    game = await led("Explain this repository", answers, (*ALL, *finishing()))
    result = game.calls[-1][1]
    assert game.calls[-1][0] == "submit_result"
    findings: Any = result["findings"]
    assert [one["title"] for one in findings] == ["A shell is started", "Layout", "Purpose"]
    assert findings[0]["paths"] == ["src/blim.rs"]


async def test_a_new_task_from_a_person_is_begun_anew() -> None:
    game = await led("Explain this repository", {"subagents_run": {"agents": [LAYOUT, PURPOSE, RISK]}})
    changed = "Your task has changed. Leave what you were doing; this is your task from now on:\n\nWhere is `Wibbet`?"
    again = await play([*game.messages, UserMessage(changed)], lambda name, _: json.dumps(LAYOUT), ALL)
    assert "Wibbet" in str(again.called("search_text"))
