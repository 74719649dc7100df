"""`mcc agents check`: reports mistakes in agent files, without a service."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from mcc.cli.agent_files import checked, offers_here, sentences_of
from mcc.cli.main import app
from mcc.contracts.answers import Offer
from tests.mcc.cli.in_process import CliRunner


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCC_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("MCC_PROMPTS_DIR", raising=False)
    monkeypatch.chdir(tmp_path)


def check(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["agents", "check", *map(str, arguments)])


def write(path: Path, name: str, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("---", f"name: {name}", *lines, "description: Is so.", "---", f"Be {name}.")))
    return path


def test_the_shipped_agents_have_nothing_wrong_with_them() -> None:
    done = check()
    assert (done.exit_code, done.stdout) == (0, "7 agent files: all is well\n")


def test_an_error_has_file_line_and_suggestion_and_exit_code_1(tmp_path: Path) -> None:
    path = write(tmp_path / "prompts" / "subagent" / "odd" / "system.md", "odd", "result: reprt")
    done = check(tmp_path / "prompts")
    assert done.exit_code == 1
    assert f"error: {path}, line 3: result 'reprt' is not shipped; did you mean 'report'?" in done.stdout
    assert "1 agent file: 1 error, 0 warnings\n" in done.stdout


OWN = Offer(name="count_words", group="workspace_read", drones=("d1",))
SERVERS = Offer(name="weather__forecast", group="mcp", server="weather", drones=("d1",))


def test_without_a_service_a_tool_that_is_not_shipped_is_a_warning_and_the_agent_is_checked(tmp_path: Path) -> None:
    lines = ("tools: [count_words, weather__*, read_fle]", "limits: {rounds: 0}")
    done = check(write(tmp_path / ".mcc" / "agents" / "odd.md", "odd", *lines))
    for name in ("count_words'", "weather__*'", "read_fle'; did you mean 'read_file'?"):
        assert f"line 3: no drone was asked whether it has the tool '{name}\n" in done.stdout
    assert "1 error, 3 warnings" in done.stdout and "limits.rounds" in done.stdout and done.exit_code == 1


def test_drones_that_were_asked_decide_what_tools_there_are(tmp_path: Path) -> None:
    path = write(tmp_path / ".mcc" / "agents" / "odd.md", "odd", "tools: [count_words, weather__*, read_file, mcp]")
    known = checked(path, None, tools=[OWN, SERVERS])
    assert (known.errors, known.warnings) == ((), ()) and len(known.agents) == 1
    others = checked(path, None, tools=[SERVERS])
    assert [(one.tool, one.line) for one in others.errors] == [("count_words", 3)] and not others.agents
    away = checked(path, None, tools=[OWN])
    assert not away.errors and [one.sentence for one in away.warnings] == ["no live drone has the tool 'weather__*'"]


def test_an_agent_of_the_workspace_is_offered_with_the_tools_of_the_drones(tmp_path: Path) -> None:
    write(tmp_path / ".mcc" / "agents" / "odd.md", "odd", "tools: [count_words, weather__*, read_file]")
    [odd] = offers_here(None, [OWN, SERVERS])
    assert odd.agent is not None and set(odd.agent.tools or ()) == {"count_words", "weather__forecast", "read_file"}


def test_machines_get_the_same_as_json(tmp_path: Path) -> None:
    write(tmp_path / ".mcc" / "agents" / "odd.md", "odd", "tols: []", "tools: [set_metadata]")
    done = check("--json", tmp_path)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert [(one["level"], one["line"]) for one in told["items"]] == [("warning", 3), ("warning", None)]
    assert "'tools'" in told["items"][0]["message"] and "set_metadata" in told["items"][1]["message"]


def test_an_unknown_spawn_is_told_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path / "p" / "subagent" / "odd" / "system.md", "odd", "spawns: [exlpore]")
    assert "line 3: spawns names 'exlpore', and there is no such agent; did you mean 'explore'?" in (
        check(tmp_path / "p").stdout
    )


def test_one_file_is_checked_where_it_belongs_and_its_neighbours_are_left_alone(tmp_path: Path) -> None:
    good = write(tmp_path / ".mcc" / "agents" / "good.md", "good")
    bad = write(tmp_path / ".mcc" / "agents" / "bad.md", "worse")
    assert (check(good).exit_code, check(bad).exit_code) == (0, 1)
    assert "'bad' belongs" in check(bad).stdout
    loose = write(tmp_path / "loose.md", "loose", "rules: [{cel: 'true'}]")
    assert check(loose).exit_code == 0


def test_a_workspace_is_held_to_the_operators_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "p" / "master" / "system.md", "master", "tools: []")
    monkeypatch.setenv("MCC_PROMPTS_DIR", str(tmp_path / "p"))
    path = write(tmp_path / "ws" / ".mcc" / "agents" / "odd.md", "odd", "tools: [read_file]")
    assert "tools beyond what the operator allows are left out: read_file" in check(path).stdout


def test_a_link_in_a_workspace_is_an_error(tmp_path: Path) -> None:
    target = write(tmp_path / "elsewhere.md", "odd")
    link = tmp_path / ".mcc" / "agents" / "odd.md"
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    assert "link" in check(tmp_path).stdout and check(tmp_path).exit_code == 1


def test_what_is_not_there_is_a_mistake_of_the_caller_and_an_empty_directory_an_error(tmp_path: Path) -> None:
    assert check(tmp_path / "nowhere").exit_code == 2
    (tmp_path / "empty").mkdir()
    done = check(tmp_path / "empty")
    assert (done.exit_code, "no agent file" in done.stdout) == (1, True)


def test_malformed_cel_and_schemas_are_refused_where_they_stand(tmp_path: Path) -> None:
    path = write(tmp_path / "odd.md", "odd", "result: {type: strnig}")
    rule = write(tmp_path / "rule.md", "rule", "rules:", "  - cel: result. ==")
    assert check(path).exit_code == 1 and check(rule).exit_code == 1
    assert f"{rule}, line 4" in check(rule).stdout


def test_everything_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path / ".mcc/agents/odd.md", "odd", "tools: [Read, Bash, 7]", "thinking: hard", "limits: {rounds: 0}"
    )
    done = check(path)
    assert done.exit_code == 1
    for told in (
        "line 3: there is no tool or group 'Read'; here that is read_file",
        "line 3: there is no tool or group 'Bash'; here that is run_shell",
        "line 4: thinking must be",
        "line 5: limits.rounds must be",
    ):
        assert told in done.stdout, done.stdout


def test_a_missing_description_and_a_model_of_nobody_are_warnings(tmp_path: Path) -> None:
    path = tmp_path / "p/subagent/odd/system.md"
    path.parent.mkdir(parents=True)
    path.write_text("---\nname: odd\nmodel: sonnet\n---\nBe odd.")
    done = check(tmp_path / "p")
    assert done.exit_code == 0
    assert "there is no description" in done.stdout and "model 'sonnet' is none of yours" in done.stdout
    path.write_text("---\nname: odd\ndescription: x\nmodel: anthropic/claude\n---\nBe odd.")
    assert "all is well" in check(tmp_path / "p").stdout


def test_the_users_own_agents_are_checked_too_and_folders_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config/mcc/agents"
    write(own / "odd.md", "odd", "tools: [Read]")
    write(own / "deep/other.md", "other")
    done = check()
    assert done.exit_code == 1
    assert "here that is read_file" in done.stdout and "warning: " in done.stdout
    assert "folders is not read: deep/" in done.stdout and "1 error, 1 warning" in done.stdout
    assert "here that is read_file" in check(own / "odd.md").stdout


def test_a_list_of_all_that_there_is_stands_with_the_first_finding_only(tmp_path: Path) -> None:
    drones = [Offer(name="read_file", group="workspace_read", drones=("d1",))]
    for name in ("odd", "queer"):
        write(tmp_path / ".mcc" / "agents" / f"{name}.md", name, "tools: [xyzzyx, plughplugh]")
    found = checked(tmp_path, None, tools=drones)
    sentences = list(sentences_of(found))
    assert [sentence.partition("'")[2].partition("'")[0] for sentence in sentences] == ["xyzzyx", "plughplugh"] * 2
    assert [("; there is: coordination, " in sentence) for sentence in sentences] == [True, False, False, False]
    assert all("; there is: " in str(error) for error in found.errors)
