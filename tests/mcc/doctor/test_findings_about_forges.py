"""What doctor says of forges: tokens that are missing, and triggers whose work could never be delivered."""

from pathlib import Path

import pytest

from mcc.doctor.forges import check_forges
from mcc.doctor.installation import Installation
from mcc.findings.finding import Finding
from tests.mcc.doctor.installations import settings_in

TABLES = """
[[workspaces.git]]
address = "https://github.com/team/*"
token_env = "HUB_TOKEN"

[forges.hub]
kind = "github"
token_env = "HUB_TOKEN"

[triggers.issues]
path = "issues"
scheme = "github"
secret_env = ["HOOK_SECRET"]

[triggers.issues.order]
prompt = "Solve: {payload.issue.title}"
"""
WELL = 'workspace = "https://github.com/{payload.name}"\ndeliver = {pull_request = true}\n'
ALLOWED = 'permission = {deliver = "allow"}\n'


def found(tmp_path: Path, lines: str, **environment: str) -> list[Finding]:
    config = tmp_path / "mcc.toml"
    config.write_text(TABLES + lines)
    settings = settings_in(tmp_path, MCC_CONFIG=str(config))
    return list(check_forges(Installation(settings, environment, "", 0.5)))


def test_all_that_is_needed_is_there(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, WELL + ALLOWED, HUB_TOKEN="t")
    assert (finding.state, finding.detail) == ("ok", "hub")


def test_a_missing_token_is_told_once_with_its_place(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, WELL + ALLOWED)
    assert finding.state == "warning" and "HUB_TOKEN" in finding.detail and "[forges.hub]" in finding.detail


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        (WELL, "permission = {deliver"),
        (WELL + 'mode = "plan"\n' + ALLOWED, "permission = {deliver"),
        (WELL.replace("github.com", "git.example.org") + ALLOWED, "[forges.NAME]"),
        (WELL.replace("{payload.name}", "other/shop") + ALLOWED, "[[workspaces.git]]"),
    ],
)
def test_a_trigger_whose_work_is_never_delivered_is_told(tmp_path: Path, lines: str, advice: str) -> None:
    advised = [finding.advice for finding in found(tmp_path, lines, HUB_TOKEN="t") if finding.state == "warning"]
    assert any(advice in each for each in advised), advised


@pytest.mark.parametrize(
    "lines",
    [
        WELL + 'on_ask = "wait"\n',
        WELL + 'permission = {deliver = [{when = "size(args.files) < 9", then = "allow"}]}\n',
        WELL + ALLOWED + '\n[permission]\n"*" = "allow"\n',
        'workspace = "{payload.address}"\ndeliver = {push = true}\n' + ALLOWED,
        'workspace = "https://git.example.org/a/b"\n',
    ],
)
def test_what_may_be_delivered_is_no_warning(tmp_path: Path, lines: str) -> None:
    assert [finding.state for finding in found(tmp_path, lines, HUB_TOKEN="t")] == ["ok"]
