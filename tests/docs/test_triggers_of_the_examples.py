"""The tables of the worked examples take what was recorded, from members alone, and answer where they should."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcc.configuration.triggers import TriggerTable
from mcc.settings import ServiceSettings
from mcc.triggers.checking import check_table
from mcc.triggers.reading import AnswerOfDelivery, QuestionOfDelivery, answered

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
RECORDED = Path(__file__).parent / "recorded"
TOML = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)
TABLES: tuple[Mapping[str, Any], ...] = tuple(
    tomllib.loads(block)
    for page in ("from-issue-to-pull-request.md", "answer-where-asked.md")
    for block in TOML.findall((HOW_TO / page).read_text("utf-8"))
)
HUB = {"forge": "hub", "project": "team/shop"}
THREAD = {"slack": "team", "channel": "C1", "thread": "1800000000.000100"}

EXAMPLES: Mapping[str, tuple[str, Mapping[str, str], str | None, str, Mapping[str, Any]]] = {
    "github/issues": (
        "issue-labeled.json",
        {"x-github-event": "issues"},
        "team/shop#7",
        "off by one",
        {**HUB, "number": 7},
    ),
    "github/comments": (
        "request-comment.json",
        {"x-github-event": "issue_comment"},
        "team/shop#1",
        "the changelog as well",
        {**HUB, "number": 1},
    ),
    "gitlab/issues": (
        "gitlab-issue.json",
        {"x-gitlab-event": "Issue Hook"},
        "team/shop#7",
        "off by one",
        {**HUB, "number": 7},
    ),
    "gitea/issues": (
        "gitea-issue.json",
        {"x-gitea-event": "issues"},
        "team/shop#7",
        "off by one",
        {**HUB, "number": 7},
    ),
    "github/runs": (
        "run-failed.json",
        {"x-github-event": "workflow_run"},
        None,
        "actions/runs/501",
        {**HUB, "number": 12},
    ),
    "gitlab/pipelines": (
        "pipeline-failed.json",
        {"x-gitlab-event": "Pipeline Hook"},
        None,
        "test: unit",
        {"forge": "lab", "project": "team/shop", "number": 3, "merge_request": True},
    ),
    "slack/mentions": ("mention.json", {}, "slack/C1/1800000000.000100", "Where is the total", THREAD),
    "slack/commands": (
        "command.txt",
        {"content-type": "application/x-www-form-urlencoded"},
        None,
        "Where is the total",
        {"slack": "team", "channel": "C1"},
    ),
}
"""By path: what was recorded, its headers, the session, words of the prompt, and where the answer goes."""


def trigger(path: str) -> tuple[str, TriggerTable]:
    (found,) = (
        (name, TriggerTable.model_validate(table))
        for file in TABLES
        for name, table in file.get("triggers", {}).items()
        if table["path"] == path
    )
    return found


def read(path: str, body: str, headers: Mapping[str, str]) -> AnswerOfDelivery:
    name, table = trigger(path)
    check_table(table, {"forge": ("hub", "lab"), "slack": ("team",)})
    return answered(QuestionOfDelivery(trigger=name, table=table, headers=headers, body=body, at=0.0, seed="s"))


def recorded(path: str) -> str:
    return (RECORDED / EXAMPLES[path][0]).read_text("utf-8").strip()


@pytest.mark.parametrize("path", EXAMPLES)
def test_what_was_recorded_becomes_an_order_that_is_answered_there(path: str) -> None:
    _, headers, session, text, reply = EXAMPLES[path]
    answer = read(path, recorded(path), headers)
    assert answer.outcome == "order" and answer.session == session, answer
    assert answer.reply == reply
    assert text in (answer.order or {})["prompt"] and "<untrusted" in (answer.order or {})["prompt"]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("github/issues", {"issue": {"author_association": "NONE"}}),
        ("github/issues", {"label": {"name": "other"}}),
        ("github/comments", {"comment": {"author_association": "CONTRIBUTOR"}}),
        ("github/comments", {"comment": {"body": "Looks good."}}),
        ("gitlab/issues", {"changes": {"labels": {"previous": [{"title": "mcc"}]}}}),
        ("gitea/issues", {"action": "opened"}),
        ("github/runs", {"workflow_run": {"head_repository": {"full_name": "somebody/shop"}}}),
        ("github/runs", {"workflow_run": {"head_branch": "mcc/1234abcd"}}),
        ("github/runs", {"workflow_run": {"pull_requests": []}}),
        ("gitlab/pipelines", {"merge_request": {"source_project_id": 8}}),
        ("gitlab/pipelines", {"merge_request": None}),
        ("slack/mentions", {"team_id": "T9"}),
        ("slack/mentions", {"event": {"channel": "C9"}}),
    ],
)
def test_strangers_and_other_events_start_nothing(path: str, change: Mapping[str, Any]) -> None:
    payload = merged(json.loads(recorded(path)), change)
    assert read(path, json.dumps(payload), EXAMPLES[path][1]).outcome == "no_match"


def merged(payload: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    under = {name: merged(payload[name], value) for name, value in change.items() if isinstance(value, dict)}
    return {**payload, **change, **under}


def test_an_answer_of_a_thread_is_its_next_turn() -> None:
    payload = merged(
        json.loads(recorded("slack/mentions")), {"event": {"ts": "1800000009.000200", "thread_ts": "1800000000.000100"}}
    )
    answer = read("slack/mentions", json.dumps(payload), {})
    assert (answer.session, answer.reply) == ("slack/C1/1800000000.000100", THREAD)


def test_the_tables_of_both_pages_are_settings(tmp_path: Path) -> None:
    for number, table in enumerate(TABLES):
        of_service = {name: value for name, value in table.items() if name != "mcc"} | dict(table.get("mcc", {}))
        assert ServiceSettings.model_validate({"data_dir": tmp_path / str(number), **of_service})


def test_every_table_of_both_pages_is_tried_here() -> None:
    assert {table["path"] for file in TABLES for table in file.get("triggers", {}).values()} == set(EXAMPLES)
