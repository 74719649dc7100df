"""A runner gives its agents what their definitions name, refuses by name what it cannot give, and never gives more."""

import shutil
from pathlib import Path
from typing import Any

import pytest

import drone
from drone.checkpoints.recording import OrderCheckpoints
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.sandbox.places.paths import Workspace
from mcc.contracts.agents import AgentDefinition
from mcc.definitions.rights import expanded

WRITER = AgentDefinition(name="writer", prompt="Write.", result="text", tools=("workspace_read", "workspace_write"))
READER = AgentDefinition(name="reader", prompt="Read.", result="text", tools=("read_file",))
ANYONE = AgentDefinition(name="anyone", prompt="Do.", result="text")


def use(name: str, **arguments: object) -> Line:
    return Line(calls=(call(name, **arguments),))


class Stage:
    """A runner of three agents over a workspace, with or without checkpoints."""

    def __init__(self, folder: Path, *lines: Said, checkpoints: bool = False) -> None:
        self.workspace, self.kept = folder / "workspace", folder / "kept"
        self.workspace.mkdir(exist_ok=True)
        (self.workspace / "a.txt").write_text("before\n")
        self.model = ScriptedModel(lines or ["Done."])
        self.runner = drone.InProcessRunner(
            {"m": self.model},
            definitions=[WRITER, READER, ANYONE],
            workspace=self.workspace,
            checkpoints=self.kept if checkpoints else None,
        )

    @property
    def tools(self) -> set[str]:
        return {spec.name for spec in self.model.asks[0].tools}


async def test_a_definition_gives_its_own_tools_and_a_call_can_only_leave_some_out(tmp_path: Path) -> None:
    own = Stage(tmp_path)
    await own.runner.run_isolated("reader", "go")
    assert own.tools == {"read_file"}
    fewer = Stage(tmp_path)
    assert (await fewer.runner.run_isolated("reader", "go", tools=["workspace_read"])).error is None
    assert fewer.tools == {"read_file"}
    more = Stage(tmp_path)
    refused = await more.runner.run_isolated("reader", "go", tools=["read_file", "search_text"])
    assert refused.error == (
        "reader may not have search_text: its definition names read_file, and tools=[…] can only be fewer."
    )
    assert more.model.asks == []


async def test_the_shipped_explorer_only_reads(tmp_path: Path) -> None:
    model = ScriptedModel(["Seen."])
    await drone.InProcessRunner({"m": model}, workspace=tmp_path).run_isolated("explore", "go")
    assert {spec.name for spec in model.asks[0].tools} <= expanded(["environment_read", "workspace_read"])


@pytest.mark.parametrize(
    ("agent", "tools", "word"),
    [
        ("writer", None, "workspace_write"),
        ("anyone", ["write_file"], "write_file"),
        ("anyone", ["workspace_write"], "workspace_write"),
        ("anyone", ["git_commit"], "git_commit"),
        ("anyone", ["shell_write"], "shell_write"),
    ],
)
async def test_without_checkpoints_what_writes_is_refused_by_name(
    agent: str, tools: list[str] | None, word: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path)
    result = await stage.runner.run_isolated(agent, "go", tools=tools)
    assert result.error is not None and f"changes files with {word}" in result.error
    assert "checkpoints=DIR" in result.error and stage.model.asks == []


async def test_without_checkpoints_nobody_gets_a_tool_that_changes_the_workspace(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.runner.run_isolated("anyone", "go")
    assert "read_file" in stage.tools
    assert stage.tools.isdisjoint(expanded(["workspace_write", "git_write"]))
    assert not any(spec.may_write for spec in stage.model.asks[0].tools)


async def test_with_checkpoints_a_file_is_changed_and_what_it_was_is_kept(tmp_path: Path) -> None:
    read, edit = use("read_file", path="a.txt"), use("edit_file", path="a.txt", old="before", new="after")
    stage = Stage(tmp_path, read, edit, "Done.", checkpoints=True)
    result = await stage.runner.run_isolated("writer", "go")
    assert result.error is None and (stage.workspace / "a.txt").read_text() == "after\n"
    assert result.record is not None
    kept = OrderCheckpoints(Workspace(stage.workspace), stage.kept, result.record.order_id)
    assert len(kept.known()) == 1


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize(("checkpoints", "written"), [(True, True), (False, False)])
async def test_commands_change_files_where_checkpoints_are_kept(
    checkpoints: bool, written: bool, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, use("run_shell", command="echo x > b.txt"), "Done.", checkpoints=checkpoints)
    await stage.runner.run_isolated("anyone", "go")
    assert (stage.workspace / "b.txt").exists() is written


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"checkpoints": "kept"}, "give workspace="),
        ({"checkpoints": "workspace/kept", "workspace": "workspace"}, "lies in the workspace"),
        ({"checkpoints": "workspace", "workspace": "workspace"}, "lies in the workspace"),
    ],
)
def test_checkpoints_lie_where_agents_cannot_reach_them(arguments: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    places = {name: tmp_path / place for name, place in arguments.items()}
    with pytest.raises(ValueError, match=words):
        drone.InProcessRunner({"m": ScriptedModel([])}, **places)


def own_agent(workspace: Path, name: str, *lines: str) -> None:
    folder = workspace / ".mcc" / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    front = "\n".join((f"name: {name}", "description: Ours.", "result: text", *lines))
    (folder / f"{name}.md").write_text(f"---\n{front}\n---\nYou know this house.\n")


async def test_the_agents_of_the_workspace_can_be_run_and_have_no_more_rights_than_the_master(tmp_path: Path) -> None:
    own_agent(tmp_path, "gardener", "tools: [workspace_read, web_read, run_shell]")
    model = ScriptedModel(["Seen."])
    runner = drone.InProcessRunner({"m": model}, workspace=tmp_path)
    result = await runner.run_isolated("gardener", "go")
    assert result.error is None and model.asks[0].system.startswith("You know this house.")
    assert {spec.name for spec in model.asks[0].tools} <= {*expanded(["workspace_read"]), "run_shell"}


async def test_a_file_of_the_workspace_does_not_take_the_place_of_a_given_agent_and_the_record_says_so(
    tmp_path: Path,
) -> None:
    own_agent(tmp_path, "explore")
    model = ScriptedModel(["Seen."])
    result = await drone.InProcessRunner({"m": model}, workspace=tmp_path).run_isolated("explore", "go")
    assert not model.asks[0].system.startswith("You know this house.")
    assert result.record is not None
    told = [step.message for step in result.record.steps if step.kind == "note" and step.name == "definition_warning"]
    assert len(told) == 1 and "explore" in told[0]


async def test_a_broken_file_of_the_workspace_is_named_where_its_agent_is_asked_for(tmp_path: Path) -> None:
    own_agent(tmp_path, "gardener", "tool: [workspace_read]", "tools: 7")
    result = await drone.InProcessRunner({"m": ScriptedModel([])}, workspace=tmp_path).run_isolated("gardener", "go")
    assert result.error is not None and "There is no agent 'gardener'" in result.error
    assert ".mcc/agents/gardener.md" in result.error


async def test_a_worktree_of_its_own_is_refused_by_name_to_an_agent_that_would_write_elsewhere(tmp_path: Path) -> None:
    stage = Stage(tmp_path, checkpoints=True)
    alone = AgentDefinition(name="alone", prompt="Write.", result="text", isolation="worktree")
    runner = drone.InProcessRunner(
        {"m": stage.model}, definitions=[alone], workspace=stage.workspace, checkpoints=stage.kept
    )
    refused = await runner.run_isolated("alone", "go")
    assert (refused.error or "").startswith("alone has isolation: worktree, which only orders know: leave it out")
    assert stage.model.asks == []
    assert (await runner.run_isolated("alone", "go", tools=["read_file"])).error is None


@pytest.mark.parametrize("tools", ["read_file", [1], [None, "read_file"]])
async def test_what_is_no_list_of_names_is_told_as_that(tmp_path: Path, tools: Any) -> None:
    refused = await Stage(tmp_path).runner.run_isolated("anyone", "go", tools=tools)
    assert (refused.error or "").startswith("tools= is a list of names of tools and groups")


async def test_what_is_wrong_with_a_file_is_said_in_sentences_that_end_once(tmp_path: Path) -> None:
    (tmp_path / ".mcc" / "agents" / "odd.md").mkdir(parents=True)
    result = await drone.InProcessRunner({"m": ScriptedModel([])}, workspace=tmp_path).run_isolated("odd", "go")
    assert "odd.md is a directory" in (result.error or "") and ".." not in (result.error or "")
