"""Entries of older journal versions are read in the newest shape; their golden files stay as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcc.contracts.entry import Entry, fact_of
from mcc.contracts.journal import JOURNAL_VERSION, READABLE_VERSIONS, AgentStarted
from mcc.contracts.limits import TOKENS
from mcc.contracts.record import ChatRecord
from mcc.contracts.shape import to_json
from tests.mcc.contracts.golden import FOLDER
from tests.mcc.contracts.samples import CALL, ODD, SAMPLES

VERSIONS = (2, 3)
"""Older versions with golden files. Version 1 has none, because it differs from version 2 only in `agent.started`."""

ENTRIES = sorted(path for version in VERSIONS for path in (FOLDER / f"version-{version}").glob("journal-*.json"))
ADDED: dict[str, dict[str, Any]] = {
    "agent.started": {"definition_origin": None, "environment": "", "model_settings": None, "finish_tools": []}
    | {"node": None},
    "tool.finished": {"untrusted": False, "images": [], "exit_code": None, "job": None, "found": [], "files": {}},
    "model.replied": {"request_id": "", "context_tokens": None},
    "agent.step": {"in_results": False},
    "document.changed": {"node": "", "fields": [], "by": "agent", "command_id": None},
    "budget.warned": {"landing": False, "in_results": False},
    "gate.checked": {"check_only": True, "faults": [], "warnings": []},
    "control.applied": {"metadata": None},
    "order.queued": {"metadata": {}},
    "tool.started": {"approval_id": None},
    "approval.requested": {"arguments": {}, "again": None, "expires_at": None}
    | dict.fromkeys(("effects", "profile", "workspace", "preview", "why", "would_save")),
    "approval.decided": {"digest": "", **dict.fromkeys(("by", "remember", "profile", "why", "expires_at"))}
    | {"control_id": None},
    "question.asked": {"default": None, "expires_at": None},
    "question.answered": {"by": None, "expired": False, "control_id": None},
    "transcript.compacted": {"clipped": [], "window_tokens": None, "tokens_before": 0, "tokens_after": 0},
}
"""By kind, the values of fields that older versions do not have."""

NEW = {
    "journal-verify.checked",
    "journal-workspace.checkpointed",
    "journal-workspace.committed",
    "journal-worktree.made",
    "journal-worktree.ended",
}
"""Golden files of kinds that no older version has."""

BLOCKS = [
    {"type": "redacted", "data": "c2VhbGVk"},
    {"type": "text", "text": ODD, "extra": None},
    {"type": "tool_call", "call_id": CALL, "provider_id": "toolu_1", "name": "read_file", "extra": None}
    | {"arguments": {"path": "README.md"}},
]


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def as_today(entry: dict[str, Any]) -> dict[str, Any]:
    data = {**ADDED.get(entry["kind"], {}), **entry["data"]}
    if "tool_digest" in data:
        assert data.pop("tool_digest") == "b" * 64
        data["digest"] = data.pop("arguments_digest")
    if "thoughts" in data:
        assert data.pop("thoughts")[0]["sealed"] == "c2VhbGVk"
        data |= {"blocks": BLOCKS, "thinking": ""}
    if isinstance(data.get("usage"), dict):
        data["usage"] = {"cache_write_tokens": 0, **data["usage"]}
    if entry["kind"] == "agent.started":
        data["limits"] = {which: {**dict.fromkeys(TOKENS), **limits} for which, limits in data["limits"].items()}
    return {**entry, "data": data}


def test_older_versions_are_readable_and_the_newest_is_written() -> None:
    assert frozenset(range(1, JOURNAL_VERSION + 1)) == READABLE_VERSIONS
    assert VERSIONS[-1] + 1 == JOURNAL_VERSION


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_entry_of_the_versions_before_is_kept(version: int) -> None:
    names = {path.stem for path in (FOLDER / f"version-{version}").glob("journal-*.json")}
    assert names == {name for name in SAMPLES if name.startswith("journal-")} - NEW


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_entry_of_an_older_version_is_read_as_it_was_with_what_was_added_at_rest(path: Path) -> None:
    old = document(path)
    assert json.loads(to_json(Entry.model_validate(old))) == as_today(old)


@pytest.mark.parametrize(
    ("tools", "own"),
    [(("read_file", "submit_result", "validate"), ("submit_result", "validate")), (("read_file", "validate"), ())],
)
def test_an_agent_with_a_gate_was_known_by_its_two_tools(tools: tuple[str, ...], own: tuple[str, ...]) -> None:
    old = document(FOLDER / "version-3" / "journal-agent.started.json")
    old["data"]["tools"] = list(tools)
    started = Entry.model_validate(old).data
    assert isinstance(started, AgentStarted) and started.finish_tools == own


def test_an_entry_with_what_follows_from_its_blocks_is_read_back() -> None:
    """A client reads replies from a service, which sends `text`, `thinking` and `tool_calls` beside the blocks."""
    entry = SAMPLES["journal-model.replied"]
    assert isinstance(entry, Entry)
    assert Entry.model_validate(json.loads(to_json(entry))) == entry


def test_the_journal_keeps_of_a_reply_only_its_blocks() -> None:
    fact = fact_of("model.replied", document(FOLDER / "version-3" / "journal-model.replied.json")["data"])
    kept = json.loads(to_json(fact.stored))
    assert {"text", "thinking", "tool_calls"}.isdisjoint(kept)
    assert fact_of("model.replied", kept) == fact


@pytest.mark.parametrize("version", VERSIONS)
def test_a_record_of_an_older_version_is_read(version: int) -> None:
    record = ChatRecord.model_validate(document(FOLDER / f"version-{version}" / "chat-record.json"))
    assert not any(getattr(step, "blocks", ()) for step in record.steps)
