"""Open calls: model and tool calls that the journal has no answer to yet."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted

_MODEL = "model"
"""Stands in for a call id: a record has at most one open model call."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A model or tool call without an answer; `since` is the time of its newest entry.

    `waits_seconds`: the announced pause before the next try. `begun` False: the model requested a tool call that has
    not started yet.
    """

    kind: Literal["model", "tool"]
    name: str
    agent: str
    since: datetime
    waits_seconds: float = 0.0
    begun: bool = True


class OpenCallTracker:
    """Tracks which calls are open, from the entries of one journal in order; the first entry may be any."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str | None, str], OpenCall] = {}

    @property
    def calls(self) -> tuple[OpenCall, ...]:
        """Oldest request first, so a delegating call comes before the calls of the agents that it runs."""
        return tuple(self._calls.values())

    def add(self, entry: Entry) -> None:
        record_id = entry.record_id
        match entry.data:
            case AgentStarted() if entry.parent_id is None:
                self._calls.clear()
            case AgentFinished():
                self._calls = {key: call for key, call in self._calls.items() if key[0] != record_id}
            case ModelStarted() as started:
                self._calls[record_id, _MODEL] = _call("model", started.model, entry)
            case ModelRetried() as retried:
                waiting = replace(_call("model", retried.model, entry), waits_seconds=retried.wait_seconds)
                self._calls[record_id, _MODEL] = waiting
            case ModelReplied() as reply:
                self._reply(entry, reply)
            case ToolStarted() as started:
                self._calls[record_id, started.call_id] = _call("tool", started.name, entry)
            case ToolFinished() as finished:
                self._calls.pop((record_id, finished.call_id), None)

    def _reply(self, entry: Entry, reply: ModelReplied) -> None:
        """Close the model call, drop requested calls of earlier replies that never started, add this reply's calls."""
        never_started = {key for key, call in self._calls.items() if key[0] == entry.record_id and not call.begun}
        for key in (*never_started, (entry.record_id, _MODEL)):
            self._calls.pop(key, None)
        for requested in reply.tool_calls:
            self._calls[entry.record_id, requested.call_id] = replace(_call("tool", requested.name, entry), begun=False)


def _call(kind: Literal["model", "tool"], name: str, entry: Entry) -> OpenCall:
    return OpenCall(kind, name, entry.agent or "", entry.at)
