"""Merging of scopes: the nearest wins, and a workspace never gets more than the operator allows."""

from dataclasses import replace

import pytest

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.limits import AgentLimits
from mcc.contracts.order import Verification
from mcc.definitions.scopes import AgentFile, AgentScope, UsableAgents, installed, with_user, with_workspace
from mcc.permission.judging import PermissionRequest, judge


def file(name: str, *lines: str) -> AgentFile:
    return AgentFile(name, f"{name}.md", "\n".join(("---", f"name: {name}", *lines, "---", f"Be {name}.")).encode())


OPERATOR = (
    file(
        "master",
        "tools: [workspace_read, delegation]",
        "disallowed_tools: [search_text]",
        "spawns: [explore, 'workspace/*']",
        "limits: {rounds: 30}",
        "rules: [{cel: size(result.findings) > 0}]",
    ),
    file("explore", "tools: [workspace_read]", "model: local", "limits: {rounds: 5}"),
    file("review", "tools: [workspace_read]", "result: report", "rules: [{cel: size(result.findings) > 0}]"),
)


def held(*files: AgentFile) -> UsableAgents:
    """The agents with a workspace's files that the operator trusts."""
    return with_workspace(installed(OPERATOR), files, trusted={one.name for one in files})


def found(*files: AgentFile) -> UsableAgents:
    """The agents with a workspace's files that nobody trusts."""
    return with_workspace(installed(OPERATOR), files)


def told(agents: UsableAgents) -> str:
    return "\n".join(map(str, (*agents.refused, *agents.warnings)))


def test_a_workspaces_agent_of_the_same_name_counts_before_the_operators() -> None:
    agents = held(file("explore", "description: Nearer."))
    assert agents.get("explore").prompt == "Be explore."
    assert agents.get("explore").description == "Nearer."
    assert agents.scopes["explore"] is AgentScope.WORKSPACE


def test_a_workspaces_agent_gets_no_tool_limit_or_model_beyond_the_operators_of_its_name() -> None:
    agents = held(
        file("explore", "tools: [workspace_read, shell_write, web_fetch]", "model: big", "limits: {rounds: 99}")
    )
    explore = agents.get("explore")
    assert explore.tools is not None
    assert not {"run_shell", "web_fetch"} & set(explore.tools)
    assert "read_file" in explore.tools
    assert (explore.model, explore.limits.rounds) == ("local", 5)
    assert all(word in told(agents) for word in ("run_shell", "web_fetch", "'big'", "limits.rounds 99"))


def test_an_agent_that_only_the_workspace_has_is_held_to_the_master_without_its_rules() -> None:
    agents = held(file("historian", "limits: {rounds: 99}", "tools: [delegation, search_text, git_read]"))
    historian = agents.get("historian")
    assert "search_text" in historian.disallowed_tools
    assert historian.limits == AgentLimits(rounds=30)
    assert "git_log" not in (historian.tools or ())
    assert historian.rules == ()
    assert agents.spawns("master") == ("explore", "historian")


def test_workspace_agents_may_spawn_each_other_only_where_the_operator_lists_them() -> None:
    pair = (file("historian", "spawns: [clerk, explore, review]"), file("clerk"))
    agents = held(*pair)
    assert agents.get("historian").spawns == ("clerk", "explore")
    assert "review" in told(agents)
    closed = with_workspace(installed([file("master", "spawns: [explore]"), file("explore")]), pair)
    assert closed.get("historian").spawns == ("explore",)
    assert closed.spawns("master") == ("explore",)


@pytest.mark.parametrize(("model", "kept"), [("fast", "fast"), ("openai/gpt", "inherit"), ("inherit", "inherit")])
def test_a_workspace_names_models_by_their_alias_only(model: str, kept: str) -> None:
    assert held(file("historian", f"model: {model}")).get("historian").model == kept


def test_without_consent_a_file_replaces_no_agent_and_chooses_no_model() -> None:
    agents = found(file("explore"), file("historian", "model: fast"), file("clerk"))
    assert agents.get("explore") == installed(OPERATOR).get("explore")
    assert (
        agents.scopes["explore"] is AgentScope.SHIPPED and agents.origin("explore").path == "subagent/explore/system.md"
    )
    assert agents.get("historian").model == "inherit" and agents.own == {"historian", "clerk"}
    assert agents.refused == ()
    assert [one.source for one in agents.warnings] == ["explore.md", "historian.md"]
    assert all("mcc agents trust" in str(one) for one in agents.warnings)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Reads the archive. Then more.", "“Reads the archive.”"),
        ("Two\n\nlines\there", "“Two lines here”"),
        ("x" * 500, f"“{'x' * 120}…”"),
        ("“Quotes” and `marks` and <tags>", "“'Quotes' and 'marks' and ‹tags›”"),
        ("a\u202eb\u200bc\U000e0041d\ufe0fe\x1bf\ud83d", "“abcdef”"),
    ],
)
def test_models_are_shown_a_workspaces_description_cut_and_as_its_own_words(said: str, shown: str) -> None:
    agents = found(file("historian"))
    told = replace(agents, usable={"historian": AgentDefinition(name="historian", description=said)})
    assert told.description("historian") == f"agent of this workspace, which says of itself: {shown}"


def test_a_description_that_shows_nothing_is_none() -> None:
    agents = found(file("historian", 'description: "\\u200b \\u2060"'))
    assert agents.description("historian") == "agent of this workspace"
    assert agents.description("master") == agents.get("master").description


def test_a_result_and_rules_that_the_operator_demands_stay_demanded() -> None:
    agents = held(file("review", "result: text", "rules: [{cel: 'true'}]"))
    review = agents.get("review")
    assert review.result == "report"
    assert [rule.cel for rule in review.rules] == ["size(result.findings) > 0", "true"]
    assert "result is not used" in told(agents)


def test_a_verifier_that_the_operator_demands_stays_and_a_workspace_names_only_one_that_it_might_ask() -> None:
    strict = file("strict", "verify: {rubric: Be exact.}")
    files = [
        file("strict", "verify: {rubric: Let it pass.}"),
        file("one", "verify: {agent: explore, max_revisions: 2}"),
        file("other", "verify: {agent: review}"),
        file("third", "verify: {rubric: Be short.}"),
    ]
    agents = with_workspace(installed([*OPERATOR, strict]), files, trusted={"strict"})
    kept = {one.name: agents.get(one.name).verify for one in files}
    assert kept["strict"] == Verification(rubric="Be exact.") and kept["third"] == Verification(rubric="Be short.")
    assert kept["one"] == Verification(agent="explore", max_revisions=2) and kept["other"] is None
    assert "strict.md: verify is not used: the operator's stays" in told(agents)
    assert "other.md: verify is not used: the operator allows no such agent" in told(agents)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("verify: {agent: exlpore}", "verify names 'exlpore', and there is no such agent; did you mean 'explore'?"),
        ("verify: {rubrik: Be short.}", "'verify.rubrik' is not a key of an agent file; did you mean 'rubric'?"),
        ("verify: {}", "either a rubric or an agent"),
        ("verify: {rubric: Be short., max_revisions: 3}", "verify.max_revisions"),
    ],
)
def test_a_mistake_in_what_verifies_is_told(line: str, said: str) -> None:
    assert said in str(installed([file("master", line), file("explore")]).problems["master"])


def test_a_broken_workspace_file_is_told_with_its_line_and_the_others_work() -> None:
    agents = held(
        file("broken", "tools: [read_fil]"),
        AgentFile("gone", "gone.md", problem="it is a link"),
        file("clerk", "tone: friendly", "limits: {round: 3}"),
    )
    assert "clerk" in agents.usable and not {"broken", "gone"} & set(agents.usable)
    assert [(error.source, error.line) for error in agents.refused] == [("broken.md", 3), ("gone.md", None)]
    assert "did you mean 'read_file'?" in told(agents)
    assert "clerk.md, line 3: 'tone' is not a key" in told(agents)
    assert "clerk.md, line 4: 'limits.round' is not a key" in told(agents) and "'rounds'" in told(agents)


def test_a_workspace_file_for_an_agent_whose_operator_file_is_broken_is_not_used() -> None:
    agents = with_workspace(installed([file("master"), file("explore", "tols: []")]), [file("explore")])
    assert "explore" not in agents.usable
    assert "broken" in told(agents)


def test_an_operator_that_has_no_master_has_nothing_to_hold_a_new_agent_to() -> None:
    assert "no agent 'master'" in told(with_workspace(UsableAgents(), [file("historian")]))


def test_an_unknown_spawn_is_told_with_its_line_and_the_nearest() -> None:
    agents = installed([file("master", "spawns:", "  - explore", "  - exlpore"), file("explore")])
    problem = agents.problems["master"]
    assert problem.line == 5
    assert "did you mean 'explore'?" in str(problem)


def test_yaml_that_reads_no_as_false_or_trips_over_a_colon_is_handled() -> None:
    agents = held(file("no", "thinking: off"), file("colon", "description: a: b"))
    assert agents.get("no").thinking == "off"
    assert 'description: "a: b"' in told(agents)


def test_everything_that_a_workspace_writes_leaves_the_operators_definitions_as_they_are() -> None:
    before = installed(OPERATOR)
    after = with_workspace(before, [file("historian"), file("explore")])
    assert before.get("explore").model == "local" and before.get("master") == after.get("master")
    assert isinstance(before.get("master"), AgentDefinition) and "historian" not in before.usable


def test_a_users_own_agent_counts_before_the_operators_and_has_no_more_rights() -> None:
    mine = file("explore", "tools: [workspace_read, run_shell]", "limits: {rounds: 50}")
    agents = with_user(installed(OPERATOR), [mine, file("scribe", "tools: [read_file]", "model: local")])
    explore, scribe = agents.get("explore"), agents.get("scribe")
    assert "run_shell" not in (explore.tools or ()) and explore.limits.rounds == 5
    assert (scribe.tools, scribe.model, scribe.limits.rounds) == (("read_file",), "local", 30)
    assert agents.scopes["explore"] is agents.scopes["scribe"] is AgentScope.USER
    assert agents.origin("scribe").path == "agents/scribe.md" and agents.spawns("master") == ("explore", "scribe")


def test_a_workspace_counts_before_the_user_and_needs_a_word_to_stand_for_an_agent_of_theirs() -> None:
    mine = with_user(installed(OPERATOR), [file("scribe", "description: Mine.")])
    theirs = file("scribe", "description: Theirs.")
    assert with_workspace(mine, [theirs]).get("scribe").description == "Mine."
    assert with_workspace(mine, [theirs], trusted={"scribe"}).get("scribe").description == "Theirs."
    assert set(with_workspace(mine, [file("clerk")]).spawns("master")) == {"explore", "clerk", "scribe"}


def test_a_broken_file_of_a_user_does_not_bring_back_the_agent_of_its_name() -> None:
    agents = with_user(installed(OPERATOR), [file("explore", "thinking: hard"), file("fine")])
    with pytest.raises(LookupError, match="thinking must be"):
        agents.get("explore")
    assert agents.get("fine").name == "fine"


def test_the_file_of_a_workspace_only_narrows_what_the_agent_that_it_is_held_to_may_call() -> None:
    operators = (*OPERATOR[1:], file("master", "permission: {git_commit: ask, deploy: deny}"))
    wished = file("historian", "permission: {git_commit: allow, deploy: allow, send: allow, read_file: deny}")
    agents = with_workspace(installed(operators), [wished])

    def word(tool: str, effects: str = "write") -> str:
        return judge(PermissionRequest(tool, effects=effects), agents.permission("historian")).word  # type: ignore[arg-type]

    assert (word("git_commit"), word("deploy"), word("read_file")) == ("ask", "deny", "deny")
    assert word("send", "irreversible") == "ask"


def test_a_file_that_replaces_an_agent_is_held_to_all_that_stand_before_it() -> None:
    users = with_user(installed((file("master", "permission: {a: deny}"),)), [file("master", "permission: {b: deny}")])
    agents = with_workspace(users, [file("master", "permission: {a: allow, c: deny}")], trusted={"master"})
    found = {tool: judge(PermissionRequest(tool), agents.permission("master")).word for tool in "abcd"}
    assert found == {"a": "deny", "b": "deny", "c": "deny", "d": "allow"}
