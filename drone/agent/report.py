"""This room is for the report: how an agent's run ended and what it brought."""

from dataclasses import dataclass

from mcc.contracts.record import AgentEnd, RecordStatus
from mcc.contracts.usage import Usage


@dataclass(frozen=True, slots=True)
class Report:
    """`text` is the final answer, or what there was of it when the run stopped short; `error` says why it did.

    `usage` is that of the run's own model calls, without its children's. `limit` names the limit that was reached.
    """

    status: AgentEnd
    text: str
    record_id: str
    usage: Usage = Usage()
    error: str | None = None
    limit: str | None = None

    @property
    def completed(self) -> bool:
        return self.status is RecordStatus.COMPLETED


class LimitReached(Exception):
    """A limit of the turn or the agent is used up; `limit` is its name in `Limits`."""

    def __init__(self, limit: str, allowed: float) -> None:
        super().__init__(f"the limit {limit} ({allowed:g}) is reached")
        self.limit = limit
