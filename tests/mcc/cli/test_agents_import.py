"""`mcc agents import` writes converted agents, and never over existing files; `check` reports the same beforehand."""

import json
import os
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from tests.mcc.cli.in_process import CliRunner

REVIEWER = "---\nname: reviewer\ndescription: Reviews.\ntools: Read, Bash\nmodel: sonnet\n---\nYou review.\n"
BROKEN = "---\nname: broken\ntools: 7\nmaxTurns: x\n---\nGo.\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MCC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config/mcc"
    own.mkdir(parents=True)
    (own / "mcc.toml").write_text('[models.smart]\nprovider = "anthropic"\nmodel = "claude-sonnet-5-5"\n')
    theirs = tmp_path / "work/.claude/agents"
    theirs.mkdir(parents=True)
    (theirs / "reviewer.md").write_text(REVIEWER)
    return tmp_path / "work"


def mcc(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["agents", *arguments])


def test_what_is_imported_lies_in_its_workspace_and_passes_the_check(here: Path) -> None:
    done = mcc("import", str(here))
    assert done.exit_code == 0
    ours = here / ".mcc/agents/reviewer.md"
    assert "model: smart" in ours.read_text() and "tools: [read_file, run_shell]" in ours.read_text()
    assert f"→ {ours}" in done.stdout and "kept     line 4: tools: Bash" in done.stdout
    assert mcc("check", str(ours)).exit_code == 0
    again = mcc("import", str(here / ".claude"))
    assert again.exit_code == 1 and "--force" in again.stdout
    assert mcc("import", str(here / ".claude/agents/reviewer.md"), "--force").exit_code == 0


def test_into_prompts_it_becomes_a_subagent(here: Path) -> None:
    (here / "prompts/subagent").mkdir(parents=True)
    assert mcc("import", str(here), "--to", str(here / "prompts")).exit_code == 0
    assert (here / "prompts/subagent/reviewer/system.md").is_file()
    assert mcc("check", str(here / "prompts")).exit_code == 0


def test_a_file_with_problems_is_not_written_and_the_others_are(here: Path) -> None:
    (here / ".claude/agents/broken.md").write_text(BROKEN)
    done = mcc("import", str(here), "--json")
    broken, reviewer = json.loads(done.stdout)["items"]
    assert done.exit_code == 1
    assert (broken["written"], reviewer["agent"], reviewer["format"]) == (None, "reviewer", "claude")
    assert [line["line"] for line in broken["lines"] if line["verdict"] == "error"] == [3, 4]
    assert not (here / ".mcc/agents/broken.md").exists() and (here / ".mcc/agents/reviewer.md").exists()


def test_check_says_what_an_import_would_say_and_writes_nothing(here: Path) -> None:
    done = mcc("check", str(here / ".claude/agents/reviewer.md"))
    assert done.exit_code == 0 and "line 5: changed: model" in done.stdout
    assert not (here / ".mcc").exists()
    (here / ".claude/agents/broken.md").write_text(BROKEN)
    assert mcc("check", str(here / ".claude")).exit_code == 1


def test_what_is_of_no_known_system_is_told_unless_it_is_named(here: Path) -> None:
    lone = here / "lone.md"
    lone.write_text(REVIEWER)
    refused = mcc("import", str(lone))
    assert refused.exit_code == 2 and ".gemini/agents" in refused.output
    assert mcc("import", str(lone), "--from", "claud").exit_code == 2
    assert mcc("import", str(lone), "--from", "claude", "--to", str(here / "out")).exit_code == 0
    assert (here / "out/reviewer.md").is_file()


def test_two_files_with_one_name_are_told_apart(here: Path) -> None:
    (here / ".claude/agents/deep").mkdir()
    (here / ".claude/agents/deep/other.md").write_text(REVIEWER)
    done = mcc("import", str(here))
    assert done.exit_code == 1 and "has an agent 'reviewer' too" in done.stdout


def test_a_link_is_not_followed(here: Path) -> None:
    (here / ".claude/agents/linked.md").symlink_to(here / ".claude/agents/reviewer.md")
    assert "symbolic link" in mcc("import", str(here)).stdout


def test_a_pipe_is_not_waited_for_and_the_other_files_are_read(here: Path) -> None:
    os.mkfifo(here / ".claude/agents/pipe.md")
    done = mcc("import", str(here))
    assert done.exit_code == 1 and "no ordinary file" in done.stdout
    assert (here / ".mcc/agents/reviewer.md").is_file()


@pytest.mark.parametrize("linked", [".mcc", ".mcc/agents"])
def test_a_link_in_the_workspace_does_not_lead_what_is_written_elsewhere(here: Path, linked: str) -> None:
    elsewhere = here.parent / "config/mcc/agents"
    elsewhere.mkdir()
    (here / linked).parent.mkdir(exist_ok=True)
    (here / linked).symlink_to(elsewhere)
    done = mcc("import", str(here))
    assert done.exit_code == 1 and "--to" in done.output
    assert list(elsewhere.rglob("*")) == []
    assert mcc("import", str(here), "--to", str(elsewhere)).exit_code == 0
