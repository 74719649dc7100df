"""Workspaces made to keep a drone busy: what they cost is bounded, none of it with the drone's own hands."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest

from drone.agent.turns.toolset import Output
from drone.definitions import Definitions
from drone.sandbox.places.paths import Workspace
from drone.tools.environment import detection_tool
from drone.tools.files.ignore import Ignored, IgnoreReader, ignore_matcher
from drone.tools.files.listing import find_files, list_files
from drone.tools.files.search import search_tool
from drone.tools.files.walk import Walk
from drone.tools.frame.tool import ToolContext
from drone.tools.rules_and_skills import EACH_SECONDS, SECONDS, AgentReader, SkillTools, agent_files
from mcc.contracts.entry import Origin
from mcc.definitions.front_matter import FILE_BYTES
from mcc.side_process import SideProcess

OWN_SECONDS = 1.5
"""Processor time that this process may spend on a workspace of these tests."""


def context(root: Path) -> ToolContext:
    return ToolContext("call", Origin(record_id="r", agent="master"), Workspace(root))


def within_own_time(work: Callable[[], str]) -> str:
    begun = time.process_time()
    result = work()
    assert time.process_time() - begun < OWN_SECONDS
    return result


@pytest.fixture
def stars(tmp_path: Path) -> Path:
    """Rules full of stars beside long names that nearly fit them."""
    rules = [f"{'**/' * 30}{'a*' * 30}{number}" for number in range(1_200)]
    (tmp_path / ".gitignore").write_text("\n".join(rules))
    for number in range(600):
        (tmp_path / f"{'a' * 200}{number}b").touch()
    return tmp_path


@pytest.mark.parametrize("tool", ["list_files", "find_files", "search_text", "environment_detect"])
def test_ignore_files_full_of_stars_are_dropped_aloud(stars: Path, tool: str) -> None:
    calls: dict[str, Callable[[], str]] = {
        "list_files": lambda: list_files(context(stars)),
        "find_files": lambda: find_files(context(stars), "*b"),
        "search_text": lambda: search_tool(None)(context(stars), "x"),
        "environment_detect": lambda: detection_tool(None)(context(stars)),
    }
    told = within_own_time(calls[tool])
    assert ".gitignore applies to nothing from here on: reading it took too long" in told
    assert "600" in told or "601" in told


def test_few_rules_that_nearly_fit_long_names_are_read_aside_as_well(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("\n".join(f"**/*{'a' * (40 + one)}*{chr(98 + one % 20)}" for one in range(64)))
    for number in range(300):
        (tmp_path / f"{'a' * 235}{number}").touch()
    told = within_own_time(lambda: detection_tool(None)(context(tmp_path)))
    assert 'files": 301' in told and ".gitignore applies to nothing from here on: reading it took too long" in told


@pytest.mark.parametrize("rules", ["*a\n", "*a*b*c*d*e\n"], ids=["here", "aside"])
def test_rules_say_nothing_any_more_when_the_time_of_a_walk_is_over(rules: str) -> None:
    looks = iter([False, True])
    with closing(SideProcess(ignore_matcher)) as aside:
        held = IgnoreReader(aside, [], lambda: next(looks)).rules(".gitignore", rules.encode(), Ignored())
        assert held is not None
        ignored = [((b"abcde" if "e" in rules else b"a"), False)]
        assert held.verdicts(ignored) == [True]
        assert held.verdicts(ignored * 20) == [None] * 20


def test_an_ignore_file_in_every_directory_is_heeded_to_a_depth_and_no_further(tmp_path: Path) -> None:
    here = tmp_path
    for _ in range(70):
        here = here / "d"
        here.mkdir()
        (here / ".gitignore").write_text("x\n")
    walk = Walk(Workspace(tmp_path))
    assert len(list(walk.entries())) == 140
    assert len(walk.notes) == 6 and all(
        "was not applied: 64 ignore files above it already are" in one for one in walk.notes
    )


def test_a_walk_ends_when_its_time_is_over_and_says_so(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"d{number}" / "e").mkdir(parents=True)
    walk = Walk(Workspace(tmp_path), seconds=0.0)
    assert len(list(walk.entries())) < 50
    assert walk.notes == ["Stopped after 0 s; name a smaller part of the workspace."]


def test_manifests_that_take_long_are_told_and_the_others_read(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "Dockerfile").write_text("CMD" + " " * 200_000 + "\n")
    (tmp_path / "b" / "pyproject.toml").write_text("a." * 100_000 + "a = 1\n")
    (tmp_path / "c" / "pyproject.toml").write_text(f"[project.scripts]\nmine = 'm:n'\nx = '{'y' * 5_000}'\n")
    found = json.loads(within_own_time(lambda: detection_tool(None)(context(tmp_path))))
    assert [start["name"] for start in found["entry_points"]] == ["mine", "x"]
    (note,) = found["notes"]
    assert note.startswith("b/pyproject.toml could not be read: reading it took too long")


def test_a_hundred_manifests_of_a_megabyte_are_not_read(tmp_path: Path) -> None:
    for number in range(101):
        (tmp_path / f"{number:03}").mkdir()
        (tmp_path / f"{number:03}" / "Dockerfile").write_bytes(b" " * 1_000_000)
    found = json.loads(within_own_time(lambda: detection_tool(None)(context(tmp_path))))
    assert len(found["notes"]) == 100 and all("longer than 256,000 bytes" in note for note in found["notes"])


def agents(tmp_path: Path, files: dict[str, str]) -> Definitions:
    directory = tmp_path / ".mcc" / "agents"
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / f"{name}.md").write_text(text)
    begun = time.process_time()
    # A processor that others use as well needs more of its time for the same file.
    with closing(AgentReader(Event(), seconds=20 * SECONDS, each_seconds=20 * EACH_SECONDS)) as read:
        found = Definitions.load().nearer(agent_files(Workspace(tmp_path)), read)
    assert time.process_time() - begun < OWN_SECONDS
    return found


def test_an_agent_file_of_200_kb_is_told_and_its_neighbours_are_read(tmp_path: Path) -> None:
    poison = "---\n" + " " * 200_000 + '"name": b: c\n---\nDo it.'
    found = agents(tmp_path, {"good": "---\nname: good\n---\nDo it.", "poison": poison})
    assert "good" in found.agents and "poison" not in found.agents
    assert any("poison.md" in one and "32 KB at most" in one for one in found.warnings)


def test_files_beyond_a_megabyte_in_all_are_left_out_and_told(tmp_path: Path) -> None:
    head = "---\nname: a{:03}\n---\n"
    files = {f"a{number:03}": head.format(number) + "x" * (FILE_BYTES - 100) for number in range(40)}
    found = agents(tmp_path, files)
    assert sum(name.startswith("a0") for name in found.agents) == 30
    assert any("40 agent files here, 30 are read" in one and "'a030.md'" in one for one in found.warnings)


def test_front_matter_that_is_slow_to_read_costs_another_process_its_time(tmp_path: Path) -> None:
    guidelines = "guidelines: [" + "a," * 14_000 + "]\n"
    files = {f"a{number:02}": f"---\nname: a{number:02}\n{guidelines}---\nDo it." for number in range(3)}
    found = agents(tmp_path, files)
    assert {f"a{number:02}" for number in range(3)} <= set(found.agents)


def test_what_takes_longer_than_all_may_is_left_out_and_told(tmp_path: Path) -> None:
    directory = tmp_path / ".mcc" / "agents"
    directory.mkdir(parents=True)
    for name in ("a", "b"):
        (directory / f"{name}.md").write_text(f"---\nname: {name}\nguidelines: [{'x,' * 3_000}]\n---\nDo it.")
    with closing(AgentReader(seconds=0.0)) as read:
        found = Definitions.load().nearer(agent_files(Workspace(tmp_path)), read)
    assert "b" not in found.agents
    assert any("b.md" in one and "reading the files before it took too long" in one for one in found.warnings)


def test_skills_with_much_front_matter_are_told_and_not_parsed(tmp_path: Path) -> None:
    for number in range(200):
        skill = tmp_path / ".mcc" / "skills" / f"s{number:03}"
        skill.mkdir(parents=True)
        size = 30_000 if number < 100 else 1_500
        front = f"name: s{number:03}\ndescription: d\nlist: [{'a,' * (size // 2)}]"
        (skill / "SKILL.md").write_text(f"---\n{front}\n---\nDo it.")
    told = within_own_time(lambda: _text(SkillTools(()).skills_list(context(tmp_path))))
    assert told.count("its front matter has more than 2,000 characters") == 100
    assert told.count("the front matter of all has more than 40,000 characters") == 74
    assert "- s100 (of this workspace): d" in told


def _text(result: Output | str) -> str:
    return result.content if isinstance(result, Output) else result
