"""Section E: a runner port for programs that embed the runtime."""

import asyncio
from pathlib import Path

import pytest

import drone
from drone.agent.ports.model import Ask, ModelError
from drone.models.scripted import Said, ScriptedModel, call
from mcc.configuration.trust import trust_agents
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.definitions.rights import expanded
from mcc.transcript.messages import UserMessage
from tests.parity.world import OneModel, World, calls, piece, team


class Stage:
    """A runner over a workspace, and what its models were asked."""

    def __init__(self, folder: Path, lines: list[Said]) -> None:
        (folder / "inside").mkdir()
        (folder / "inside" / "note.txt").write_text("a note\n")
        (folder / "top.txt").write_text("top\n")
        self.model, self.other = ScriptedModel(lines), ScriptedModel(lines, name="other/model")
        self.runner: drone.SubagentRunner = drone.InProcessRunner(
            models={"first": self.model, "other": self.other}, workspace=folder, limits=drone.Limits(depth=2)
        )


async def test_run_isolated_answers_text_tokens_turns_model_and_error(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [calls(call("list_files", path=".")), "Two files."])
    result = await stage.runner.run_isolated("explore", "What is here?", None, None, None, None, 0)
    assert (result.text, result.turns, result.error) == ("Two files.", 2, None)
    assert result.usage.total_tokens > 0 and result.usage.model_calls == 2 and result.model == "scripted/model"


async def test_every_argument_is_honoured(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [calls(call("read_file", path="note.txt"), call("list_files", path=".")), "Read."])
    result = await stage.runner.run_isolated(
        "explore", "Read it.", "You are someone else.", "other", ["read_file"], "inside", 1
    )
    assert result.text == "Read." and result.error is None
    assert result.model == "other/model" and stage.model.asks == []
    assert result.record is not None and result.record.depth == 2
    first, second = stage.other.asks
    assert first.system.startswith("You are someone else.")
    assert [tool.name for tool in first.tools] == ["read_file"]
    read, listed = second.messages[-1].results  # type: ignore[union-attr]
    assert "a note" in read.content and listed.is_error


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("explore", "x", None, None, None, None, 3), "depth"),
        (("explore", "x", None, None, None, "../..", 0), "workspace"),
        (("explorer", "x", None, None, None, None, 0), "explore"),
        (("explore", "x", None, "unknown", None, None, 0), "unknown"),
    ],
)
async def test_what_cannot_be_honoured_is_an_error_in_the_result(
    arguments: tuple[object, ...], word: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, [])
    result = await stage.runner.run_isolated(*arguments)  # type: ignore[arg-type]
    assert result.error is not None and word in result.error and stage.model.asks == []


async def test_an_empty_list_of_tools_is_none_and_no_list_is_the_definitions_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["None.", "Its own."])
    await stage.runner.run_isolated("explore", "x", None, None, [], None, 0)
    await stage.runner.run_isolated("explore", "x", None, None, None, None, 0)
    none, own = ({tool.name for tool in ask.tools} for ask in stage.model.asks)
    assert none == set()
    assert {"read_file", "search_text"} <= own <= expanded(["environment_read", "workspace_read"])


async def test_a_chain_hands_each_text_to_the_next_as_previous(tmp_path: Path) -> None:
    stage = Stage(tmp_path, ["Four bees.", "Four bees and a wasp.", "All counted."])
    tasks = ("Count the bees.", "Add the wasps to {previous}", "Check: {previous}")
    assert isinstance(stage.runner, drone.InProcessRunner)
    results = await stage.runner.run_chain([("explore", task) for task in tasks])
    assert [result.text for result in results] == ["Four bees.", "Four bees and a wasp.", "All counted."]
    first, second, third = (str(ask.messages) for ask in stage.model.asks)
    assert "Four bees" not in first and "Four bees." in second
    assert "Four bees and a wasp." in third and "Four bees." not in third


async def test_a_chain_of_one_call_hands_each_report_to_the_next_as_previous(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task != "go":
            return f"<{task}>"
        agents = [{**piece("a"), "task": "first"}, {**piece("b"), "task": "second after {previous}"}]
        return "Done." if replies else team(*agents, mode="chain")

    world = World(tmp_path, play)
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    first, second = world.record.subagent_history
    assert first.answer == "<first>" and "<first>" in second.prompt and second.prompt.startswith("second after")


async def test_definitions_are_markdown_in_scopes_and_the_nearest_wins_without_widening(tmp_path: Path) -> None:
    own = (
        "---\nname: explore\ndescription: Ours.\ntools: [workspace_read, rules_skills_read]\nresult: text\n---\n"
        "You know this house."
    )
    files = {".mcc/agents/explore.md": own, "README.md": "# House\n"}

    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else calls(call("subagent", agent_type="explore", prompt="look"))
        assert ask.system.startswith("You know this house.")
        return "Seen."

    world = World(tmp_path, play, files=files)
    trust_agents(world.trust, world.workspace.resolve(), {".mcc/agents/explore.md": own.encode()})
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    (child,) = world.record.subagent_history
    assert child.status is RecordStatus.COMPLETED and "read_file" in child.tools
    assert "skills_read" in world.record.tools and "skills_read" not in child.tools
    assert any("skills_read" in warning for warning in world.notes("definition_warning"))


async def test_a_file_of_the_workspace_gets_no_more_spawns_and_rounds_than_the_operators(tmp_path: Path) -> None:
    theirs = (
        "---\nname: explore\ndescription: Theirs.\ntools: [workspace_read]\nlimits: {rounds: 2}\nresult: text\n---\n"
        "You write down what there is."
    )
    ours = theirs.replace("rounds: 2", "rounds: 9").replace("result: text", "result: text\nspawns: [review]")

    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "go":
            return "Done." if replies else calls(call("subagent", agent_type="explore", prompt="look"))
        return calls(call("list_files", path=".", depth=replies + 1))

    files = {".mcc/agents/explore.md": ours, "README.md": "# House\n"}
    world = World(tmp_path, play, files=files, agents={"explore": theirs})
    trust_agents(world.trust, world.workspace.resolve(), {".mcc/agents/explore.md": ours.encode()})
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    (child,) = world.record.subagent_history
    assert "list_files" in child.tools and not {"subagent", "subagents_run"} & set(child.tools)
    assert (child.status, child.usage.model_calls) == (RecordStatus.LIMIT_REACHED, 3), "two rounds and the last reply"
    warnings = " ".join(world.notes("definition_warning"))
    assert "review" in warnings and "limits.rounds 9 is lowered to the operator's 2" in warnings


async def test_an_earlier_childs_answer_can_be_gone_on_from(tmp_path: Path) -> None:
    def play(task: str, replies: int, ask: Ask) -> Said:
        if task == "look":
            return "One." if replies == 0 else "Two, after one."
        if replies == 0:
            return calls(call("subagent", agent_type="explore", prompt="look"))
        (child, *_) = world.record.subagent_history
        return calls(call("subagent_send", record_id=child.id, message="go on")) if replies == 1 else "Done."

    world = World(tmp_path, play)
    assert (await world.run()).status is OrderStatus.SUCCEEDED
    assert [child.answer for child in world.record.subagent_history] == ["One.", "Two, after one."]


@pytest.mark.parametrize(("asked", "width"), [({}, 4), ({"at_once": 2}, 2)])
async def test_several_at_once_and_one_failure_never_drops_the_others(
    asked: dict[str, int], width: int, tmp_path: Path
) -> None:
    """Each agent works for several rounds, and none ends before as many work at once as may: without a bound all do."""
    at_work, most, full = set[str](), 0, asyncio.Event()

    async def say(ask: Ask) -> Said:
        nonlocal most
        (asked, *said) = ask.messages
        assert isinstance(asked, UserMessage)
        at_work.add(asked.text)
        most = max(most, len(at_work))
        if len(at_work) == width:
            full.set()
        await full.wait()
        if len(said) < 6:
            return calls(call("list_files", path=".", depth=len(said) + 1))
        at_work.discard(asked.text)
        return ModelError("It is down.") if asked.text == "task 3" else f"did {asked.text}"

    runner = drone.InProcessRunner(models=OneModel(ScriptedModel(say)), workspace=tmp_path)
    results = await runner.run_parallel([("explore", f"task {number}") for number in range(8)], **asked)
    assert most == width
    assert [result.error is None for result in results] == [True] * 3 + [False] + [True] * 4
    assert results[7].text == "did task 7"
