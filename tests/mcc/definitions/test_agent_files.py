"""Agent files: valid content, and error messages."""

import pytest

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.shape import digest
from mcc.definitions.agents import parse_agent
from mcc.definitions.front_matter import FILE_BYTES, DefinitionError, decoded

FULL = """---
name: review
description: Reads a change and reports concrete risks.
tools: [environment_read, workspace_read, git_diff]
disallowed_tools: [find_files]
spawns: []
model: inherit
temperature: 0.2
thinking: off
limits: {rounds: 24, output_tokens: 20000}
isolation: none
permission: {run_shell: ask, "git_*": allow}
result: {$ref: report}
rules:
  - cel: result.status != "completed" || size(result.findings) > 0
    message: A completed review names findings.
guidelines:
  - Quote tool errors exactly.
---

You review changes.

---
Even below a line like the one above.
"""


def parsed(text: str) -> AgentDefinition:
    return parse_agent(text, "review.md")


def refusal(text: str) -> DefinitionError:
    with pytest.raises(DefinitionError) as caught:
        parsed(text)
    return caught.value


def test_every_key_of_an_agent_file_is_read() -> None:
    agent = parsed(FULL)
    assert agent.name == "review"
    assert agent.tools == ("environment_read", "workspace_read", "git_diff")
    assert agent.disallowed_tools == ("find_files",)
    assert agent.spawns == ()
    assert agent.temperature == 0.2
    assert agent.thinking == "off"
    assert (agent.limits.rounds, agent.limits.output_tokens, agent.limits.tool_calls) == (24, 20_000, None)
    assert agent.permission == {"run_shell": "ask", "git_*": "allow"}
    assert agent.result == {"$ref": "report"}
    assert agent.rules[0].cel.startswith("result.status")
    assert agent.guidelines == ("Quote tool errors exactly.",)
    assert agent.prompt == "You review changes.\n\n---\nEven below a line like the one above."


def test_tools_left_out_are_the_parents_and_an_empty_list_is_none() -> None:
    assert parsed("---\nname: a\n---\nDo it.").tools is None
    assert parsed("---\nname: a\ntools: []\n---\nDo it.").tools == ()


def test_a_byte_order_mark_and_other_line_endings_change_nothing() -> None:
    plain = parsed(FULL)
    assert parsed("\ufeff" + FULL) == plain
    assert parsed(FULL.replace("\n", "\r\n")) == plain
    assert parsed(FULL.replace("\n", "\r")) == plain
    assert parsed(decoded(b"\xef\xbb\xbf" + FULL.encode(), "review.md")) == plain
    assert digest(parsed(FULL.replace("\n", "\r\n"))) == digest(plain)


def test_the_digest_changes_with_any_word_of_the_file() -> None:
    changed = [FULL.replace("24", "25"), FULL.replace("You review", "You read"), FULL.replace("ask", "deny")]
    assert len({digest(parsed(text)) for text in [FULL, *changed]}) == 4


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("name: review", "nam: review", 2, "did you mean 'name'?"),
        ("name: review", "name: no way", 2, "'no way' is not usable"),
        ("name: review", "name: " + "a" * 65, 2, "1 to 64 letters"),
        ("name: review", "name: 12", 2, "the number 12; quote it"),
        ("name: review", "name: true", 2, "the truth value true"),
        ("name: review", "name:", 2, "is empty"),
        ("name: review\n", "", None, "has no name"),
        ("description: Reads", "description: Note: reads", 3, 'must be quoted: description: "Note: reads'),
        ("description: Reads", "description: *all reads", 3, "alias"),
        ("description: Reads", "description: &all reads", 3, "anchor"),
        ("git_diff]", "git_dif]", 4, "there is no tool or group 'git_dif'; did you mean 'git_diff'?"),
        ("workspace_read", "workspace-raed", 4, "did you mean 'workspace_read'?"),
        ("[environment_read, workspace_read, git_diff]", "read_file, git_diff", 4, "must be a list"),
        ("git_diff]", "3]", 4, "lists 3"),
        ("git_diff]", "our_crm]", 4, "; there are no groups of one's own, so list an own tool by its name"),
        ("[find_files]", "[find_file]", 5, "did you mean 'find_files'?"),
        ("spawns: []", "spawns:", 6, "write [] for none"),
        ("spawns: []", "spwans: []", 6, "did you mean 'spawns'?"),
        ("model: inherit", "model: two words", 7, "model must match pattern"),
        ("temperature: 0.2", "temperature: hot", 8, "temperature must be a valid number"),
        ("temperature: 0.2", "temperature: .nan", 8, "cannot be read as float"),
        ("temperature: 0.2", "temperature: 0.2\ntemperature: 0.3", 9, "a second time"),
        ("thinking: off", "thinking: of", 9, "did you mean 'off'?"),
        ("thinking: off", "thinking: false", 9, "is False"),
        ("rounds: 24", "rouns: 24", 10, "did you mean 'rounds'?"),
        ("rounds: 24", "rounds: true", 10, "limits.rounds must be a valid integer"),
        ("rounds: 24", 'rounds: "24"', 10, "limits.rounds must be a valid integer"),
        ("rounds: 24", "rounds: 0", 10, "greater than or equal to 1"),
        ("isolation: none", "isolation: worktre", 11, "did you mean 'worktree'?"),
        ("run_shell: ask", "run_shell: aks", 12, "did you mean 'ask'?"),
        ("result: {$ref: report}", "result: reprot", 13, "did you mean 'report'?"),
        ("result: {$ref: report}", "result: [report]", 13, "must be a JSON Schema or a shipped name"),
        ("    message: A", "    mesage: A", 16, "did you mean 'message'?"),
        ("guidelines:", "prompt: x\nguidelines:", 17, "leave this key out"),
        ("guidelines:\n  - Quote tool errors exactly.", "guidelines: {}", 17, "guidelines must be a list"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_to_do(old: str, new: str, line: int | None, said: str) -> None:
    error = refusal(FULL.replace(old, new, 1))
    assert error.line == line
    assert said in error.sentence
    assert str(error).startswith("review.md" if line is None else f"review.md, line {line}: ")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("You are an agent.", 1, "there is no front matter"),
        ("", 1, "there is no front matter"),
        ("\n---\nname: a\n---\nx", 1, "there is no front matter"),
        ("---\nname: a\nx", 1, "never closed"),
        ("---\n- name\n---\nx", 2, "is a list"),
        ("---\njust words\n---\nx", 2, "is the text 'just words'"),
        ("---\n---\nx", 2, "is empty"),
        ("---\n# a remark\n---\nx", 2, "is empty"),
        ("---\nname: a\n---\n \n\n", None, "there is no prompt"),
        ("---\nname: a\ndescription: 'open\n---\nx", None, "not readable as YAML"),
        ("---\nname: a\n\tdescription: b\n---\nx", 3, "indent with spaces"),
        ("---\nname: a\ndescription: \x07\n---\nx", 3, "not readable as YAML"),
    ],
)
def test_a_file_of_the_wrong_form_is_refused(text: str, line: int | None, said: str) -> None:
    error = refusal(text)
    assert said in error.sentence
    if line is not None:
        assert error.line == line


def test_a_file_beyond_256_kilobytes_is_refused_whether_as_bytes_or_as_text() -> None:
    long = "---\nname: a\n---\n" + "é" * (FILE_BYTES // 2)
    assert "32 KB" in refusal(long).sentence
    with pytest.raises(DefinitionError, match="32 KB"):
        decoded(long.encode(), "review.md")
    fitting = "---\nname: a\n---\n"
    assert parsed(fitting + "x" * (FILE_BYTES - len(fitting))).name == "a"


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    with pytest.raises(DefinitionError, match="line 3: byte 12 is not UTF-8"):
        decoded(b"---\nname: a\n\xff\n---\nx", "review.md")


def test_the_table_of_groups_is_the_callers() -> None:
    own = {"quarry": ("dig_deep",)}
    assert parse_agent("---\nname: a\ntools: [quarry, dig_deep]\n---\nx", "f", own).tools == ("quarry", "dig_deep")
    with pytest.raises(DefinitionError, match="there is: quarry"):
        parse_agent("---\nname: a\ntools: [read_file]\n---\nx", "f", own)
