"""Skills and rules are found in their places, read on demand, and stay untrusted."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.turns.toolset import Output
from drone.definitions import shipped_prompts
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.tool import FunctionTools
from drone.tools.rules_and_skills import RULE_BYTES, SkillTools, rules_list, rules_read

Use = Callable[..., Coroutine[Any, Any, Output]]
SHIPPED = ("reading-an-unknown-repository", "reviewing-a-change", "writing-a-handover")


def tools(workspace: Path | None, *directories: Path) -> FunctionTools:
    skills = SkillTools(directories)
    functions = (skills.skills_list, skills.skills_read, rules_list, rules_read)
    return FunctionTools(functions, workspace=Workspace(workspace) if workspace else None)


def skill(root: Path, name: str, text: str = "Do it well.", description: str = "How to do it.") -> None:
    place = root / name / "SKILL.md"
    place.parent.mkdir(parents=True)
    place.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{text}\n")


async def test_the_shipped_skills_can_be_listed_and_read(use: Use) -> None:
    shipped = tools(None, shipped_prompts() / "skills")
    listed = (await use(shipped, "skills_list")).content
    assert listed.startswith("3 skills; ")
    for name in SHIPPED:
        assert f"- {name}: " in listed
        text = (await use(shipped, "skills_read", name=name)).content
        assert text.startswith(f"Skill {name}: ") and "\n1. **" in text and "workspace: material" not in text


async def test_a_workspaces_skills_are_told_as_its_own_and_never_replace_an_installed_one(
    use: Use, tmp_path: Path
) -> None:
    skill(tmp_path / "installed", "testing", "the operator's")
    skill(tmp_path / "ws" / ".mcc" / "skills", "testing", "the workspace's")
    skill(tmp_path / "ws" / ".mcc" / "skills", "deploying", "\x1b[2Jpush \x07it")
    both = tools(tmp_path / "ws", tmp_path / "installed", tmp_path / "nowhere")
    listed = (await use(both, "skills_list")).content.splitlines()
    assert listed[1:] == ["- testing: How to do it.", "- deploying (of this workspace): How to do it."]
    assert (await use(both, "skills_read", name="testing")).content.endswith("the operator's")
    own = await use(both, "skills_read", name="deploying")
    assert own.content.endswith("push it") and own.untrusted


@pytest.mark.parametrize("name", ["reviewing-a-chnage", "Reviewing_a_change"])
async def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(use: Use, name: str) -> None:
    output = await use(tools(None, shipped_prompts() / "skills"), "skills_read", name=name)
    assert output.is_error and "did you mean 'reviewing-a-change'?" in output.content


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../b", "", "x\0y", "\ud800", "n" * 5_000, "."])
async def test_a_name_is_never_a_path(use: Use, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").mkdir()
    skill(tmp_path / "skills", "good")
    (tmp_path / "AGENTS.md").write_text("rules")
    both = tools(tmp_path, tmp_path / "skills")
    assert (await use(both, "skills_read", name=name)).is_error
    assert (await use(both, "rules_read", name=name)).is_error


async def test_a_broken_skill_is_listed_with_what_is_wrong(use: Use, tmp_path: Path) -> None:
    own = tmp_path / ".mcc" / "skills"
    for name, text in {
        "no-front": "Just text.",
        "no-description": "---\nname: no-description\n---\nx",
        "other": "---\nname: another\ndescription: d\n---\nx",
        "yaml": "---\nname: [\n---\nx",
        "bytes": "---\nname: bytes\ndescription: d\n---\n" + "x" * 300_000,
    }.items():
        (own / name).mkdir(parents=True)
        (own / name / "SKILL.md").write_text(text)
    (own / "empty").mkdir()
    listed = (await use(tools(tmp_path), "skills_list")).content
    assert listed.startswith("5 skills; ") and listed.count("is not a skill: ") == 5
    assert "does not" not in listed and "must name it as its directory does, other" in listed
    assert (await use(tools(tmp_path), "skills_read", name="yaml")).is_error


async def test_a_skill_behind_a_link_outside_is_not_read(use: Use, tmp_path: Path) -> None:
    skill(tmp_path / "outside", "secret", "the secret")
    (tmp_path / "ws" / ".mcc").mkdir(parents=True)
    (tmp_path / "ws" / ".mcc" / "skills").symlink_to(tmp_path / "outside")
    assert (await use(tools(tmp_path / "ws"), "skills_list")).content == "There are no skills here."
    (tmp_path / "ws2" / ".mcc" / "skills").mkdir(parents=True)
    (tmp_path / "ws2" / ".mcc" / "skills" / "secret").symlink_to(tmp_path / "outside" / "secret")
    assert "the secret" not in (await use(tools(tmp_path / "ws2"), "skills_read", name="secret")).content


async def test_rules_are_listed_with_their_headings_and_read_by_name(use: Use, tmp_path: Path) -> None:
    (tmp_path / ".mcc" / "rules").mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("\ufeff# Agents\n\nRun make check.\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    (tmp_path / ".mcc" / "rules" / "style.md").write_text("---\n# Style \x1b[31mred\n")
    (tmp_path / ".mcc" / "rules" / "notes.txt").write_text("no rules")
    own = tools(tmp_path)
    assert (await use(own, "rules_list")).content.splitlines()[1:] == [
        *("- AGENTS.md: Agents", "- CLAUDE.md: Agents", "- .mcc/rules/style.md: Style red"),
    ]
    text = (await use(own, "rules_read", name="AGENTS.md")).content
    assert text == "AGENTS.md\n\n# Agents\n\nRun make check.\n"
    near = await use(own, "rules_read", name="style.md")
    assert near.is_error and "Did you mean .mcc/rules/style.md?" in near.content


async def test_a_long_file_of_rules_is_cut_and_says_so(use: Use, tmp_path: Path) -> None:
    (tmp_path / "CONTRIBUTING.md").write_text("x" * (RULE_BYTES + 1))
    text = (await use(tools(tmp_path), "rules_read", name="CONTRIBUTING.md")).content
    assert text.endswith("read_file shows the rest.]") and len(text) < RULE_BYTES + 500


async def test_rules_that_are_links_outside_pipes_or_directories_are_not_there(use: Use, tmp_path: Path) -> None:
    (tmp_path / "outside.md").write_text("secret")
    ws = tmp_path / "ws"
    (ws / "CONTRIBUTING.md").mkdir(parents=True)
    (ws / "AGENTS.md").symlink_to(tmp_path / "outside.md")
    os.mkfifo(ws / "CLAUDE.md")
    assert (await use(tools(ws), "rules_list")).content.startswith("This workspace has no rules for agents")
    assert "secret" not in (await use(tools(ws), "rules_read", name="AGENTS.md")).content
