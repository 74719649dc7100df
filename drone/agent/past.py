"""This room is for what a journal says of a turn that began elsewhere, so that each of its agents can go on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

from drone.agent.report import Cause, Report
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    AgentStep,
    Entry,
    Fact,
    ModelFellBack,
    ModelReplied,
    ModelRetried,
    ModelStarted,
    OrderClaimed,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderWaiting,
    Origin,
    Outcome,
    ToolFinished,
)
from mcc.contracts.usage import Usage


@dataclass(slots=True)
class RecordPast:
    """One agent's run so far. `facts` are all of its entries after its start, in their order.

    The first `copied` of them are those of the order that this one was forked from. `asked` is a model call that was
    begun and brought nothing yet; `put_off`: its provider wanted to be asked again later. `began_after` is for how many
    seconds drones had worked on the turn when it began.
    """

    origin: Origin
    started: AgentStarted
    facts: list[Fact] = field(default_factory=list)
    finished: AgentFinished | None = None
    asked: ModelStarted | None = None
    put_off: bool = False
    copied: int = 0
    began_after: float = 0.0

    @property
    def usage(self) -> Usage:
        """What its own model calls took."""
        return sum_of(self.facts)

    @property
    def spent(self) -> Usage:
        """What they took in this order."""
        return sum_of(self.facts[self.copied :])

    def report(self) -> Report:
        """How it ended. Raises ValueError while it has not."""
        end = self.finished
        if end is None:
            raise ValueError(f"the agent {self.origin.record_id} has not ended")
        replies = [fact for fact in self.facts if isinstance(fact, ModelReplied)]
        return Report(
            status=end.status,
            text=end.answer or "",
            record_id=self.origin.record_id or "",
            usage=self.usage,
            error=end.error,
            limit=end.limit,
            cause=None if end.cause is None else Cause(end.cause),
            result=end.result,
            agent=self.origin.agent or "",
            title=self.started.title,
            rounds=len(replies),
            model=self.started.model.effective,
        )


class Past:
    """The whole turn so far. `lost` are model calls whose replies no drone will ever see: they count as reserved.

    `spawned` counts subagents, `calls` tool calls that were not denied, `seconds` how long drones have worked on it; as
    with the usage, what was copied from another order was spent there.
    """

    def __init__(self) -> None:
        self.records: dict[str, RecordPast] = {}
        self.lost: list[ModelStarted] = []
        self.spawned = 0
        self.calls = 0
        self.seconds = 0.0
        self._claimed_at: datetime | None = None
        self._last_at: datetime | None = None
        self._copied_until = 0

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Past":
        """Entries must come in their order, from the first on."""
        past = cls()
        for entry in entries:
            past.add(entry)
        past.close()
        return past

    def add(self, entry: Entry) -> None:
        fact = entry.data
        if isinstance(fact, OrderClaimed | OrderRequeued | OrderHandedBack | OrderWaiting):
            self._end_span()
            self._claimed_at = entry.at if isinstance(fact, OrderClaimed) else None
        self._last_at = entry.at
        if isinstance(fact, OrderQueued):
            self._copied_until = fact.forked.until if fact.forked else 0
        if entry.record_id is None:
            return
        if isinstance(fact, AgentStarted):
            self._begin(entry, fact)
        elif entry.record_id in self.records:
            self._tell(self.records[entry.record_id], fact, copied=entry.seq <= self._copied_until)

    def close(self) -> None:
        """Nothing more comes: what is open now was lost with its drone."""
        self._end_span()
        self._claimed_at = None
        self.lost.extend(record.asked for record in self.records.values() if record.asked and not record.finished)

    def record(self, record_id: str) -> RecordPast | None:
        return self.records.get(record_id)

    @property
    def root(self) -> str | None:
        """The record of the agent that the turn began with; None before it began."""
        return next((record_id for record_id, record in self.records.items() if record.origin.parent_id is None), None)

    @property
    def unfinished(self) -> list[str]:
        """Records of agents below the root that were at work."""
        return [
            record_id
            for record_id, record in self.records.items()
            if record.finished is None and record.origin.parent_id is not None
        ]

    @property
    def put_off(self) -> frozenset[str | None]:
        """Records of agents that waited until their provider wanted to be asked again, of all above them, and None."""
        found: set[str | None] = set()
        for record in self.records.values():
            if record.put_off and record.finished is None:
                found.update(self._upwards(record.origin.record_id))
        return frozenset(found)

    @property
    def reports(self) -> list[Report]:
        """Those of all subagents that have ended; of a copy also the one that its parent was told of."""
        ended = [record for record in self.records.values() if record.finished and record.origin.parent_id]
        copied = [(record, record.started.forked_from) for record in ended if record.started.forked_from]
        return [record.report() for record in ended] + [
            replace(record.report(), record_id=source) for record, source in copied
        ]

    @property
    def artifacts(self) -> list[str]:
        """Digests of the texts that tool results name."""
        done = [fact for record in self.records.values() for fact in record.facts if isinstance(fact, ToolFinished)]
        return [one.artifact for one in done if one.artifact is not None]

    def succeeded(self, tool: str) -> bool:
        """Whether a call of this tool came to a good end, by any agent."""
        done = (fact for record in self.records.values() for fact in record.facts if isinstance(fact, ToolFinished))
        return any(one.name == tool and not one.is_error for one in done)

    @property
    def usage(self) -> Usage:
        total = Usage()
        for record in self.records.values():
            total = total.plus(record.spent)
        return total

    def _begin(self, entry: Entry, fact: AgentStarted) -> None:
        assert entry.record_id is not None
        self.records[entry.record_id] = RecordPast(entry.origin, fact, began_after=self._worked_until(entry.at))
        if entry.parent_id is not None and fact.continues is None and entry.seq > self._copied_until:
            self.spawned += 1

    def _tell(self, record: RecordPast, fact: Fact, *, copied: bool) -> None:
        record.facts.append(fact)
        record.copied += copied
        match fact:
            case ModelStarted():
                if record.asked is not None and not copied:
                    self.lost.append(record.asked)
                record.asked, record.put_off = fact, False
            case ModelReplied() | ModelRetried() | ModelFellBack():
                record.asked = None
                record.put_off = isinstance(fact, ModelRetried)
            case ToolFinished() if fact.outcome is not Outcome.DENIED and not copied:
                self.calls += 1
            case AgentFinished():
                record.finished, record.asked = fact, None

    def _upwards(self, record_id: str | None) -> Iterator[str | None]:
        while record_id is not None:
            yield record_id
            record_id = self.records[record_id].origin.parent_id
        yield None

    def _end_span(self) -> None:
        if self._last_at is not None:
            self.seconds = self._worked_until(self._last_at)

    def _worked_until(self, at: datetime) -> float:
        """`seconds` as they were then, under the claim that is read."""
        if self._claimed_at is None:
            return self.seconds
        return self.seconds + max(0.0, (at - self._claimed_at).total_seconds())


def sum_of(facts: Iterable[Fact]) -> Usage:
    """What the model calls of these entries took."""
    total = Usage()
    for fact in facts:
        if isinstance(fact, ModelReplied | AgentStep) and fact.usage is not None:
            total = total.plus(fact.usage)
    return total
