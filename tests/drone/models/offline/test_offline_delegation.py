"""The offline model as a master: roles by the schemas of its tools, and one answer made of what comes back."""

import json
from typing import Any

import pytest

from drone.models.offline.report import HONEST
from mcc.transcript.messages import AssistantMessage, Message, UserMessage
from tests.drone.models.offline.playing import ALL, READING, Failure, Game, delegating, play, spec


def report(title: str, line: str, path: str, number: int, severity: str = "info") -> dict[str, object]:
    finding = {"title": title, "path": path, "line": number, "evidence": line, "severity": severity}
    return {"status": "completed", "summary": f"{title}, it is told.", "findings": [finding]}


LAYOUT = report("A program begins here", "fn main() {", "src/wozzle.rs", 7)
RISK = report("A shell is started", "sh(x)", "src/blim.rs", 4, "medium")
PURPOSE = {"status": "completed", "text": f"*{HONEST}*\n\n**It says of itself**\n- `Cargo.toml:3`: “Knits socks.”"}
LOST = {"id": "explore_2", "status": "blocked", "summary": "Zorbax was away.", "findings": []}


async def led(*reports: object, prompt: str = "Explain this repository", **more: Any) -> Game:
    return await play(prompt, lambda name, _: json.dumps({"agents": reports}), more.get("tools", ALL))


@pytest.mark.parametrize(
    ("prompt", "roles"),
    [
        ("Explain this repository", ["scout", "explore", "review"]),
        ("Review this code", ["scout", "review"]),
        ("Is the security of this code good?", ["scout", "review", "security_analyst"]),
    ],
)
async def test_roles_that_fit_the_request_are_asked_side_by_side(prompt: str, roles: list[str]) -> None:
    game = await led(*[LAYOUT, PURPOSE, RISK][: len(roles)], prompt=prompt)
    [asked] = game.called("subagents_run")
    assert [one["role"] for one in asked["agents"]] == roles and asked["mode"] == "parallel"
    assert len({one["id"] for one in asked["agents"]}) == len(roles)
    assert all(f"`{role}`" in game.replies[0].text for role in roles) and "offline model" in game.replies[0].text


async def test_other_roles_than_the_shipped_ones_do_the_parts_that_anybody_can() -> None:
    game = await led(LAYOUT, PURPOSE, tools=(*READING, delegating("digger", "sifter")))
    assert [one["role"] for one in game.called("subagents_run")[0]["agents"]] == ["digger", "digger"]


async def test_the_answer_has_a_section_for_each_report_and_says_what_it_is_once() -> None:
    answer = (await led(LAYOUT, PURPOSE, RISK)).replies[-1].text
    for told in (
        "## Structure and entry points\n\nA program begins here, it is told.\n\n**A program begins here**\n- `src/woz",
        "## What the code does\n\n**It says of itself**\n- `Cargo.toml:3`: “Knits socks.”",
        "**A shell is started** (medium)\n- `src/blim.rs:4`: “sh(x)”",
        "From 3 of 3 subagents",
    ):
        assert told in answer, answer
    assert answer.count(HONEST) == 1


async def test_a_report_that_is_missing_is_named_and_the_others_are_kept() -> None:
    answer = (await led(LAYOUT, LOST, RISK)).replies[-1].text
    assert "What the code does: not finished" in answer and "Zorbax was away." in answer
    assert "wozzle" in answer and "From 2 of 3 subagents" in answer


async def test_without_any_report_the_order_is_not_done() -> None:
    def full(name: str, arguments: object) -> str:
        raise Failure("No slot is free.")

    answer = (await play("Explain this repository", full, ALL)).replies[-1].text
    assert answer.startswith("This was not done.") and "No slot is free." in answer


async def test_a_form_gets_the_findings_of_the_children_the_worst_first() -> None:
    submit = spec("submit_result", "status", findings={"type": "array", "items": {"type": "string"}})
    [result] = (await led(LAYOUT, PURPOSE, RISK, tools=(*ALL, submit))).called("submit_result")
    assert result["findings"][0].startswith("A shell is started: `src/blim.rs:4`") and "wozzle" in str(result)


async def test_a_follow_up_in_a_session_is_answered_and_not_surveyed_again() -> None:
    before: list[Message] = [UserMessage("Explain this repository"), AssistantMessage.of("It is small.")]
    for follow_up, sought in (("How are its tests run?", "pytest"), ("And where is `Wibbet` defined?", "Wibbet")):
        game = await play([*before, UserMessage(follow_up)], lambda name, _: "", ALL)
        assert not game.called("subagents_run") and sought in str(game.called("search_text"))
        assert "It says of itself" not in game.replies[-1].text
