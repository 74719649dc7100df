"""A workspace's agent files: they are found, limited in size and number, and never read through a link."""

import os
from pathlib import Path

import pytest

from drone.sandbox.places.paths import Workspace
from drone.tools.rules_and_skills import agent_files
from mcc.definitions.front_matter import FILE_BYTES
from mcc.definitions.scopes import WORKSPACE_FILES


@pytest.fixture
def agents(tmp_path: Path) -> Path:
    directory = tmp_path / "ws" / ".mcc" / "agents"
    directory.mkdir(parents=True)
    return directory


def names(root: Path) -> dict[str, str]:
    return {file.name: file.problem for file in agent_files(Workspace(root))}


def test_markdown_files_are_found_by_name_and_others_left_alone(agents: Path) -> None:
    for name in ("b.md", "a.md", ".hidden.md", "notes.txt"):
        (agents / name).write_text("x")
    assert list(names(agents.parents[1])) == ["a", "b"]


def test_a_workspace_without_agents_has_none(tmp_path: Path) -> None:
    assert agent_files(Workspace(tmp_path)) == ()


def test_links_pipes_and_directories_are_told_and_not_read(agents: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (agents / "link.md").symlink_to(tmp_path / "secret.md")
    (agents / "folder.md").mkdir()
    os.mkfifo(agents / "pipe.md")
    found = agent_files(Workspace(agents.parents[1]))
    assert [file.name for file in found if file.problem] == ["folder", "link", "pipe"]
    assert not any(file.content for file in found)


def test_a_link_in_place_of_the_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "evil.md").write_text("x")
    (tmp_path / ".mcc").mkdir()
    (tmp_path / ".mcc" / "agents").symlink_to(tmp_path / "elsewhere")
    (problem,) = agent_files(Workspace(tmp_path))
    assert problem.problem and not problem.content


def test_no_more_is_read_than_may_be(agents: Path) -> None:
    for number in range(WORKSPACE_FILES + 1):
        (agents / f"a{number:03}.md").write_text("x")
    (agents / "a000.md").write_bytes(b"x" * (FILE_BYTES + 100))
    found = agent_files(Workspace(agents.parents[1]))
    assert len(found) == WORKSPACE_FILES + 1
    assert "left out" in found[-1].problem
    assert len(found[0].content) == FILE_BYTES + 1


def test_folders_are_told_and_not_read(tmp_path: Path) -> None:
    agents = tmp_path / ".mcc" / "agents"
    (agents / "deep").mkdir(parents=True)
    (agents / "deep" / "odd.md").write_text("x")
    (problem,) = agent_files(Workspace(tmp_path))
    assert problem.name == "" and "folders is not read: deep/" in problem.problem
