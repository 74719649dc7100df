"""Rules saved from approvals, and what they grant."""

import pytest

from mcc.contracts.permission import SavedRule
from mcc.permission.judging import PermissionRequest, Ruling, judge
from mcc.permission.layers import Layer

ASK = [Layer("operator", {"*": "ask"})]


def shell(command: str, *grants: SavedRule) -> Ruling:
    return judge(PermissionRequest("run_shell", "shell_write", arguments={"command": command}), ASK, grants)


@pytest.mark.parametrize(
    ("tool", "arguments", "when"),
    [
        ("git_commit", {"message": "Mend rounding"}, 'args.message.startsWith("Mend ")'),
        ("git_commit", {"message": "Mend"}, 'args.message == "Mend"'),
        ("write_file", {"path": "a b.py", "content": "x\n"}, 'args.content == "x\\n" && args.path == "a b.py"'),
        (
            "deploy",
            {"to": "prod", "force": True, "times": 3},
            'args.force == true && args.times == 3 && args.to == "prod"',
        ),
        ("git_add", {"paths": ["a", "b"]}, 'args.paths == ["a", "b"]'),
        ("git_status", {}, None),
    ],
)
def test_the_rule_that_is_shown_is_about_calls_like_this_one(
    tool: str, arguments: dict[str, object], when: str | None
) -> None:
    asked = PermissionRequest(tool, arguments=arguments)
    saved = judge(asked, ASK).would_save
    assert saved == SavedRule(key=tool, when=when)
    ruling = judge(asked, ASK, [saved])
    assert (ruling.word, ruling.why.layer, ruling.why.when) == ("allow", "grant", when)


@pytest.mark.parametrize("arguments", [{"deep": {"a": 1}}, {"text": "x" * 3_000}, {"a b": "x"}])
def test_nothing_is_saved_that_nobody_could_read(arguments: dict[str, object]) -> None:
    assert judge(PermissionRequest("send", arguments=arguments), ASK).would_save is None


@pytest.mark.parametrize(
    ("command", "when"),
    [
        ("pytest -q tests", 'argv[0] == "pytest"'),
        ("git status -s", 'argv[0] == "git" && size(argv) > 1 && argv[1] == "status"'),
        ("git -C x status", 'argv == ["git", "-C", "x", "status"]'),
        ("rm -r build", 'argv == ["rm", "-r", "build"]'),
        ("pytest *.py", 'argv[0] == "pytest"'),
        ("make && rm x", 'argv[0] == "make" || argv == ["rm", "x"]'),
        ("rm *.py", None),
        ("pytest $(x)", None),
        ("pytest > out", None),
    ],
)
def test_of_a_shell_s_call_the_commands_are_saved(command: str, when: str | None) -> None:
    saved = shell(command).would_save
    assert (saved and saved.when) == when
    assert saved is None or shell(command, saved).word == "allow"


def test_a_grant_lets_no_more_pass_than_it_says() -> None:
    grant = SavedRule(key="run_shell", when='argv[0] == "pytest"')
    tried = ("pytest -x", "pytest && rm x", "pytest > out", "pytest $X", "sh -c pytest", "rm")
    assert {one: shell(one, grant).word for one in tried} == {"pytest -x": "allow"} | dict.fromkeys(tried[1:], "ask")


def test_a_grant_beats_no_deny() -> None:
    denying = [Layer("order", {"run_shell": "deny"})]
    asked = PermissionRequest("run_shell", arguments={"command": "rm"})
    assert judge(asked, denying, [SavedRule(key="run_shell")]).word == "deny"


def test_a_grant_whose_condition_cannot_be_used_grants_nothing() -> None:
    assert shell("rm", SavedRule(key="run_shell", when="argw[0]")).word == "ask"
    assert shell("rm", SavedRule(key="run_shell", when="argv[7] == 'x'")).word == "ask"
    assert shell("rm", SavedRule(key="git_*")).word == "ask"
