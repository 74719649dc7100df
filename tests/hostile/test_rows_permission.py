"""Rows 20, 60 and 66 of bad input: what a shell's text hides, who names hosts and keys, what children ask for."""

import pytest
from pydantic import ValidationError

from mcc.configuration.file import laid_over
from mcc.contracts.order import NewOrder
from mcc.contracts.permission import PermissionRule
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import Layer

ONLY_TESTS = Layer(
    "operator", {"run_shell": (PermissionRule(when='argv[0] == "pytest"', then="allow"), PermissionRule(then="ask"))}
)
PUSHING = 'argv[0] == "git" && size(argv) > 1 && argv[1] == "push"'
NO_PUSH = Layer("operator", {"run_shell": (PermissionRule(when=PUSHING, then="deny"),)})


def word(command: object, layer: Layer) -> str:
    return judge(PermissionRequest("run_shell", "shell_write", "execute", {"command": command}), [layer]).word


@pytest.mark.parametrize(
    "command",
    [
        "pytest$IFS-p$IFS evil",
        "pytest $(evil)",
        "pytest `evil`",
        "pytest ${x@P}",
        "pytest\revil",
        "pytest <<X\nevil\nX",
        "pytest 3>/etc/x",
        "pytest >&out",
        "cd .. && pytest",
        "pytest" + " && pytest" * 50,
        "pytest " + "x" * 20_000,
        "pytest; evil",
        "pytest\nevil",
        "pytest & evil",
        "pytest | evil",
        "PATH=. pytest",
        "pytest() { evil; }; pytest",
        "pytest '",
        "pytest | bash",
        7,
        None,
        ["pytest"],
    ],
    ids=lambda command: repr(command)[:40],
)
def test_row_20_what_is_not_plainly_an_allowed_command_is_not_allowed(command: object) -> None:
    assert word(command, ONLY_TESTS) == "ask"


@pytest.mark.parametrize(
    "command", ["test -v 'a[$(evil)]'", "printf -v 'a[`evil`]' x", "sh", "bash -s x", "hash -p /evil ls"]
)
def test_row_20_what_runs_its_words_as_commands_is_allowed_by_no_rule(command: str) -> None:
    name = command.split()[0]
    rule = PermissionRule(when=f'argv[0] == "{name}"', then="allow")
    assert word(command, Layer("operator", {"run_shell": (rule, PermissionRule(then="ask"))})) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "true && git push",
        "echo $(git push)",
        "echo `git push`",
        "eval git push",
        "sh -c 'git push'",
        "env -i git push",
        "g'i't pu\"sh\"",
        "$GIT push",
        "git $VERB",
        "$(echo git) push",
        "true; " * 60 + "git push",
        "x" * 20_001,
        "f() { git push; }; f",
        "function f { git push; }; f",
        "coproc p { git push; }",
        "bash <<'E'\ngit push\nE",
        "printf 'git push' | sh",
        "shopt -s expand_aliases; alias g=git\ng push",
        "hash -p /usr/bin/git g; g push",
        "taskset 1 git push",
        None,
    ],
    ids=lambda command: repr(command)[:40],
)
def test_row_20_a_denied_command_is_denied_wherever_it_hides(command: object) -> None:
    assert word(command, NO_PUSH) == "deny"


def test_row_60_neither_a_checkout_nor_an_order_brings_the_operators_words() -> None:
    """A trusted file of a checkout may not set what the operator says of calls; an order names no protected paths."""
    own = {"permission": {"deploy": "deny"}}
    tables, left = laid_over(own, {"permission": {"*": "allow"}, "approvals": {"on_ask": "wait"}})
    assert tables["permission"] == {"deploy": "deny"} and "approvals" not in tables
    assert left == ("[permission] *", "[approvals] on_ask")
    with pytest.raises(ValidationError):
        NewOrder.model_validate({"prompt": "x", "permission": {"protected": []}})


def test_row_66_what_an_agent_above_may_not_do_no_agent_below_may() -> None:
    above = Layer("ancestor", {"run_shell": "deny", "git_*": "ask"})
    below = Layer("agent", {"*": "allow", "run_shell": "allow", "git_commit": "allow"})
    words = {
        tool: judge(PermissionRequest(tool, depth=2), [below, above]).word
        for tool in ("run_shell", "git_commit", "read_file")
    }
    assert words == {"run_shell": "deny", "git_commit": "ask", "read_file": "allow"}
