"""Random controls at random moments on random trees: each has exactly one outcome and keeps its promise."""

from collections import Counter

import pytest

from mcc.contracts.entry import Entry
from mcc.contracts.fold import Fold
from mcc.contracts.journal import AgentFinished, ControlApplied, Outcome, ToolFinished, ToolStarted
from mcc.contracts.record import RecordStatus
from tests.drone.agent.random_trees import ORDER, Wood


@pytest.mark.parametrize("seed", range(30))
async def test_every_control_has_one_outcome_and_every_tree_its_end(seed: int) -> None:
    wood = Wood(seed)
    await wood.run()
    entries = wood.journal.entries
    assert Fold.of(ORDER, entries).record() == wood.journal.fold.record()
    started = Counter(entry.record_id for entry in entries if entry.kind == "agent.started")
    ended = Counter(entry.record_id for entry in entries if entry.kind == "agent.finished")
    assert started == ended and set(started.values()) == {1}
    calls = Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolStarted))
    assert calls == Counter(entry.data.call_id for entry in entries if isinstance(entry.data, ToolFinished))
    applied = {entry.data.control_id: entry.seq for entry in entries if isinstance(entry.data, ControlApplied)}
    assert len(applied) == sum(isinstance(entry.data, ControlApplied) for entry in entries)
    for control in wood.steering.asked:
        assert (control.applied_seq is None) != (control.refused is None), control
        assert applied.get(control.id) == control.applied_seq
    keeps_its_promises(entries)


def keeps_its_promises(entries: list[Entry]) -> None:
    """Nothing starts below a cancelled or paused agent, and removed tools are not used any more."""
    above = {entry.record_id: entry.parent_id for entry in entries if entry.record_id}
    root = entries[0].record_id
    cancelled: set[str] = set()
    paused: set[str] = set()
    narrowed: set[str] = set()
    denied: set[str] = set()
    for entry in entries:
        whose = entry.record_id or root
        assert whose is not None
        line = set(upwards(whose, above))
        match entry.data:
            case ControlApplied(control="cancel"):
                cancelled.add(whose)
            case ControlApplied(control="pause"):
                paused.add(whose)
            case ControlApplied(control="resume"):
                paused.discard(whose)
            case ControlApplied(tools_removed=removed) if removed:
                narrowed.add(whose)
            case ToolStarted(name="write", call_id=call_id) if line & narrowed:
                denied.add(call_id)
            case ToolFinished(call_id=call_id) if call_id in denied:
                assert entry.data.outcome is not Outcome.OK
            case AgentFinished(status=status) if whose in cancelled:
                assert status is RecordStatus.CANCELLED
        if entry.kind in ("model.started", "tool.started"):
            assert not line & cancelled, f"{entry.kind} at {entry.seq} below a cancelled agent"
            assert not line & paused, f"{entry.kind} at {entry.seq} below a paused agent"


def upwards(record_id: str, above: dict[str, str | None]) -> list[str]:
    found: list[str] = []
    each: str | None = record_id
    while each is not None:
        found.append(each)
        each = above.get(each)
    return found
