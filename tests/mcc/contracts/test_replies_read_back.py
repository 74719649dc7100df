"""A reply is stored as its blocks; what a service computes from them beside them is dropped when it is read back."""

import json

from mcc.contracts.entry import Entry, fact_of
from mcc.contracts.shape import to_json
from tests.mcc.contracts.samples import SAMPLES


def test_an_entry_with_what_follows_from_its_blocks_is_read_back() -> None:
    """A client reads replies from a service, which sends `text`, `thinking` and `tool_calls` beside the blocks."""
    entry = SAMPLES["journal-model.replied"]
    assert isinstance(entry, Entry)
    assert Entry.model_validate(json.loads(to_json(entry))) == entry


def test_the_journal_keeps_of_a_reply_only_its_blocks() -> None:
    entry = SAMPLES["journal-model.replied"]
    assert isinstance(entry, Entry)
    kept = json.loads(to_json(entry.data.stored))
    assert {"text", "thinking", "tool_calls"}.isdisjoint(kept)
    assert fact_of("model.replied", kept) == entry.data
