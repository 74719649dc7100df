"""Open calls: models that were asked and tools that were wanted, without an answer in the journal so far."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentFinished, AgentStarted, ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted

_MODEL = "model"
"""Stands for the call id of a record's model call, of which there is one at a time."""


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A model or tool call without an answer; `since` is the time of its newest entry.

    `waits_seconds`: the pause announced before the next try. `begun` False: a model wants a tool that was not started.
    """

    kind: Literal["model", "tool"]
    name: str
    agent: str
    since: datetime
    waits_seconds: float = 0.0
    begun: bool = True


class OpenCallTracker:
    """Takes in the entries of one journal in their order, beginning anywhere, and knows which calls are open."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str | None, str], OpenCall] = {}

    @property
    def calls(self) -> tuple[OpenCall, ...]:
        """In the order in which they were asked for, so that a call stands before those of the agents that it runs."""
        return tuple(self._calls.values())

    def add(self, entry: Entry) -> None:
        record_id = entry.record_id
        match entry.data:
            case AgentStarted() if entry.parent_id is None:
                self._calls.clear()
            case AgentFinished():
                self._calls = {key: call for key, call in self._calls.items() if key[0] != record_id}
            case ModelStarted() as asked:
                self._calls[record_id, _MODEL] = _call("model", asked.model, entry)
            case ModelRetried() as again:
                waiting = replace(_call("model", again.model, entry), waits_seconds=again.wait_seconds)
                self._calls[record_id, _MODEL] = waiting
            case ModelReplied() as reply:
                self._reply(entry, reply)
            case ToolStarted() as begun:
                self._calls[record_id, begun.call_id] = _call("tool", begun.name, entry)
            case ToolFinished() as done:
                self._calls.pop((record_id, done.call_id), None)

    def _reply(self, entry: Entry, reply: ModelReplied) -> None:
        """The reply answers its model call, and takes the place of what an earlier one wanted and nobody began."""
        answered = {key for key, call in self._calls.items() if key[0] == entry.record_id and not call.begun}
        for key in (*answered, (entry.record_id, _MODEL)):
            self._calls.pop(key, None)
        for wanted in reply.tool_calls:
            self._calls[entry.record_id, wanted.call_id] = replace(_call("tool", wanted.name, entry), begun=False)


def _call(kind: Literal["model", "tool"], name: str, entry: Entry) -> OpenCall:
    return OpenCall(kind, name, entry.agent or "", entry.at)
