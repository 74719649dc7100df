"""The tables of the how-to on deliveries take what forges and chats send, and only from whom they say."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mcc.configuration.triggers import TriggerTable
from mcc.settings import ServiceSettings
from mcc.triggers.checking import check_table
from mcc.triggers.reading import AnswerOfDelivery, QuestionOfDelivery, answered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "take-deliveries.md").read_text("utf-8")
RECORDED = ROOT / "tests" / "mcc" / "triggers" / "recorded"
FILE: Mapping[str, Any] = tomllib.loads(PAGE.partition("```toml\n")[2].partition("```")[0])
TABLES: Mapping[str, Any] = FILE["triggers"]
PLACES = {"forge": FILE["forges"], "slack": FILE["slack"]}
ISSUE = {"forge": "hub", "project": "team/shop", "number": 7}
REQUEST = {"forge": "lab", "project": "team/shop", "number": 3, "merge_request": True}
CHANNEL = {"slack": "team", "channel": "C1"}
THREAD = {**CHANNEL, "thread": "1700000000.000100"}
FORM = {"content-type": "application/x-www-form-urlencoded"}


def read(name: str, body: str, headers: Mapping[str, str]) -> AnswerOfDelivery:
    table = TriggerTable.model_validate(TABLES[name])
    check_table(table, PLACES)
    asked = QuestionOfDelivery(trigger=name, table=table, headers=headers, body=body, at=0.0, seed="s")
    return answered(asked)


@pytest.mark.parametrize(
    ("name", "file", "headers", "session", "text", "reply"),
    [
        ("issues", "issue-labeled.json", {"x-github-event": "issues"}, "team/shop#7", "Totals are off by one", ISSUE),
        (
            "comments",
            "issue-comment.json",
            {"x-github-event": "issue_comment"},
            "team/shop#7",
            "add a test as well",
            ISSUE,
        ),
        ("pipelines", "pipeline-failed.json", {"x-gitlab-event": "Pipeline Hook"}, None, "/pipelines/5", REQUEST),
        ("chat", "command.txt", FORM, None, "Where is the total computed?", CHANNEL),
        ("mentions", "mention.json", {}, "C1/1700000000.000100", "where is the total", THREAD),
    ],
)
def test_what_was_recorded_becomes_an_order(
    name: str, file: str, headers: Mapping[str, str], session: str | None, text: str, reply: Any
) -> None:
    answer = read(name, (RECORDED / file).read_text("utf-8").strip(), headers)
    assert answer.outcome == "order" and answer.session == session, answer
    assert answer.reply == reply
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


def test_a_pipeline_of_no_request_starts_nothing() -> None:
    payload = json.loads((RECORDED / "pipeline-failed.json").read_text("utf-8")) | {"merge_request": None}
    assert read("pipelines", json.dumps(payload), {"x-gitlab-event": "Pipeline Hook"}).outcome == "no_match"


def test_the_tables_of_the_page_are_settings(tmp_path: Path) -> None:
    settings = ServiceSettings.model_validate({"data_dir": tmp_path, **FILE})
    assert {name: set(names) for name, names in settings.reply_places.items() if names} == {
        place: set(names) for place, names in PLACES.items()
    }


def test_every_table_of_the_page_is_tried_here() -> None:
    assert set(TABLES) == {"issues", "comments", "pipelines", "chat", "mentions"}
