"""A reply whose tool calls have not all ended."""

from dataclasses import dataclass, field
from datetime import datetime

from mcc.contracts.blocks import ToolCall
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.contracts.model_facts import ModelReplied
from mcc.transcript.messages import Picture, ToolResult, ToolResults


@dataclass(slots=True)
class OpenReply:
    """A reply whose tool calls have not all ended; `started` and `finished` entries by call id. `begun_at`: when those
    calls began that another drone had started."""

    reply: ModelReplied
    started: dict[str, ToolStarted] = field(default_factory=dict)
    finished: dict[str, ToolFinished] = field(default_factory=dict)
    begun_at: dict[str, datetime] = field(default_factory=dict, compare=False)
    calls: tuple[ToolCall, ...] = field(init=False)
    _by_id: dict[str, ToolCall] = field(init=False)

    def __post_init__(self) -> None:
        self.calls = self.reply.tool_calls
        # Of equal ids the first counts.
        self._by_id = {call.call_id: call for call in reversed(self.calls)}

    @property
    def is_done(self) -> bool:
        return len(self.finished) == len(self.calls)

    def call(self, call_id: str) -> ToolCall | None:
        return self._by_id.get(call_id)

    def results(self, missing: str = "") -> ToolResults:
        """The results in the order of the calls; `missing` is the error of a call that has none."""
        return ToolResults(tuple(_result(call, self.finished.get(call.call_id), missing) for call in self.calls))


def _result(call: ToolCall, end: ToolFinished | None, missing: str) -> ToolResult:
    if end is None:
        return ToolResult(call.call_id, call.name, missing, True)
    return ToolResult(end.call_id, end.name, end.content, end.is_error, tuple(map(Picture, end.images)))
