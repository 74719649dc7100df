"""The agents of an installation are found, read and checked against each other."""

from pathlib import Path

import pytest

from drone.agent.spending.budget import Share
from drone.crew import Crew
from drone.definitions import Definitions, shipped_prompts
from drone.settings import Settings
from mcc.contracts.agents import definition_digest
from mcc.contracts.drones import Capability
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.tool_groups import TOOL_GROUPS
from mcc.definitions.front_matter import FILE_BYTES
from mcc.definitions.scopes import WORKSPACE_ANY


def write(root: Path, name: str, text: str | bytes) -> Path:
    path = root / ("master" if name == "master" else f"subagent/{name}") / "system.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def agent(name: str, *more: str) -> str:
    return "\n".join(("---", f"name: {name}", *more, "---", "Do what you are asked.", ""))


def test_the_shipped_agents_are_whole() -> None:
    shipped = Definitions.load()
    assert shipped.names() == ("explore", "general", "master", "review", "scout", "security_analyst", "verify")
    assert not shipped.problems
    master, review = shipped.get("master"), shipped.get("review")
    assert set(master.spawns) == {*shipped.names(), WORKSPACE_ANY} - {"master", "verify"}
    assert {"environment_read", "workspace_read", "delegation"} <= set(master.tools or ())
    assert set(review.tools or ()) == {"workspace_read", "git_diff", "tasks_read"}
    assert not any(shipped.get(name).spawns for name in shipped.names() if name != "master")
    texts = {name for name in shipped.names() if shipped.get(name).result == "text"}
    assert texts == {"master", "explore", "general"}
    assert all(len(shipped.get(name).prompt) > 900 and shipped.get(name).description for name in shipped.names())


def test_the_shipped_prompts_lie_beside_the_packages_of_a_checkout() -> None:
    assert (shipped_prompts() / "master" / "system.md").is_file()


def test_an_operators_agents_stand_beside_the_shipped_ones_and_before_those_of_the_same_name(tmp_path: Path) -> None:
    write(tmp_path, "master", agent("master", "spawns: [mapper, scout]"))
    write(tmp_path, "mapper", agent("mapper", "description: Looks ahead."))
    found = Definitions.load(tmp_path)
    assert set(found.names()) == {*Definitions.load().names(), "mapper"}
    assert found.get("master").spawns == ("mapper", "scout")
    origins = {one.name: one.agent.origin for one in found.capabilities() if one.agent}
    assert (origins["master"], origins["mapper"], origins["scout"]) == ("operator", "operator", "shipped")


def test_an_agent_is_registered_with_the_tools_that_its_file_comes_to_on_this_drone(tmp_path: Path) -> None:
    write(tmp_path, "mapper", agent("mapper", "tools: [workspace_read, run_shell]", "disallowed_tools: [list_files]"))
    there = {"list_files": "workspace_read", "read_file": "workspace_read", "git_diff": "diff_read"}
    tools = [Capability(name=name, group=group) for name, group in there.items()]
    found = Definitions.load(tmp_path).capabilities(tools)
    sheet = next(one.agent for one in found if one.name == "mapper")
    assert sheet is not None
    assert sheet.tools == ("read_file",)
    assert sheet.digest == definition_digest(sheet.definition)


@pytest.mark.parametrize(
    ("tools", "disallowed", "found"),
    [
        ("[mcp]", "[]", ("tracker__search", "tracker__create", "wiki__read")),
        ('["tracker__*"]', "[]", ("tracker__search", "tracker__create")),
        ("[mcp]", '["tracker__*", wiki__read]', ()),
        ("[workspace_read]", "[]", ("read_file",)),
        ("[shelves]", "[]", ("count",)),
    ],
)
def test_an_agent_is_registered_with_tools_of_servers_and_of_the_operators_own(
    tmp_path: Path, tools: str, disallowed: str, found: tuple[str, ...]
) -> None:
    write(tmp_path, "clerk", agent("clerk", f"tools: {tools}", f"disallowed_tools: {disallowed}"))
    groups = {"read_file": "workspace_read", "count": "shelves"}
    servers = dict.fromkeys(("tracker__search", "tracker__create", "wiki__read"), "mcp")
    there = [Capability(name=name, group=group) for name, group in {**groups, **servers}.items()]
    known = {**TOOL_GROUPS, "mcp": tuple(servers), "shelves": ("count",)}
    sheets = {one.name: one.agent for one in Definitions.load(tmp_path, groups=known).capabilities(there)}
    assert (sheet := sheets["clerk"]) is not None and sheet.tools == found


def test_a_broken_file_is_kept_with_its_problem_and_the_others_work(tmp_path: Path) -> None:
    path = write(tmp_path, "broken", agent("broken", "tool: [read_file]"))
    found = Definitions.load(tmp_path)
    assert found.names() == Definitions.load().names()
    problem = next(one.problem for one in found.capabilities() if one.name == "broken")
    assert problem is not None
    assert problem.startswith(f"{path}, line 3: ") and "did you mean 'tools'?" in problem
    with pytest.raises(LookupError, match="cannot be used"):
        found.get("broken")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (agent("other"), "names its agent 'other' but lies where 'odd' belongs"),
        (agent("odd", "spawns: [mastr]"), "did you mean 'master'?"),
        (b"---\nname: odd\n---\n\xff\xfe", "not UTF-8"),
        (b"x" * (FILE_BYTES + 1), "32 KB"),
    ],
)
def test_what_is_wrong_with_a_file_becomes_its_problem(tmp_path: Path, text: str | bytes, said: str) -> None:
    write(tmp_path, "master", agent("master"))
    write(tmp_path, "odd", text)
    assert said in Definitions.load(tmp_path).problems["odd"]


def test_a_directory_without_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "subagent" / "hollow").mkdir(parents=True)
    (tmp_path / "subagent" / ".hidden").mkdir()
    (tmp_path / "master").mkdir()
    found = Definitions.load(tmp_path)
    assert set(found.problems) == {"master", "hollow"}
    assert "no such file" in found.problems["master"]


def test_a_broken_file_of_the_operator_does_not_bring_the_shipped_agent_back(tmp_path: Path) -> None:
    write(tmp_path, "explore", agent("explore", "tols: []"))
    found = Definitions.load(tmp_path)
    assert "explore" not in found.names()
    with pytest.raises(LookupError, match="did you mean 'tools'"):
        found.get("explore")


def test_a_directory_that_does_not_exist_is_told_when_an_agent_is_asked_for(tmp_path: Path) -> None:
    found = Definitions.load(tmp_path / "nowhere")
    assert found.names() == ()
    with pytest.raises(LookupError, match="nowhere"):
        found.get("master")


def test_an_unknown_agent_is_told_with_the_nearest() -> None:
    with pytest.raises(LookupError, match=r"There is no agent 'exlore'; did you mean 'explore'\?"):
        Definitions.load().get("exlore")


def test_a_second_agent_of_the_same_name_makes_that_name_unusable(tmp_path: Path) -> None:
    write(tmp_path, "master", agent("master"))
    twin = tmp_path / "subagent" / "master" / "system.md"
    twin.parent.mkdir(parents=True)
    twin.write_text(agent("master"))
    found = Definitions.load(tmp_path)
    assert "master" not in found.names()
    assert "two files" in found.problems["master"]


def test_every_limit_of_an_agent_may_be_set_in_its_file(tmp_path: Path) -> None:
    numbers = ", ".join(f"{name}: 3" for name in AgentLimits.model_fields)
    write(tmp_path, "master", agent("master", f"limits: {{{numbers}}}"))
    limits = Definitions.load(tmp_path).get("master").limits
    assert Share.of(Limits(), limits, 0) == Share(**dict.fromkeys(AgentLimits.model_fields, 3))


def test_a_users_own_agents_are_loaded_unless_others_may_write_them(tmp_path: Path) -> None:
    own = tmp_path / "agents"
    (own / "deep").mkdir(parents=True)
    (own / "scribe.md").write_text(agent("scribe"))
    found = Definitions.load(own_dir=own)
    assert {one.name: one.agent.origin for one in found.capabilities() if one.agent}["scribe"] == "user"
    assert any("deep/" in warning for warning in found.warnings)
    own.chmod(0o777)
    shut = Definitions.load(own_dir=own)
    assert "scribe" not in shut.names() and any("written by others" in warning for warning in shut.warnings)
    assert Definitions.load(own_dir=tmp_path / "nowhere").names() == Definitions.load().names()


async def test_a_crew_has_the_agents_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "mcc" / "agents"
    own.mkdir(parents=True)
    (own / "scribe.md").write_text(agent("scribe"))
    crew = Crew.from_settings(Settings())
    assert "scribe" in {one.name for one in crew.agents()}
    await crew.close()


def test_a_directory_of_one_s_own_that_cannot_be_looked_at_keeps_no_agent_away(tmp_path: Path) -> None:
    """To root nothing is closed: below a file there is nothing to look at either, for anybody."""
    assert Definitions.load(own_dir=Path("/dev/null/agents")).names() == Definitions.load().names()
    closed = tmp_path / "closed"
    (closed / "agents").mkdir(parents=True)
    closed.chmod(0)
    try:
        assert Definitions.load(own_dir=closed / "agents").names() == Definitions.load().names()
    finally:
        closed.chmod(0o700)
