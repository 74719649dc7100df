"""What a gate and people have decided about a run so far: submissions, pauses, removed tools, metadata."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcc.contracts.blocks import ToolCall
from mcc.contracts.control import merged
from mcc.contracts.journal import ControlApplied, GateChecked, ToolFinished
from mcc.contracts.model_facts import ModelReplied
from mcc.transcript.transcript import REPLY, as_submission


@dataclass(slots=True)
class GateState:
    """The outcomes of a run's submissions."""

    tried: int = 0
    """Their number, replies without a tool call included."""
    only_replied: bool = False
    """The last attempt was a reply without a tool call."""
    errors: tuple[str, ...] = ()
    """Those of the last attempt."""
    accepted: ToolCall | None = None
    """The call whose result was accepted, unless something came after it."""
    best: ToolCall | None = None
    """The refused call with the fewest errors, the latest of several."""
    faults: frozenset[str] = frozenset()
    """Errors of rules that could not be evaluated."""
    broken: str = ""
    """The first of them that came twice."""
    _fewest: int = 0
    _refused: bool = False
    _only_asked: bool = False

    def fails_again(self, faults: Iterable[str]) -> bool:
        return not self.faults.isdisjoint(faults)

    def apply(self, checked: GateChecked, reply: ModelReplied | None) -> None:
        """`reply`: the last reply, if it called no tool; its text may be the result."""
        self._only_asked = checked.check_only
        if checked.check_only:
            return
        self.tried, self.errors = checked.attempt, checked.errors
        self.only_replied = checked.tool == REPLY
        self.broken = self.broken or next((fault for fault in checked.faults if fault in self.faults), "")
        self.faults |= {*checked.faults}
        self._refused = not checked.ok and checked.tool != REPLY
        self.accepted = as_submission(reply) if checked.ok and self.only_replied and reply is not None else None

    def sent_back(self) -> None:
        """A verifier sent back the accepted result: attempts start over, and that result stays the best so far."""
        self.best, self._fewest, self.tried = self.accepted or self.best, 0, 0

    def ended(self, call: ToolCall, done: ToolFinished) -> None:
        """A call of a finish tool has ended; the last check entry belongs to it."""
        if not done.is_error and not self._only_asked:
            self.accepted = call
        if self._refused and (self.best is None or len(self.errors) <= self._fewest):
            self.best, self._fewest = call, len(self.errors)
        self._refused = False


@dataclass(slots=True)
class Restraints:
    """The lasting effects of people's controls: a pause, removed tools (names and groups), metadata."""

    paused: bool = False
    tools_removed: frozenset[str] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, asked: ControlApplied) -> None:
        if asked.metadata is not None:
            self.metadata = merged(self.metadata, asked.metadata)
        self.paused = asked.paused(self.paused)
        if asked.tools_removed:
            self.tools_removed |= {*asked.tools_removed}
