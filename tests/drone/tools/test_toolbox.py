"""Tools that a machine cannot run are registered with the reason and not shown to agents."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from drone.agent.turns.toolset import Output
from drone.tools.catalog import Toolbox
from drone.tools.environment import Detected
from drone.tools.git.program import Git
from drone.tools.shell.commands import Shell
from mcc.contracts.journal import Outcome
from mcc.definitions.rights import expanded

Use = Callable[..., Coroutine[Any, Any, Output]]


SHELL = {"run_shell", "shell_jobs"}
WEB = expanded(("web_read",))
"""Not there until an operator names hosts."""


def toolbox(git: Git, shell: Shell | None = None) -> Toolbox:
    return Toolbox(None, git, (), shell=shell or Shell.found(None))


async def test_without_a_sandbox_git_and_shell_are_registered_with_their_problem_and_not_offered(
    tmp_path: Path,
) -> None:
    off = toolbox(Git.found(None))
    problems = {one.name: one.problem for one in off.capabilities() if one.problem and one.name not in WEB}
    ours = {"git_status", "git_diff", "git_show", "git_log", "git_blame", "git_branches", "git_ls_files"}
    ours |= {"git_add", "git_commit"}
    assert set(problems) == ours | SHELL
    assert all("bubblewrap (bwrap) is not installed" in problem for problem in problems.values() if problem)
    said = await off.sandbox()
    assert said.kind == "off" and said.walls.seccomp.startswith("missing: bubblewrap (bwrap) is not installed")
    assert (ours | SHELL).isdisjoint(spec.name for spec in off.tools(tmp_path).specs())


async def test_the_git_tools_of_an_order_wait_for_its_detection(use: Use, tmp_path: Path) -> None:
    on = toolbox(Git(None), Shell(None))
    assert not any(one.problem for one in on.capabilities() if one.name not in WEB)
    tools = on.tools(tmp_path)
    for name, arguments in (("git_status", {}), ("run_shell", {"command": "true"}), ("shell_jobs", {})):
        refused = await use(tools, name, **arguments)
        assert refused.outcome is Outcome.DENIED and "environment_detect" in refused.content
    assert not (await use(tools, "environment_detect")).is_error
    assert "git tools are off" in (await use(tools, "git_status")).content
    assert "git tools are off" in (await use(on.tools(tmp_path, Detected(already=True)), "git_status")).content


async def test_orders_share_what_models_are_shown_of_a_tool_and_nothing_of_their_workspaces(
    use: Use, tmp_path: Path
) -> None:
    box, places = toolbox(Git(None)), (tmp_path / "one", tmp_path / "two")
    for place in places:
        place.mkdir()
        (place / "name").write_text(place.name)
    one, two = map(box.tools, places)
    assert all(mine is yours for mine, yours in zip(one.specs(), two.specs(), strict=True))
    assert (await use(one, "read_file", path="name")).content.endswith("\n1\tone\n")
    assert (await use(two, "read_file", path="name")).content.endswith("\n1\ttwo\n")


def test_skills_come_from_the_operator_first_and_then_from_the_installation(tmp_path: Path) -> None:
    found = Toolbox.found(tmp_path)
    assert found.skills[0] == tmp_path / "skills"
    assert (found.skills[1] / "reviewing-a-change" / "SKILL.md").is_file()
