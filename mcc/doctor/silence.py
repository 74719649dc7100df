"""This room is for reading, from an order's newest entries, what it waits for."""

from collections.abc import Iterable
from dataclasses import replace

from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import (
    AgentFinished,
    ControlApplied,
    Entry,
    ModelReplied,
    ModelRetried,
    ModelStarted,
    ToolFinished,
    ToolStarted,
)
from mcc.doctor.chart import OpenCall, Silence

_Key = tuple[str | None, str]


def silence_of(entries: Iterable[Entry]) -> Silence:
    """What is open after these entries; they may begin in the middle of a journal."""
    calls: dict[_Key, OpenCall] = {}
    paused = False
    for entry in entries:
        match entry.data:
            case ModelStarted() as begun:
                calls[entry.record_id, f"model {begun.round}"] = _call("model", begun.model, entry)
            case ModelRetried() as again:
                key = (entry.record_id, f"model {again.round}")
                calls[key] = replace(_call("model", again.model, entry), waits_seconds=again.wait_seconds)
            case ModelReplied() as reply:
                calls.pop((entry.record_id, f"model {reply.round}"), None)
            case ToolStarted() as begun_tool:
                calls[entry.record_id, begun_tool.call_id] = _call("tool", begun_tool.name, entry)
            case ToolFinished() as done:
                calls.pop((entry.record_id, done.call_id), None)
            case AgentFinished():
                calls = {key: call for key, call in calls.items() if key[0] != entry.record_id}
            case ControlApplied(control="pause" | "resume") as control:
                whole = entry.record_id in (None, root_record_id(entry.order_id))
                paused = control.control == "pause" if whole else paused
            case _:
                pass
    return Silence(tuple(sorted(calls.values(), key=lambda call: call.since)), paused)


def _call(kind: str, name: str, entry: Entry) -> OpenCall:
    return OpenCall(kind, name, entry.agent or "", entry.at)
