"""Section B: coordinated subagents with tool groups and structured results. One test for each thing such systems do."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import Ask, ModelError, WantedCall
from drone.models.scripted import Line, Said, call
from drone.sandbox.places.paths import Workspace
from drone.threads import OwnThreads
from drone.tools.catalog import Toolbox
from drone.tools.environment import Look, WorkspaceSurvey
from mcc.contracts.fence import unfenced
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from tests.drone.tools.git_scene import Scene
from tests.parity.world import World, calls, piece, report, team


def told(world: World) -> dict[str, Any]:
    """What the master's call of `subagents_run` brought, as the model was told."""
    (step,) = [step for step in world.results() if step.name == "subagents_run"]
    told: dict[str, Any] = json.loads(unfenced(step.content))
    return told


class Blind(Toolbox):
    """A toolbox whose look at the workspace fails."""

    async def look(self, survey: WorkspaceSurvey | None, workspace: Workspace, threads: OwnThreads) -> Look:
        return Look()


@pytest.mark.parametrize(("asked", "cap"), [({}, 3), ({"max_concurrency": 2}, 2), ({"max_concurrency": 5}, 4)])
async def test_one_call_starts_several_agents_and_more_than_the_cap_queue(
    asked: dict[str, Any], cap: int, tmp_path: Path
) -> None:
    """Each agent works for several rounds, and none ends before as many work at once as may: without the cap all do."""
    at_work, most, full = set[str](), 0, asyncio.Event()

    async def busy(task: str, replies: int) -> Said:
        nonlocal most
        at_work.add(task)
        most = max(most, len(at_work))
        if len(at_work) == cap:
            full.set()
        await full.wait()
        if replies < 3:
            return calls(call("list_files", path=".", depth=replies + 1))
        at_work.discard(task)
        return f"{task} is done."

    def play(task: str, replies: int, ask: Ask) -> Any:
        if task != "go":
            return busy(task, replies)
        return "All." if replies else team(*(piece(f"p{n}") for n in range(5)), **asked)

    world = World(tmp_path, play)
    assert (await world.run("go", "concurrency=4")).status is OrderStatus.SUCCEEDED
    assert most == cap
    assert [agent["summary"] for agent in told(world)["agents"]] == [f"p{n} is done." for n in range(5)]


@pytest.mark.parametrize("role", ["explore", "general", "scout", "review", "security_analyst"])
async def test_each_role_ships_with_groups_a_prompt_and_the_schemas_of_its_real_tools(
    role: str, tmp_path: Path
) -> None:
    shown: dict[str, list[str]] = {}

    def play(task: str, replies: int, ask: Ask) -> Said:
        shown[task] = [tool.name for tool in ask.tools]
        if task == "go":
            return "Done." if replies else calls(call("subagent", agent_type=role, prompt="look"))
        if replies == 0:
            return calls(call("read_file", path="README.md"))
        finding = {"title": "A garden", "path": "README.md", "evidence": "# A garden"}
        return report(findings=[finding]) if "submit_result" in {tool.name for tool in ask.tools} else "A garden."

    world = World(tmp_path, play)
    outcome = await world.run()
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    (child,) = world.record.subagent_history
    assert child.status is RecordStatus.COMPLETED, child.error
    assert {"read_file", "search_text"} <= set(child.tools)
    assert shown["look"] == list(child.tools)
    assert ("write_file" in shown["look"]) is (role == "general")


async def test_groups_filter_the_catalogue_and_are_enforced_where_the_tool_runs(tmp_path: Path) -> None:
    shown: list[str] = []

    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else team(piece("p", "review", allowed_tool_groups=["workspace_read"]))
        shown.extend(tool.name for tool in ask.tools if replies == 0)
        return report() if replies else calls(call("git_diff"), call("read_file", path="README.md"))

    world = World(tmp_path, play)
    await world.run()
    assert "read_file" in shown and "submit_result" in shown and "git_diff" not in shown
    (child,) = world.record.subagent_history
    refused, allowed = world.results(child)[:2]
    assert refused.is_error and "read_file" in refused.content and not allowed.is_error
    assert not {"subagents_run", "run_shell"} & set(child.tools)


async def test_an_unknown_group_is_warned_of_beside_one_that_is_known(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        groups = ["workspace_reading", "workspace_read"]
        if task == "go":
            return "Done." if replies else team(piece("p", "scout", allowed_tool_groups=groups))
        return report() if replies else calls(call("read_file", path="README.md"))

    world = World(tmp_path, play)
    await world.run()
    (child,) = world.record.subagent_history
    (warning,) = world.notes("unknown_tool_group", child)
    assert "workspace_reading" in warning and "workspace_read" in warning
    assert "read_file" in child.tools
    (provisioned,) = world.notes("provisioned", child)
    assert "read_file" in provisioned


async def test_an_agent_whose_groups_are_all_unknown_or_dead_is_refused_with_the_reason_and_the_others_run(
    tmp_path: Path,
) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            dead = piece("dead", "scout", allowed_tool_groups=["workspace_reading", "web_read"])
            return "Done." if replies else team(dead, piece("well"))
        return "Seen."

    world = World(tmp_path, play)
    await world.run()
    (child,) = world.record.subagent_history
    assert child.prompt == "well"
    dead, well = told(world)["agents"]
    assert (dead["status"], well["status"]) == ("failed", "completed")
    assert "'workspace_reading'; did you mean 'workspace_read'?" in dead["summary"]
    assert "scout has no tool of web_read here" in dead["summary"]


async def test_a_report_is_cut_for_the_parent_and_its_whole_can_be_fetched(tmp_path: Path) -> None:
    found = [{"title": f"finding {number}", "evidence": "ä" * 3_000 + str(number)} for number in range(30)]
    kept = [{"name": f"artifact {number}", "content": "b" * 5_000} for number in range(12)]
    handles: list[str] = []

    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go" and replies == 0:
            return team(piece("p", "scout"))
        if task == "go" and replies == 1:
            handles.append(told(world)["agents"][0]["whole"]["artifact"])
            return calls(call("read_artifact", id=handles[0], start=0, length=200_000))
        if task == "go":
            return "Done."
        return report(findings=found, artifacts=kept) if replies else calls(call("read_file", path="README.md"))

    world = World(tmp_path, play)
    outcome = await world.run()
    assert outcome.status is OrderStatus.SUCCEEDED, outcome.detail
    (agent,) = told(world)["agents"]
    assert len(agent["findings"]) == 20 and len(agent["artifacts"]) == 10
    assert all(len(finding["evidence"]) <= 2_000 for finding in agent["findings"])
    assert all(len(artifact["content"]) <= 4_000 for artifact in agent["artifacts"])
    (child,) = world.record.subagent_history
    assert len(child.result["findings"]) == 30
    fetched = next(step for step in world.results() if step.name == "read_artifact")
    assert "ä" * 2_500 in fetched.content


@pytest.mark.parametrize("role", ["scout", "review", "security_analyst"])
async def test_a_finding_in_one_of_several_files_that_were_read_at_once_is_accepted(role: str, tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else calls(call("subagent", agent_type=role, prompt="look"))
        if replies == 0:
            return calls(call("read_file", paths=["README.md", "src/a.py"]))
        return report(findings=[{"title": "A is one", "path": "./src/a.py", "line": 1, "evidence": "A = 1"}])

    world = World(tmp_path, play)
    await world.run()
    (child,) = world.record.subagent_history
    assert child.status is RecordStatus.COMPLETED and child.usage.model_calls == 2, child.error


async def test_blocked_without_having_tried_a_read_is_sent_back_each_time(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else team(piece("p", "scout"))
        blocked = report("I cannot see anything.", status="blocked")
        return calls(call("read_file", path="README.md")) if replies == 2 else blocked

    world = World(tmp_path, play)
    await world.run()
    (child,) = world.record.subagent_history
    checks = [step for step in child.steps if step.kind == "gate"]
    assert [check.ok for check in checks] == [False, False, True]
    assert child.status is RecordStatus.BLOCKED
    assert told(world)["agents"][0]["status"] == "blocked"


@pytest.mark.parametrize(
    ("limit", "named"), [("subagent_rounds=3", "rounds"), ("subagent_output_tokens=5", "output_tokens")]
)
async def test_every_limit_is_a_blocked_result_that_names_why(limit: str, named: str, tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else team(piece("p", "scout"))
        return Line(text=f"Round {replies}. " + "word " * 20, calls=(call("list_files", path=".", depth=replies + 1),))

    world = World(tmp_path, play)
    assert (await world.run("go", limit)).status is OrderStatus.SUCCEEDED
    (agent,) = told(world)["agents"]
    assert agent["status"] == "blocked" and named in agent["summary"]
    (child,) = world.record.subagent_history
    assert child.status is RecordStatus.LIMIT_REACHED


async def test_an_ending_by_the_provider_is_a_blocked_result_that_names_why(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else team(piece("p", "scout"), piece("q"))
        return ModelError("The provider refused (401).") if task == "p" else "Well."

    world = World(tmp_path, play)
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    refused, well = told(world)["agents"]
    assert (refused["status"], well["status"]) == ("blocked", "completed")
    assert refused["summary"].endswith("The provider refused (401). It had nothing to tell yet.")


async def test_events_tell_of_start_steps_calls_deltas_usage_cost_and_end(tmp_path: Path) -> None:
    spent = Usage(input_tokens=50, output_tokens=10, model_calls=1, cost_usd=0.25)

    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else team(piece("p", "scout"))
        if replies:
            return report()
        return Line(text="I look.", thinking="Where?", calls=(call("read_file", path="README.md"),), usage=spent)

    world = World(tmp_path, play)
    await world.run()
    (child,) = world.record.subagent_history
    kinds = [entry.kind for entry in world.entries if entry.record_id == child.id]
    expected = "agent.started agent.step model.started model.replied tool.started tool.finished model.started"
    assert " ".join(kinds).startswith(expected)
    assert kinds[-3:] == ["gate.checked", "tool.finished", "agent.finished"]
    heard = [(kind, text) for record_id, kind, text in world.deltas if record_id == child.id]
    assert "".join(text for kind, text in heard if kind == "model.delta") == "I look."
    assert "".join(text for kind, text in heard if kind == "thinking.delta") == "Where?"
    first, second = (step for step in child.steps if step.kind == "model")
    assert first.usage == spent and second.usage.model_calls == 1
    assert first.first_token_ms is not None and (first.text, first.thinking) == ("I look.", "Where?")
    assert child.usage.cost_usd == world.record.usage_total.cost_usd == 0.25


def needs_git(ask: Ask) -> None:
    if "git_status" not in {tool.name for tool in ask.tools}:
        pytest.skip("there is no sandbox on this machine, so there are no git tools")


async def test_git_works_at_once_because_the_runtime_has_looked_at_the_environment(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        needs_git(ask)
        return "Done." if replies else calls(call("git_status"))

    world = World(tmp_path, play)
    Scene(world.workspace)
    await world.run()
    (status,) = world.results()
    assert not status.is_error and "README.md" in status.content, status.content


async def test_git_is_refused_where_the_look_at_the_environment_failed_until_it_succeeds(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        needs_git(ask)
        lines = [calls(call("git_status")), calls(call("environment_detect")), calls(call("git_status"))]
        return lines[replies] if replies < 3 else "Done."

    world = World(tmp_path, play, toolbox=Blind.found())
    Scene(world.workspace)
    await world.run()
    first, detected, again = world.results()
    assert first.is_error and "environment_detect" in first.content and "README.md" not in first.content
    assert not detected.is_error
    assert not again.is_error and "README.md" in again.content, again.content


async def test_skills_are_read_on_demand_and_the_master_is_told_when_to_delegate(tmp_path: Path) -> None:
    systems: list[str] = []

    def play(task: str, replies: int, ask: Ask) -> Said:
        systems.append(ask.system)
        lines = [calls(call("skills_list")), calls(WantedCall("skills_read", {"name": "reviewing-a-change"}))]
        return lines[replies] if replies < 2 else "Done."

    world = World(tmp_path, play)
    await world.run()
    listed, read = world.results()
    assert "reviewing-a-change" in listed.content and not read.is_error and len(unfenced(read.content)) > 500
    assert "# How to delegate" in systems[0]


async def test_a_key_in_a_file_never_reaches_model_or_record(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        return "Done." if replies else calls(call("read_file", path="config"))

    world = World(tmp_path, play, files={"config": "key = sk-harbour-123456\n"}, keys={"HARBOUR": "sk-harbour-123456"})
    await world.run()
    assert "[redacted]" in world.results()[0].content
    assert not any("sk-harbour" in entry.model_dump_json() for entry in world.entries)
