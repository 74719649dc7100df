"""This room is for conversations that a lost drone held: a child's records in the journal, read back into one."""

from collections.abc import Collection
from dataclasses import dataclass

from drone.agent.past import Past, RecordPast
from drone.agent.subagents.assignments import Assignment, BadAssignment, assignment_of, assignments_of
from drone.agent.subagents.offers import SUBAGENTS_RUN
from drone.agent.turn import Turn
from mcc.contracts.ids import child_record_id
from mcc.contracts.journal import Origin, ToolStarted


@dataclass(frozen=True, slots=True)
class Spawner:
    """The call that began a child, as the journal knows it."""

    call_id: str
    origin: Origin
    turn: Turn


def chain_of(past: Past, record_id: str, *, without: str) -> list[RecordPast]:
    """The ended records of the conversation that `record_id` belongs to, oldest first, up to the one `without`."""
    first = past.record(record_id)
    while first is not None and first.started.continues is not None:
        first = past.record(first.started.continues)
    chain: list[RecordPast] = []
    following = {one.started.continues: one for one in past.records.values() if one.started.continues}
    one = first
    while one is not None and one.finished is not None and one.origin.record_id != without:
        chain.append(one)
        one = following.get(one.origin.record_id or "")
    return chain


def assignment_in(past: Past, child: RecordPast, offered: Collection[str], most: int) -> tuple[int, Assignment] | None:
    """What a child was asked for, and its place among the children of its call; None when the journal cannot say."""
    parent, call_id = past.record(child.origin.parent_id or ""), child.started.call_id
    if parent is None or call_id is None:
        return None
    calls = (fact for fact in parent.facts if isinstance(fact, ToolStarted) and fact.call_id == call_id)
    call = next(calls, None)
    if call is None or not isinstance(call.arguments, dict):
        return None
    try:
        if call.name != SUBAGENTS_RUN:
            return 0, assignment_of(call.arguments, offered)
        agents = assignments_of(call.arguments, most).agents
    except BadAssignment:
        return None
    places = (index for index in range(len(agents)) if child_record_id(call_id, index) == child.origin.record_id)
    index = next(places, None)
    return None if index is None else (index, agents[index])
