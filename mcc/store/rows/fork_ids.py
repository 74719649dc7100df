"""The ids that the copied entries of a fork get: those of its own records, calls and entries."""

from collections.abc import Mapping
from typing import Any

from mcc.contracts.compaction import CompactedRecord, TranscriptCompacted
from mcc.contracts.entry import Draft, Entry, Origin, fact_of
from mcc.contracts.fact import Fact
from mcc.contracts.ids import (
    call_id,
    child_record_id,
    compaction_record_id,
    derived_id,
    root_record_id,
    verifier_record_id,
)
from mcc.contracts.journal import AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.contracts.shape import to_json
from mcc.rules.patterns import Pattern
from mcc.store.rows.texts import parsed

CHILDREN = 1_000
"""Indexes that are tried to find out which child of a call a record is."""

COMPACTIONS = 1_000
"""Numbers that are tried to find out which summary of its parent's conversation a record is."""

_ID = Pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


_SEALED = ("thinking", "redacted", "opaque")
"""Block types that a provider accepts back only unchanged."""


class NewIds:
    """A mapping from the ids of one order's records and calls, and its entry numbers, to those of another order."""

    def __init__(self, order_id: str) -> None:
        self._order_id = order_id
        self._new: dict[str, str] = {}
        self._numbers: dict[int, int] = {}
        self._rounds: dict[str, int] = {}

    def learn(self, entry: Entry, number: int) -> None:
        """Add the ids of an entry, which gets the number `number` in the new order."""
        self._numbers[entry.seq] = number
        # Kinds that bring no ids of their own need no case: an id is made by a start, a reply or a call.
        fact, record_id = entry.data, entry.record_id or ""
        match fact:
            case AgentStarted():
                self._new[record_id] = self._record(entry, fact)
            case ModelReplied():
                self._rounds[record_id] = fact.round
                for index, call in enumerate(fact.tool_calls):
                    self._new[call.call_id] = call_id(self._new[record_id], fact.round, index)
            case ToolStarted():
                self._new.setdefault(fact.call_id, call_id(self._new[record_id], fact.round, fact.index))
            case ToolFinished():
                # Subagents in the background are named before they have begun, if there was no room for them.
                for child_id in fact.background:
                    self._new.setdefault(child_id, self._child(child_id, fact.call_id))

    def _record(self, entry: Entry, fact: AgentStarted) -> str:
        if entry.parent_id is None:
            return root_record_id(self._order_id)
        number = self._rounds.get(entry.parent_id, 0)
        if entry.record_id == verifier_record_id(entry.parent_id, number):
            return verifier_record_id(self._new[entry.parent_id], number)
        for place in range(COMPACTIONS if isinstance(fact.context, CompactedRecord) else 0):
            if entry.record_id == compaction_record_id(entry.parent_id, place):
                return compaction_record_id(self._new[entry.parent_id], place)
        return self._child(entry.record_id or "", fact.call_id or "")

    def _child(self, record_id: str, call: str) -> str:
        """The new id of a record that this call started."""
        new = self._new.get(call, derived_id(self._order_id, call))
        index = next((index for index in range(CHILDREN) if child_record_id(call, index) == record_id), None)
        return derived_id(new, record_id) if index is None else child_record_id(new, index)

    def renamed(self, entry: Entry) -> Draft:
        origin = Origin(
            record_id=self._new.get(entry.record_id or ""),
            parent_id=self._new.get(entry.parent_id or ""),
            agent=entry.agent,
            depth=entry.depth,
        )
        return Draft(at=entry.at, origin=origin, data=self._fact(entry, entry.data))

    def _fact(self, entry: Entry, fact: Fact) -> Fact:
        """The fact with the fork's ids in place of the source's, also inside texts that models read."""
        # A tool result may tell a model the id under which it can ask a child again, and a fork, or a fork of a fork,
        # knows only its own ids (docs/decisions/06). Only ids of the source's records and calls are replaced. Blocks
        # that a provider signed or encrypted stay unchanged: otherwise their signatures would be invalid.
        document: Mapping[str, Any] = parsed(to_json(fact.stored))
        changed = {name: self._replaced(value) for name, value in document.items() if name != "blocks"}
        if "blocks" in document:
            changed["blocks"] = [
                block
                if block["type"] in _SEALED
                else {name: value if name == "extra" else self._replaced(value) for name, value in block.items()}
                for block in document["blocks"]
            ]
        if isinstance(fact, AgentStarted):
            changed["forked_from"] = entry.record_id
        if (
            isinstance(fact, TranscriptCompacted)
            and (kept := fact.kept_from) is not None
            and kept.order_id == entry.order_id
        ):
            changed["kept_from"] = {"order_id": self._order_id, "seq": self._numbers.get(kept.seq, 1)}
        return fact_of(fact.kind, changed)

    def _replaced(self, value: Any) -> Any:
        match value:
            case str():
                return (
                    self._new[value]
                    if value in self._new
                    else _ID.sub(lambda found: self._new.get(found.group(), found.group()), value)
                )
            case dict():
                return {key: self._replaced(item) for key, item in value.items()}
            case list():
                return [self._replaced(item) for item in value]
            case _:
                return value
