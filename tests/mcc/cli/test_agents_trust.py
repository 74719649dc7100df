"""`mcc agents trust`: the operator trusts agent files of a workspace, without a service."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.main import app
from tests.mcc.cli.in_process import CliRunner

MASTER = "---\nname: master\ndescription: Mine.\nmodel: fast\n---\nBe mine.\n"
CLERK = "---\nname: clerk\ndescription: A clerk.\n---\nBe a clerk.\n"

Mcc = Callable[..., Result]


@pytest.fixture
def mcc(tmp_path: Path) -> Mcc:
    environ = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "MCC_DATA_DIR": str(tmp_path / "data"),
        "MCC_PROMPTS_DIR": "",
    }

    def run(*words: object) -> Result:
        return CliRunner().invoke(app, ["agents", *map(str, words)], env=environ)

    return run


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    agents = tmp_path / "work" / ".mcc" / "agents"
    agents.mkdir(parents=True)
    (agents / "master.md").write_text(MASTER)
    (agents / "clerk.md").write_text(CLERK)
    own = tmp_path / "config" / "mcc"
    own.mkdir(parents=True)
    (own / "mcc.toml").write_text('[models.fast]\nprovider = "openai"\n')
    return tmp_path / "work"


def test_what_was_not_agreed_to_is_a_warning_of_the_check_until_it_was(mcc: Mcc, workspace: Path) -> None:
    before = mcc("check", workspace)
    assert before.exit_code == 0 and "warning: " in before.stdout and "mcc agents trust" in before.stdout
    assert mcc("trust", workspace).exit_code == 0
    assert mcc("check", workspace).stdout == "2 agent files: all is well\n"


def test_it_says_what_each_file_may_do_from_now_on(mcc: Mcc, workspace: Path) -> None:
    (workspace / ".mcc" / "agents" / "odd.md").write_text("---\nname: odd\ntols: [\n---\nx")
    done = mcc("trust", workspace)
    assert ".mcc/agents/master.md is trusted as it is now: it replaces the agent 'master'" in done.stderr
    assert "chooses the model 'fast'" in done.stderr
    assert ".mcc/agents/clerk.md is trusted as it is now: it adds the agent 'clerk'." in done.stderr
    assert "not trusted: " in done.stderr and "odd.md" in done.stderr
    told = json.loads(mcc("trust", workspace, "--json").stdout)
    assert [item["path"] for item in told["items"]] == [".mcc/agents/clerk.md", ".mcc/agents/master.md"]


def test_what_is_trusted_is_listed_with_what_changed_since_and_can_be_taken_back(mcc: Mcc, workspace: Path) -> None:
    assert mcc("trust").stdout == "No agent file is trusted.\n"
    mcc("trust", workspace)
    (workspace / ".mcc" / "agents" / "master.md").write_text(MASTER + "More.\n")
    items = json.loads(mcc("trust", "--json").stdout)["items"]
    assert [(Path(item["path"]).name, item["state"]) for item in items] == [
        ("clerk.md", "trusted"),
        ("master.md", "changed since: not trusted"),
    ]
    assert "2 agent files" in mcc("trust", workspace, "--revoke").stderr
    assert mcc("trust").stdout == "No agent file is trusted.\n"


def test_a_directory_without_agent_files_is_refused(mcc: Mcc, tmp_path: Path) -> None:
    done = mcc("trust", tmp_path)
    assert done.exit_code == 2 and "nothing to trust" in done.stderr


def test_a_trust_file_that_others_can_write_is_not_believed(mcc: Mcc, workspace: Path, tmp_path: Path) -> None:
    mcc("trust", workspace)
    (tmp_path / "config" / "mcc" / "trust.json").chmod(0o666)
    assert "chmod go-w" in mcc("trust").stderr and "warning: " in mcc("check", workspace).stdout
    assert "chmod go-w" in mcc("check", workspace).stdout
