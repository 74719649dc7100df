"""Journals of older versions are read as those of today: their golden files stay, and nothing of them is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcc.contracts.entry import Entry
from mcc.contracts.journal import JOURNAL_VERSION, READABLE_VERSIONS
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from tests.mcc.contracts.golden import FOLDER
from tests.mcc.contracts.samples import SAMPLES

OLD = FOLDER / "version-2"
ENTRIES = sorted(OLD.glob("journal-*.json"))
ADDED = {"agent.started": {"definition_origin": None}, "tool.finished": {"untrusted": False}}
"""What version 3 says of an entry of version 2 that did not say it."""


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_older_versions_are_readable_and_the_newest_is_written() -> None:
    assert frozenset(range(1, JOURNAL_VERSION + 1)) == READABLE_VERSIONS


def test_every_kind_of_entry_of_the_version_before_is_kept() -> None:
    assert {path.stem for path in ENTRIES} == {name for name in SAMPLES if name.startswith("journal-")}


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_of_version_2_is_read_as_it_was_with_what_was_added_at_rest(path: Path) -> None:
    old = document(path)
    read = json.loads(to_json(Entry.model_validate(old)))
    assert read == {**old, "data": {**old["data"], **ADDED.get(old["kind"], {})}}


def test_a_record_of_version_2_is_read_without_marks_and_origins() -> None:
    record = ChatRecord.model_validate(document(OLD / "chat-record.json"))
    assert record.definition_origin is None
    assert not any(getattr(step, "untrusted", False) for step in record.steps)
