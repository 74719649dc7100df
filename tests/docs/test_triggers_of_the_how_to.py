"""The tables of the how-to on deliveries take what forges and chats send, and only from whom they say."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcc.configuration.triggers import TriggerTable
from mcc.triggers.checking import check_table
from mcc.triggers.reading import AnswerOfDelivery, QuestionOfDelivery, answered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "take-deliveries.md").read_text("utf-8")
RECORDED = ROOT / "tests" / "mcc" / "triggers" / "recorded"
TABLES: Mapping[str, Any] = tomllib.loads(PAGE.partition("```toml\n")[2].partition("```")[0])["triggers"]
FORM = {"content-type": "application/x-www-form-urlencoded"}


def read(name: str, body: str, headers: Mapping[str, str]) -> AnswerOfDelivery:
    table = TriggerTable.model_validate(TABLES[name])
    check_table(table)
    asked = QuestionOfDelivery(trigger=name, table=table, headers=headers, body=body, at=0.0, seed="s")
    return answered(asked)


@pytest.mark.parametrize(
    ("name", "file", "headers", "session", "text"),
    [
        ("issues", "issue-labeled.json", {"x-github-event": "issues"}, "team/shop#7", "Totals are off by one"),
        ("comments", "issue-comment.json", {"x-github-event": "issue_comment"}, "team/shop#7", "add a test as well"),
        ("pipelines", "pipeline-failed.json", {"x-gitlab-event": "Pipeline Hook"}, None, "/pipelines/5"),
        ("chat", "command.txt", FORM, None, "Where is the total computed?"),
    ],
)
def test_what_was_recorded_becomes_an_order(
    name: str, file: str, headers: Mapping[str, str], session: str | None, text: str
) -> None:
    answer = read(name, (RECORDED / file).read_text("utf-8").strip(), headers)
    assert answer.outcome == "order" and answer.session == session, answer
    assert text in (answer.order or {})["prompt"] and "<untrusted" in (answer.order or {})["prompt"]


@pytest.mark.parametrize(
    ("name", "file", "event", "writer"),
    [
        ("issues", "issue-labeled.json", "issues", "issue"),
        ("comments", "issue-comment.json", "issue_comment", "comment"),
    ],
)
def test_strangers_start_nothing(name: str, file: str, event: str, writer: str) -> None:
    payload = json.loads((RECORDED / file).read_text("utf-8"))
    payload[writer]["author_association"] = "NONE"
    assert read(name, json.dumps(payload), {"x-github-event": event}).outcome == "no_match"


def test_every_table_of_the_page_is_tried_here() -> None:
    assert set(TABLES) == {"issues", "comments", "pipelines", "chat"}
