"""The journal fact about a subagent's report that reaches its parent later than the call that started it."""

from typing import ClassVar

from mcc.contracts.fact import NotedFact
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import Text


class AgentDelivered(NotedFact):
    """A subagent that ran in the background has ended, and its parent, whose entry this is, reads its report next.

    `content` is what the parent reads: the runtime's words, then the report within a fence. `artifact` names the stored
    whole when the report is shortened. Each subagent is delivered at most once, here or by `ToolFinished.delivered`.
    """

    kind: ClassVar[str] = "agent.delivered"
    child_id: str
    status: AgentEnd
    content: Text
    artifact: str | None = None

    @property
    def in_words(self) -> Text:
        return f"reads what its subagent {self.child_id} brought: {self.status}"
