"""Import of other systems' agent files: recognition, a report on each line, and valid results."""

from pathlib import PurePath

import pytest

from mcc.definitions.agents import parse_agent
from mcc.definitions.carried import Imported
from mcc.definitions.foreign import ForeignFormat, format_of, model_of, tool_of
from mcc.definitions.imported import imported
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import Layer

ALIASES = {"smart": "claude-sonnet-5-5", "fast": "gpt-6.1-mini", "opus": "anything"}


def one(format_: ForeignFormat, front: str, prompt: str = "Look closely.", name: str = "scribe") -> Imported:
    [found] = imported(f"---\n{front}\n---\n{prompt}\n", f"{name}.md", format_, name, ALIASES)
    return found


def said(found: Imported, verdict: str) -> list[tuple[int | None, str]]:
    return [(line.number, line.sentence) for line in found.lines if line.verdict == verdict]


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("/w/.claude/agents/a.md", ForeignFormat.CLAUDE),
        ("/w/.claude/agents/deep/a.md", ForeignFormat.CLAUDE),
        ("/home/x/.config/opencode/agent/a.md", ForeignFormat.OPENCODE),
        ("/w/.opencode/agents/a.md", ForeignFormat.OPENCODE),
        ("/w/opencode.json", ForeignFormat.OPENCODE),
        ("/w/.gemini/agents/a.md", ForeignFormat.GEMINI),
        ("/w/.github/agents/a.md", ForeignFormat.COPILOT),
        ("/w/x/planner.agent.md", ForeignFormat.COPILOT),
        ("/w/.github/chatmodes/plan.chatmode.md", ForeignFormat.COPILOT),
        ("/w/.mcc/agents/a.md", None),
        ("/w/agents/a.md", None),
        ("/w/.claude/commands/a.md", None),
    ],
)
def test_the_place_of_a_file_says_whose_it_is(path: str, whose: ForeignFormat | None) -> None:
    assert format_of(PurePath(path)) is whose


def test_a_file_of_claude_code_is_read_line_by_line() -> None:
    front = (
        "name: scribe\ndescription: Use it when: something was done\n"
        "tools: Read, Grep, Glob, LS, Bash, Edit, mcp__tracker__find, Bash(git log:*), Read(src/**)\n"
        "model: sonnet\nmaxTurns: 7\ncolor: red\nwibble: 1"
    )
    found = one(ForeignFormat.CLAUDE, front, "First.\nUse the Grep tool.")
    agent = parse_agent(found.text, "scribe.md")
    reads = ("read_file", "search_text", "find_files", "list_files")
    assert agent.tools == (*reads, "run_shell", "edit_file", "git_log")
    assert not agent.permission
    assert (agent.name, agent.description) == ("scribe", "Use it when: something was done")
    assert (agent.model, agent.limits.rounds, agent.prompt) == ("smart", 7, "First.\nUse the Grep tool.")
    assert (4, "tools: Grep is search_text") in said(found, "kept")
    assert [number for number, _ in said(found, "dropped")] == [4, 7, 8]
    assert [sentence.partition(": ")[2] for number, sentence in said(found, "dropped") if number == 4] == [
        "mcp__tracker__find: tool servers cannot be named in an agent file here",
    ]
    assert [number for number, _ in said(found, "changed")] == [3, 4, 5, 11]


def test_an_agent_whose_tools_are_all_missing_here_has_none_and_not_all() -> None:
    found = one(ForeignFormat.CLAUDE, "name: scribe\ndescription: x\ntools: [TodoWrite, Wibble]")
    assert parse_agent(found.text, "s").tools == ()
    assert any("no tools at all" in sentence for _, sentence in said(found, "changed"))


def test_without_tools_it_has_those_of_its_parent_and_that_is_told() -> None:
    found = one(ForeignFormat.CLAUDE, "name: scribe\ndescription: x")
    assert parse_agent(found.text, "s").tools is None
    assert any("tools: none are named" in sentence for _, sentence in said(found, "changed"))
    assert parse_agent(one(ForeignFormat.GEMINI, "name: scribe\ndescription: x\ntools: ['*']").text, "s").tools is None


def test_a_missing_description_is_told() -> None:
    assert any(
        "no description" in sentence for _, sentence in said(one(ForeignFormat.CLAUDE, "name: scribe"), "changed")
    )


def test_a_file_of_opencode_has_the_name_of_its_file_and_switches() -> None:
    front = (
        "description: Writes\nmode: subagent\nmodel: anthropic/claude-sonnet-5-5-20260101\ntemperature: 0.2\nsteps: 9\n"
        "tools:\n  write: false\n  grep: false\npermission:\n  glob: deny\n  bash: ask"
    )
    found = one(ForeignFormat.OPENCODE, front)
    agent = parse_agent(found.text, "scribe.md")
    assert (agent.name, agent.model, agent.temperature, agent.limits.rounds) == ("scribe", "smart", 0.2, 9)
    assert (agent.tools, agent.disallowed_tools) == (None, ("write_file", "search_text", "find_files"))
    assert agent.permission == {"run_shell": "ask"}
    assert [number for number, _ in said(found, "dropped")] == [3]


def test_switched_off_altogether_only_what_is_switched_on_counts() -> None:
    found = one(ForeignFormat.OPENCODE, "description: x\ntools: {'*': false, read: true, bash: true}")
    assert parse_agent(found.text, "s").tools == ("read_file", "run_shell")


def test_the_agents_of_a_configuration_of_opencode_are_one_each() -> None:
    text = """{
  // what we use
  "model": "x/y", /* and
  more */
  "agent": {
\t"plan": {"description": "Plans // always", "prompt": "Plan it.\\nThen stop.", "tools": {"edit": false}},
    "far": {"description": "x", "prompt": "{file:./far.txt}"},
    "off": {"description": "x", "prompt": "y", "disable": true}
  }
}"""
    plan, far, off = imported(text, "opencode.json", ForeignFormat.OPENCODE, "opencode", ALIASES)
    assert parse_agent(plan.text, "p").prompt == "Plan it.\nThen stop."
    assert parse_agent(plan.text, "p").description == "Plans // always"
    assert (6, "tools: edit is off: edit_file is not allowed") in said(plan, "kept")
    assert not far.text and "another file" in far.errors[0].sentence
    assert not off.text and off.errors[0].number == 8


def test_a_file_of_gemini_has_minutes_and_rounds() -> None:
    tools = "tools: [read_file, grep_search, run_shell_command]"
    front = f"name: scribe\ndescription: x\n{tools}\nmax_turns: 5\ntimeout_mins: 3"
    agent = parse_agent(one(ForeignFormat.GEMINI, front).text, "s")
    assert (agent.limits.rounds, agent.limits.wall_seconds) == (5, 180)
    assert agent.tools == ("read_file", "search_text", "run_shell")
    assert one(ForeignFormat.GEMINI, "name: scribe\nkind: remote").errors


def test_a_file_of_copilot_may_leave_its_name_to_the_file_or_have_one_with_spaces() -> None:
    front = "description: x\ntools: ['search', 'codebase', 'editFiles', 'github/*']\nmodel: GPT 6.1 mini"
    agent = parse_agent(one(ForeignFormat.COPILOT, front).text, "s")
    assert (agent.name, agent.tools, agent.model) == (
        "scribe",
        ("search_text", "find_files", "edit_file", "write_file"),
        "fast",
    )
    renamed = one(ForeignFormat.COPILOT, "name: The Scribe\ndescription: x")
    assert renamed.name == "The-Scribe" and said(renamed, "changed")[0][0] == 2


@pytest.mark.parametrize(
    ("model", "ours"),
    [
        ("inherit", "inherit"),
        ("opus", "opus"),
        ("sonnet", "smart"),
        ("claude-sonnet-5-5", "smart"),
        ("anthropic/claude-sonnet-5-5-20260101", "smart"),
        ("GPT-6.1 Mini", "fast"),
        ("Claude Sonnet 5.5 (copilot)", "smart"),
        ("haiku", "inherit"),
        ("openai/other", "inherit"),
    ],
)
def test_a_model_is_one_of_the_operators_or_the_parents_and_told(model: str, ours: str) -> None:
    found = model_of(model, ALIASES)
    assert found.name == ours and bool(found.why) == (model not in ("inherit", "opus"))


@pytest.mark.parametrize(
    ("said", "ours", "why"),
    [
        ("search/codebase", ("search_text", "find_files"), ""),
        ("read/readFile", ("read_file",), ""),
        ("execute/runInTerminal", ("run_shell",), ""),
        ("edit/editFiles", ("edit_file", "write_file"), ""),
        ("web/fetch", ("web_fetch",), ""),
        ("TodoWrite", (), "agents here keep no list of things to do"),
        ("tracker/find", (), "tool servers cannot be named in an agent file here"),
        ("Wibble", (), "there is no such tool here"),
        ("Bash(git push:*)", ("run_shell",), ""),
    ],
)
def test_a_tool_is_one_of_ours_or_it_is_said_why_not(said: str, ours: tuple[str, ...], why: str) -> None:
    found = tool_of(said)
    assert (found.ours, found.why) == (ours, why)


def test_of_two_models_that_may_be_meant_none_is_chosen() -> None:
    assert model_of("sonnet", {"one": "claude-sonnet-4", "two": "claude-sonnet-5"}).name == "inherit"


def test_all_that_is_wrong_is_told_at_once_with_its_lines() -> None:
    found = one(ForeignFormat.CLAUDE, "name: '---'\ndescription: [a]\ntools: 7\nmodel: {a: b}\nmaxTurns: many")
    assert not found.text and [line.number for line in found.errors] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "text",
    [
        "no front matter",
        "---\nname: a\n",
        "---\n- a\n---\nx",
        "---\nname: *a\n---\nx",
        "---\na: [" + "[" * 5_000 + "\n---\nx",
        "---\nname: a\n---\n",
        "---\nname: a\n---\n" + "x" * 40_000,
        '{"agent": 7}',
        '{"agent": {"a": 1}}',
        "{" * 9_000,
        '"' * 9_001,
        "/*" * 9_000,
    ],
)
@pytest.mark.parametrize("source", ["a.md", "opencode.json"])
def test_whatever_cannot_be_read_is_an_error_and_never_an_exception(text: str, source: str) -> None:
    for found in imported(text, source, ForeignFormat.OPENCODE, "a"):
        assert not found.text and found.errors


def words(text: str, *commands: str) -> list[str]:
    """The decisions of the imported permission on these shell commands."""
    layer = Layer("agent", parse_agent(text, "s").permission)
    asked = [PermissionRequest("run_shell", "shell_write", arguments={"command": one}) for one in commands]
    return [judge(one, [layer]).word for one in asked]


def test_commands_in_brackets_are_the_only_ones_that_it_may_run() -> None:
    tools = "tools: [Read, 'Bash(npm run test:*)', 'Bash(make)', 'Bash(git diff:*)']"
    found = one(ForeignFormat.CLAUDE, f"name: scribe\ndescription: x\n{tools}")
    assert parse_agent(found.text, "s").tools == ("read_file", "run_shell", "git_diff")
    tried = (
        "npm run test -- -x",
        "make",
        "make install",
        "npm run deploy",
        "npm run test && rm x",
        "npm run test $(x)",
    )
    assert words(found.text, *tried) == ["allow", "allow", "deny", "deny", "deny", "deny"]


def test_commands_that_it_may_not_run_are_denied_beside_all_others() -> None:
    front = "name: scribe\ndescription: x\ntools: [Bash]\ndisallowedTools: ['Bash(git push:*)', 'Bash(rm *)']"
    found = one(ForeignFormat.CLAUDE, front)
    assert parse_agent(found.text, "s").disallowed_tools == ()
    tried = ("git push -f", "rm x", "ls", "ls && git push", "git $VERB")
    assert words(found.text, *tried) == ["deny", "deny", "allow", "deny", "deny"]


def test_of_patterns_of_opencode_the_last_that_fits_counts() -> None:
    bash = "{'*': ask, 'git *': allow, 'git push*': deny, 'npm $X': deny}"
    found = one(ForeignFormat.OPENCODE, f"description: x\npermission: {{bash: {bash}, edit: ask, webfetch: deny}}")
    agent = parse_agent(found.text, "s")
    assert words(found.text, "git log", "git push", "ls") == ["deny", "deny", "deny"]
    kept = bash.replace(", 'npm $X': deny", "")
    plain = one(ForeignFormat.OPENCODE, f"description: x\npermission: {{bash: {kept}}}")
    assert words(plain.text, "git log", "git push", "git pushy", "ls") == ["allow", "deny", "deny", "ask"]
    assert {agent.permission[tool] for tool in ("write_file", "edit_file", "apply_patch", "delete_file")} == {"ask"}
    assert agent.disallowed_tools == ("web_fetch",)
    assert any("'npm $X'" in sentence for _, sentence in said(found, "changed"))


def test_an_agent_that_plans_changes_nothing() -> None:
    found = one(ForeignFormat.CLAUDE, "name: scribe\ndescription: x\npermissionMode: plan")
    layer = Layer("agent", parse_agent(found.text, "s").permission)
    assert judge(PermissionRequest("edit_file", "workspace_write", "write"), [layer]).word == "deny"
    assert judge(PermissionRequest("read_file", "workspace_read", "read"), [layer]).word == "allow"
    bypass = one(ForeignFormat.CLAUDE, "name: scribe\ndescription: x\npermissionMode: bypassPermissions")
    assert not parse_agent(bypass.text, "s").permission and said(bypass, "dropped")
