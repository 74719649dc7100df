"""Decisions on calls: the most specific key of a layer counts, and the strictest of several layers."""

import pytest

from mcc.contracts.permission import Permission, PermissionRule
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import Layer

KEYS: Permission = {"*": "allow", "git_write": "ask", "git_*": "deny", "git_com*": "ask", "git_commit": "allow"}


@pytest.mark.parametrize(
    ("tool", "group", "word", "key"),
    [
        ("git_commit", "git_write", "allow", "git_commit"),
        ("git_comment", "git_write", "ask", "git_com*"),
        ("git_add", "git_write", "deny", "git_*"),
        ("tag", "git_write", "ask", "git_write"),
        ("read_file", "workspace_read", "allow", "*"),
    ],
)
def test_the_most_specific_key_of_a_layer_counts(tool: str, group: str, word: str, key: str) -> None:
    ruling = judge(PermissionRequest(tool, group), [Layer("operator", KEYS)])
    assert (ruling.word, ruling.why.key) == (word, key)


def test_a_group_is_of_all_its_tools_but_a_shell_only_has_its_own() -> None:
    calls = (
        PermissionRequest("git_diff", "diff_read"),
        PermissionRequest("run_shell", "shell_read"),
        PermissionRequest("run_shell", "shell_write"),
    )
    layer = Layer("operator", {"git_read": "deny", "shell_write": "ask"})
    assert [judge(one, [layer]).word for one in calls] == ["deny", "allow", "ask"]


@pytest.mark.parametrize("effects", ["none", "read", "write", "execute", "network"])
def test_where_no_layer_says_anything_a_call_is_allowed(effects: str) -> None:
    ruling = judge(PermissionRequest("tool", effects=effects), [Layer("operator", {"other": "deny"})])  # type: ignore[arg-type]
    assert (ruling.word, ruling.why.layer) == ("allow", "default")


def test_what_cannot_be_undone_is_asked_for_where_no_layer_says_anything() -> None:
    assert judge(PermissionRequest("tool", effects="irreversible"), []).word == "ask"
    assert (
        judge(PermissionRequest("tool", effects="irreversible"), [Layer("operator", {"tool": "allow"})]).word == "allow"
    )


def test_of_several_layers_the_strictest_counts() -> None:
    layers = [Layer("operator", {"*": "allow"}), Layer("agent", {"x": "ask"}), Layer("order", {"x": "deny"})]
    assert [judge(PermissionRequest("x"), layers[:count]).word for count in (1, 2, 3)] == ["allow", "ask", "deny"]


def test_a_layer_that_may_only_narrow_allows_nothing() -> None:
    asked = PermissionRequest("x", effects="irreversible")
    assert judge(asked, [Layer("agent", {"*": "deny", "x": "allow"}, consents=False)]).word == "ask"


def test_the_first_rule_that_holds_counts_and_where_none_does_the_next_key() -> None:
    rules = (
        PermissionRule(when='args.to == "prod"', then="deny", message="Not there."),
        PermissionRule(when='args.to == "test"', then="allow"),
    )
    layer = Layer("operator", {"deploy": rules, "*": "ask"})
    found = {
        to: judge(PermissionRequest("deploy", arguments={"to": to}), [layer]) for to in ("prod", "test", "elsewhere")
    }
    assert {to: one.word for to, one in found.items()} == {"prod": "deny", "test": "allow", "elsewhere": "ask"}
    assert found["prod"].why.model_dump() == {
        "layer": "operator",
        "key": "deploy",
        "when": 'args.to == "prod"',
        "message": "Not there.",
    }


@pytest.mark.parametrize(("then", "word"), [("allow", "allow"), ("ask", "ask"), ("deny", "deny")])
def test_a_condition_without_a_value_holds_for_ask_and_deny_alone(then: str, word: str) -> None:
    rules = (PermissionRule(when="args.count > 3", then=then),)  # type: ignore[arg-type]
    ruling = judge(PermissionRequest("x", arguments={"count": "many"}), [Layer("operator", {"x": rules})])
    assert (ruling.word, ruling.why.layer) == (word, "default" if then == "allow" else "operator")


@pytest.mark.parametrize(
    ("command", "word", "told"),
    [("ls", "allow", "ls"), ("ls; id", "deny", "ls"), ("id | cat", "deny", "id"), ("", "allow", "")],
)
def test_a_rule_sees_the_words_of_a_command_and_how_many_parts_there_are(command: str, word: str, told: str) -> None:
    rules = (
        PermissionRule(when="parts > 1", then="deny"),
        PermissionRule(when="size(argv) == 0", then="allow"),
        PermissionRule(when=f'argv[0] == "{told}"', then="allow"),
        PermissionRule(when="true", then="ask"),
    )
    ruling = judge(
        PermissionRequest("run_shell", "shell_write", arguments={"command": command}),
        [Layer("operator", {"run_shell": rules})],
    )
    assert (ruling.word, ruling.why.message) == (word, "")


def test_a_rule_on_words_and_parts_sees_none_where_the_tool_is_no_shell() -> None:
    rules = (
        PermissionRule(when="argv == [] && parts == 0", then="allow"),
        PermissionRule(when="true", then="ask"),
    )
    layer = Layer("operator", {"git_write": rules})
    ruling = judge(PermissionRequest("git_commit", "git_write", effects="irreversible"), [layer])
    assert (ruling.word, ruling.why.when) == ("allow", "argv == [] && parts == 0")


@pytest.mark.parametrize("turned", [False, True])
def test_of_equally_strict_layers_of_one_kind_the_first_key_by_name_is_the_reason(turned: bool) -> None:
    layers = [Layer("ancestor", {"git_commit": "deny"}), Layer("ancestor", {"git_*": "deny"})]
    ruling = judge(PermissionRequest("git_commit", "git_write"), layers[::-1] if turned else layers)
    assert (ruling.word, ruling.why.key) == ("deny", "git_*")
