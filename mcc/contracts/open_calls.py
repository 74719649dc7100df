"""Open calls: model and tool calls that the journal has no answer to yet."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, assert_never

from mcc.contracts.entry import Entry
from mcc.contracts.fact import NotedFact
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    ControlApplied,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
)
from mcc.contracts.model_facts import ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)

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
        fact = entry.fact
        match fact:
            case ModelStarted():
                self._calls[record_id, _MODEL] = _call("model", fact.model, entry)
            case ModelReplied():
                self._reply(entry, fact)
            case ToolStarted():
                self._calls[record_id, fact.call_id] = _call("tool", fact.name, entry)
            case ToolFinished():
                self._calls.pop((record_id, fact.call_id), None)
            case ModelRetried():
                waiting = replace(_call("model", fact.model, entry), waits_seconds=fact.wait_seconds)
                self._calls[record_id, _MODEL] = waiting
            case AgentStarted():
                if entry.parent_id is None:
                    self._calls.clear()
            case AgentFinished():
                self._calls = {key: call for key, call in self._calls.items() if key[0] != record_id}
            case GateChecked() | VerifyChecked() | ControlApplied() | NotedFact():
                pass
            case OrderQueued() | OrderClaimed() | OrderRequeued() | OrderHandedBack() | OrderWaiting() | OrderResumed():
                pass
            case OrderFinished():
                pass
            case _:
                assert_never(fact)

    def _reply(self, entry: Entry, reply: ModelReplied) -> None:
        """Close the model call, drop requested calls of earlier replies that never started, add this reply's calls."""
        never_started = {key for key, call in self._calls.items() if key[0] == entry.record_id and not call.begun}
        for key in (*never_started, (entry.record_id, _MODEL)):
            self._calls.pop(key, None)
        for requested in reply.tool_calls:
            self._calls[entry.record_id, requested.call_id] = replace(_call("tool", requested.name, entry), begun=False)


def _call(kind: Literal["model", "tool"], name: str, entry: Entry) -> OpenCall:
    return OpenCall(kind, name, entry.agent or "", entry.at)
