"""Declared permission in mcc.toml, agent files and orders: each problem is reported with its place."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from mcc.api.app import build_app
from mcc.contracts.order import NewOrder
from mcc.definitions.agents import parse_agent
from mcc.definitions.front_matter import DefinitionError
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import MODES, layer_of
from mcc.settings import BadSettings, ServiceSettings, load
from mcc.store.store import Store
from mcc.testing import temporary_store
from mcc.testing.served import TOKEN

EXAMPLE = """
[permission]
"*" = "allow"
git_commit = "ask"
run_shell = [
  {when = 'argv[0] == "git" && size(argv) > 1 && argv[1] == "push"', then = "deny", message = "Pushing is for people."},
  {when = 'argv[0] in ["pytest", "make", "npm"]', then = "allow"},
  {then = "ask"},
]
protected = ["deploy/**"]
[approvals]
expire_seconds = 3600
on_ask = "wait"
"""


def settings(tmp_path: Path, text: str) -> ServiceSettings:
    file = tmp_path / "mcc.toml"
    file.write_text(text)
    return load({"MCC_CONFIG": str(file), "MCC_DATA_DIR": str(tmp_path)}, directory=tmp_path)


def test_the_operator_s_table_is_permission_and_protected_paths(tmp_path: Path) -> None:
    found = settings(tmp_path, EXAMPLE)
    assert list(found.permission.rules) == ["*", "git_commit", "run_shell"]
    assert found.permission.protected == ("deploy/**",)
    assert (found.approvals.expire_seconds, found.approvals.on_ask) == (3600, "wait")


@pytest.mark.parametrize(
    ("line", "place", "said"),
    [
        ('git_comit = "ask"', "line 2", "did you mean 'git_commit'?"),
        ('"a b" = "ask"', "line 2", "pattern"),
        ('run_shell = "aks"', "line 2", 'should be "allow", "ask" or "deny"'),
        ("run_shell = [{when = 'argv[0] = 1', then = \"deny\"}]", "line 2", "rule [0].when"),
        ("run_shell = [{when = 'argc > 1', then = \"deny\"}]", "line 2", "'argc' is not known here"),
        (
            'run_shell = [{then = "deny", whem = "true"}]',
            "line 2",
            "rule [0].whem: there is no such key; did you mean 'when'?",
        ),
        ("run_shell = []", "line 2", "at least 1 item"),
        ("protected = 3", "line 2", "permission.protected"),
        ('[approvals]\non_ask = "hang"', "line 3", "approvals.on_ask"),
        ("[approvals]\nexpires = 3", "line 3", "there is no such key"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line(tmp_path: Path, line: str, place: str, said: str) -> None:
    with pytest.raises(BadSettings) as refused:
        settings(tmp_path, f"[permission]\n{line}\n")
    assert place in str(refused.value) and said in str(refused.value)


AGENT = '---\nname: a\npermission:\n  "git_*": ask\n  run_shell:\n    - {when: PLACE, then: deny}\n---\nDo it.\n'


def test_an_agent_file_has_the_same_grammar() -> None:
    agent = parse_agent(AGENT.replace("PLACE", "parts > 1"), "a.md")
    rules = agent.permission["run_shell"]
    assert not isinstance(rules, str) and rules[0].when == "parts > 1"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (AGENT.replace("PLACE", "parst > 1"), 6),
        (AGENT.replace('"git_*"', "git_comit"), 4),
        (AGENT.replace("then: deny", "than: deny").replace("PLACE", "'true'"), 5),
    ],
)
def test_a_mistake_in_an_agent_file_is_told_with_its_line(text: str, line: int) -> None:
    with pytest.raises(DefinitionError) as refused:
        parse_agent(text, "a.md")
    assert refused.value.line == line and "permission" in refused.value.sentence


def test_an_order_has_the_same_grammar() -> None:
    rules = [{"when": 'args.path == "a"', "then": "deny"}]
    new = NewOrder.model_validate({"prompt": "x", "mode": "plan", "on_ask": "wait", "permission": {"read_file": rules}})
    assert NewOrder.model_validate_json(new.model_dump_json()) == new


async def test_a_condition_that_cannot_be_used_is_refused_when_the_order_is_placed(tmp_path: Path) -> None:
    answer = await asked(tmp_path, {"permission": {"run_shell": [{"when": "argz == []", "then": "deny"}]}})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "permission.run_shell[0].when"


@pytest.mark.parametrize(
    ("said", "attended", "operator", "shown"),
    [
        (None, False, None, "deny"),
        (None, True, None, "wait"),
        (None, True, "deny", "deny"),
        (None, False, "wait", "wait"),
        ("wait", False, "deny", "wait"),
        ("deny", True, "wait", "deny"),
    ],
)
async def test_what_becomes_of_a_call_that_is_asked_for_goes_by_order_then_operator_then_origin(
    tmp_path: Path, said: str | None, attended: bool, operator: str | None, shown: str
) -> None:
    body = {} if said is None else {"on_ask": said}
    answer = await asked(tmp_path, body, attended, {"on_ask": operator})
    assert answer.json()["on_ask"] == shown


async def asked(
    tmp_path: Path, body: dict[str, Any], attended: bool = False, approvals: dict[str, Any] | None = None
) -> httpx.Response:
    store: Store = temporary_store()
    app = build_app(
        ServiceSettings.model_validate({"data_dir": tmp_path, "approvals": approvals or {}}), store, token=TOKEN
    )
    headers = {"Authorization": f"Bearer {TOKEN}", **({"MCC-Attended": "true"} if attended else {})}
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", headers=headers
        ) as client:
            return await client.post("/api/v1/orders", json={"prompt": "x", **body})
    finally:
        store.close()


CALLS = {
    "read_file": ("workspace_read", "read"),
    "write_file": ("workspace_write", "write"),
    "git_commit": ("git_write", "write"),
    "run_shell": ("shell_write", "execute"),
    "web_fetch": ("web_read", "network"),
    "deploy": ("", "irreversible"),
    "subagent": ("delegation", "none"),
}


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("develop", {"deploy": "ask"}),
        ("plan", dict.fromkeys(("write_file", "git_commit", "run_shell", "web_fetch", "deploy"), "deny")),
        ("build", {"git_commit": "ask", "deploy": "ask"}),
        ("test", {"write_file": "deny", "git_commit": "deny", "deploy": "ask"}),
        ("ship", {"deploy": "ask"}),
    ],
)
def test_what_each_mode_adds(mode: Any, words: dict[str, str]) -> None:
    found = {
        tool: judge(PermissionRequest(tool, group, effects, mode=mode), [layer_of(mode)]).word  # type: ignore[arg-type]
        for tool, (group, effects) in CALLS.items()
    }
    assert found == dict.fromkeys(CALLS, "allow") | words


def test_the_modes_are_usable_permission() -> None:
    from mcc.permission.declared import problems

    assert not [one for mode in MODES.values() for one in problems(mode)]
