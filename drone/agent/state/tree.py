"""The state of a turn's agent tree, computed by applying journal entries one by one; the journal that does so."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from drone.agent.ports.journal import Journal, TextDelta
from drone.agent.ports.receipts import CallReceipt
from drone.agent.ports.report import Report
from drone.agent.state.record import RecordState
from drone.agent.state.restraints import Restraints
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.compaction import CompactedRecord, TranscriptCompacted
from mcc.contracts.control import merged
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Draft, Entry, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.git_facts import WorktreeEnded, WorktreeMade
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    AgentStep,
    BudgetWarned,
    ControlApplied,
    GitFact,
    Outcome,
    ToolFinished,
    ToolStarted,
    WorkspaceCheckpointed,
)
from mcc.contracts.model_facts import ModelReplied, ModelStarted
from mcc.contracts.order_facts import OrderClaimed, OrderHandedBack, OrderQueued, OrderRequeued, OrderWaiting
from mcc.contracts.record import AgentEnd
from mcc.contracts.shape import now
from mcc.contracts.usage import Usage
from mcc.contracts.wire import GenerationProgress
from mcc.transcript.messages import Message
from mcc.transcript.transcript import opening_message


@dataclass(slots=True)
class Tree:
    """All agents of one turn. Only entries change it: those of earlier drones (`of`), then those written here
    (`TreeJournal`). What was copied from another order is not counted, as that order paid for it."""

    records: dict[str, RecordState] = field(default_factory=dict)
    """By record id."""
    restraints: Restraints = field(default_factory=Restraints)
    """Those of the order as a whole."""
    spent: Usage = Usage()
    """The usage of all agents."""
    usd: float = 0.0
    """The part of its cost that is at known prices."""
    priced_tokens: int = 0
    """The tokens that `usd` paid for."""
    spawned: int = 0
    """Subagents."""
    calls: int = 0
    """Tool calls that were not denied."""
    unpriced_warned: bool = False
    """People have been told that the limit `cost_usd` cannot be enforced."""
    artifacts: list[str] = field(default_factory=list)
    pictures: list[ImageBlock] = field(default_factory=list)
    """Digests of texts named in tool results."""
    git_facts: list[Fact] = field(default_factory=list)
    """Commits, worktrees and deliveries."""
    succeeded: set[str] = field(default_factory=set)
    """Tools with a successful call by any agent."""
    ended: list[str] = field(default_factory=list)
    """Record ids of the agents that have ended, in the order of their ends."""
    jobs: list[str] = field(default_factory=list)
    """Handles of background jobs."""
    checkpointed: bool = False
    """The workspace's content was saved before the first call that may change it."""
    seconds: float = field(default=0.0, compare=False)
    """How long earlier drones have worked on the turn."""
    _claimed_at: datetime | None = field(default=None, compare=False)
    _last_at: datetime | None = field(default=None, compare=False)
    _copied_until: int = field(default=0, compare=False)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Tree":
        """The tree of a turn that this drone resumes. Entries must be in order, starting with the first."""
        tree = cls()
        for entry in entries:
            tree.add(entry)
        tree.take_over()
        return tree

    def add(self, entry: Entry) -> None:
        """Apply an entry that another drone wrote."""
        fact = entry.data
        if isinstance(fact, OrderClaimed | OrderRequeued | OrderHandedBack | OrderWaiting):
            self._end_span()
            self._claimed_at = entry.at if isinstance(fact, OrderClaimed) else None
        self._last_at = entry.at
        if isinstance(fact, OrderQueued):
            self._copied_until = fact.forked.until if fact.forked else 0
            self.restraints.metadata = merged({}, fact.metadata)
        self._apply(entry.origin, fact, entry.at, copied=entry.seq <= self._copied_until)
        if isinstance(fact, AgentStarted):
            self.record(entry.origin).began_after = self._worked_until(entry.at)
        if isinstance(fact, ToolStarted) and (reply := self.record(entry.origin).open) is not None:
            reply.begun_at[fact.call_id] = entry.at
        if entry.seq == self._copied_until:
            for record in self.records.values():
                record.reset_counts()

    def take_over(self) -> None:
        """Finish reading: charge model calls that are still open, which were lost with their drone.

        Drops the messages of agents that nobody can continue.
        """
        self._end_span()
        self._claimed_at = None
        for record in self.records.values():
            if record.asking.asked is not None:
                self._charge_lost(record.asking.asked)
                record.asking.asked = None
            above = self.records.get(record.origin.parent_id or "")
            if record.finished is not None and above is not None and above.finished is not None:
                record.conversation.transcript.clear()

    def apply(self, origin: Origin, *facts: Fact) -> None:
        """Apply entries that this drone writes, in their order."""
        for fact in facts:
            self._apply(origin, fact, now(), copied=False)

    def _apply(self, origin: Origin, fact: Fact, at: datetime, *, copied: bool) -> None:
        # A control for the root agent applies to the whole order.
        if isinstance(fact, ControlApplied) and (origin.record_id is None or origin.parent_id is None):
            # A fork's metadata is its source's final one, given by `OrderQueued`: earlier changes must not reapply.
            self.restraints.apply(fact.model_copy(update={"metadata": None}) if copied else fact)
        if origin.record_id is None:
            return
        record = self.record(origin)
        if isinstance(fact, AgentStarted) and fact.continues in self.records:
            before = self.records[fact.continues or ""]
            record.spending.warned_before = {**before.spending.warned_before, **before.spending.warned}
        if isinstance(fact, AgentStarted) and isinstance(fact.context, CompactedRecord):
            above = self.records.get(fact.context.of)
            record.asking.replaced = 0 if above is None else above.asking.replaced
        if not copied:
            # Before the record applies it: a start while a call is open means that the open one was lost.
            self._count(record, fact)
        if isinstance(fact, AgentStarted):
            self.artifacts.extend(one.artifact for one in fact.attachments if one.artifact is not None)
            self.pictures.extend(one.image for one in fact.attachments if one.image is not None)
        by_tainted = isinstance(fact, ControlApplied) and fact.by == "parent" and self.is_tainted(origin.parent_id)
        if by_tainted or (isinstance(fact, AgentStarted | ToolFinished) and fact.tainted):
            self._taint(record)
        if isinstance(fact, ToolFinished):
            self._finished(fact)
        if isinstance(fact, ModelReplied):
            record.asking.replied_at = at
        if isinstance(fact, AgentFinished):
            self.ended.append(origin.record_id)
        if isinstance(fact, AgentDelivered) and fact.artifact is not None:
            self.artifacts.append(fact.artifact)
        if isinstance(fact, GitFact) and not copied:
            self.git_facts.append(fact)
        self.checkpointed |= isinstance(fact, WorkspaceCheckpointed) and not copied
        if isinstance(fact, TranscriptCompacted):
            self.artifacts.extend(clip.artifact for clip in fact.clipped)
            self.artifacts.extend(short.artifact for short in fact.words)
        record.apply(fact)

    def _count(self, record: RecordState, fact: Fact) -> None:
        match fact:
            case AgentStarted():
                # Verifiers do not count as spawned: neither a tool call nor a document node has hired them.
                self.spawned += (fact.call_id or fact.node) is not None and fact.continues is None
            case ModelStarted() if record.asking.asked is not None:
                self._charge_lost(record.asking.asked)
            case ModelReplied(usage=usage):
                self.charge(usage)
            case AgentStep(usage=usage) if usage is not None:
                self.charge(usage)
            case ToolFinished(outcome=outcome, name=name):
                self.calls += outcome is not Outcome.DENIED and name not in record.finish_tools
            case BudgetWarned(used=None):
                self.unpriced_warned = True
            # The other kinds cost nothing. A new one is not passed over: `RecordState.apply`, which gets each after
            # this, names all.
            case _:
                pass

    def _finished(self, done: ToolFinished) -> None:
        if done.artifact is not None:
            self.artifacts.append(done.artifact)
        self.pictures.extend(done.images)
        if not done.is_error:
            self.succeeded.add(done.name)
        if done.job is not None and done.job not in self.jobs:
            self.jobs.append(done.job)

    def _taint(self, record: RecordState) -> None:
        """Mark a run, and those above it, which are told what it says."""
        for above in self._lineage(record.origin.record_id):
            if above in self.records:
                self.records[above].tainted = True

    def is_tainted(self, *record_ids: str | None) -> bool:
        """Whether one of these agents, or one below it, was shown text from outside."""
        return any((record := self.records.get(id or "")) is not None and record.tainted for id in record_ids)

    def charge(self, usage: Usage) -> None:
        """Add to what this order has spent."""
        self.spent = self.spent.plus(usage)
        if usage.cost_usd is not None:
            self.usd += usage.cost_usd
            self.priced_tokens += usage.total_tokens

    def _charge_lost(self, call: ModelStarted) -> None:
        """Charge a model call whose reply was lost with its drone at its reserved cost."""
        output = call.reserved_output_tokens
        asked = max(0, call.reserved_tokens - output)
        self.charge(Usage(input_tokens=asked, output_tokens=output, cost_usd=call.reserved_usd))

    def record(self, origin: Origin) -> RecordState:
        """The state of this agent's run; created if it has no entry yet."""
        record_id = origin.record_id or ""
        if record_id not in self.records:
            self.records[record_id] = RecordState(origin)
        return self.records[record_id]

    def begun(self, record_id: str | None) -> RecordState | None:
        """The state of a run that has begun; None for any other."""
        record = self.records.get(record_id or "")
        return record if record is not None and record.started is not None else None

    @property
    def root(self) -> str | None:
        """Record id of the root agent; None before it has begun."""
        return next((record_id for record_id, record in self._begun() if record.origin.parent_id is None), None)

    @property
    def unfinished(self) -> list[str]:
        """Record ids of agents below the root that have begun and not ended."""
        return [
            record_id
            for record_id, record in self._begun()
            if record.finished is None and record.origin.parent_id is not None
        ]

    @property
    def unfinished_agents(self) -> list[str]:
        """Those of them that go on; a request for a summary has no rounds in which it could be told anything."""
        return [record_id for record_id in self.unfinished if not self.records[record_id].is_summary]

    @property
    def waiting_for_provider(self) -> frozenset[str | None]:
        """Record ids of agents that waited for their provider, of all their ancestors, and None for the order."""
        waiting = (
            record for _, record in self._begun() if record.asking.waits_for_provider and record.finished is None
        )
        return frozenset(above for record in waiting for above in self._lineage(record.origin.record_id))

    def reports_of(self, record_ids: Iterable[str]) -> list[Report]:
        """The reports of those of these agents that have ended."""
        records = (self.records.get(record_id) for record_id in record_ids)
        return [self._report(record) for record in records if record is not None and record.finished is not None]

    def _report(self, record: RecordState) -> Report:
        """The report with its worktree's outcome, which its parent's record holds."""
        above = self.records.get(record.origin.parent_id or "")
        ended = above.children.worktrees.get(record.origin.record_id or "") if above else None
        return replace(record.report(), worktree=ended if isinstance(ended, WorktreeEnded) else None)

    def receipts_of(self, record_ids: Iterable[str]) -> Iterator[CallReceipt]:
        """The receipts of these agents; an agent listed twice counts once."""
        records = (self.records.get(record_id) for record_id in dict.fromkeys(record_ids))
        return (receipt for record in records if record is not None for receipt in record.receipts)

    def receipt(self, recalled: CallReceipt) -> CallReceipt:
        """This turn's own receipt of a call recalled from a conversation; the recalled one for calls of other turns."""
        records = self.records.values()
        return next((one for record in records for one in record.receipts if one.call_id == recalled.call_id), recalled)

    @property
    def reports(self) -> list[Report]:
        """The reports of all subagents that have ended. For one copied from another order, also a report under its
        original record id, which its parent was told."""
        ended = [record for _, record in self._begun() if record.finished and record.origin.parent_id]
        sources = ((record, record.started.forked_from) for record in ended if record.started is not None)
        copied = [replace(record.report(), record_id=source) for record, source in sources if source]
        return [self._report(record) for record in ended] + copied

    def conversation(self, record_id: str, earlier: tuple[Message, ...] = ()) -> tuple[Message, ...]:
        """All messages of a run and of the runs it continues, prompts included; without a session's earlier turns.
        `earlier`: those of the record of an earlier turn that the first of these runs continues."""
        record = self.records[record_id]
        started = record.started
        if started is None:
            return ()
        before = self.conversation(started.continues, earlier) if started.continues in self.records else earlier
        transcript = record.conversation.transcript
        began = (*before, opening_message(started.environment, started.prompt, started.attachments))
        return (*transcript.shortened(transcript.began_with(began)), *transcript.said)

    def is_under(self, record_id: str | None, above: str | None) -> bool:
        """Whether this record is `above` or a descendant of it. Every record is a descendant of None."""
        return above in self._lineage(record_id)

    def in_worktree(self, record_id: str | None, *, ended: bool = False) -> bool:
        """Whether this agent works in a worktree, its own or that of an agent above it; `ended`: or has done so."""
        for agent_id in self._lineage(record_id):
            record = self.records.get(agent_id or "")
            above = self.records.get(record.origin.parent_id or "") if record is not None else None
            known = above.children.worktrees.get(agent_id or "") if above is not None else None
            if isinstance(known, WorktreeMade) or (ended and known is not None):
                return True
        return False

    def metadata(self, record_id: str | None) -> Mapping[str, Any]:
        """The metadata that people set on the order, on every ancestor and on this agent; the nearest wins."""
        found = dict(self.restraints.metadata)
        for above in reversed([*self._lineage(record_id)]):
            if record := self.records.get(above or ""):
                found |= record.restraints.metadata
        return found

    def _begun(self) -> Iterator[tuple[str, RecordState]]:
        return ((record_id, record) for record_id, record in self.records.items() if record.started is not None)

    def _lineage(self, record_id: str | None) -> Iterator[str | None]:
        while record_id is not None:
            yield record_id
            record = self.records.get(record_id)
            record_id = record.origin.parent_id if record is not None else None
        yield None

    def _end_span(self) -> None:
        if self._last_at is not None:
            self.seconds = self._worked_until(self._last_at)

    def _worked_until(self, at: datetime) -> float:
        """The value of `seconds` at this time, during the current claim."""
        if self._claimed_at is None:
            return self.seconds
        return self.seconds + max(0.0, (at - self._claimed_at).total_seconds())


class TreeJournal:
    """A journal that also applies each entry to the tree's state, per record in the order of commit."""

    def __init__(self, journal: Journal, tree: Tree) -> None:
        self.journal = journal
        self.tree = tree
        self._noted: dict[str | None, tuple[Origin, list[Fact]]] = {}

    def note(self, origin: Origin, *facts: Fact) -> None:
        """Apply these facts now, and commit them with the record's next write.

        For facts that need no commit of their own, because no external effect follows from them before that.
        """
        self.tree.apply(origin, *facts)
        if facts:
            self._noted.setdefault(origin.record_id, (origin, []))[1].extend(facts)

    async def write(self, origin: Origin, *facts: Fact) -> int:
        """Commit what was noted for the record, then these facts; does nothing when there are none."""
        self.tree.apply(origin, *facts)
        noted = self._noted.pop(origin.record_id, (origin, []))[1]
        # Applied before the commit; nothing with an effect follows from it until then (docs/decisions/16).
        return await self.journal.write(origin, *noted, *facts) if noted or facts else 0

    def defer(self, origin: Origin, *facts: Fact) -> None:
        """As `Journal.defer`, with what was noted for the record before: the record makes no further write itself."""
        self.tree.apply(origin, *facts)
        noted = self._noted.pop(origin.record_id, (origin, []))[1]
        self.journal.defer(origin, *noted, *facts)

    async def close(
        self, status: AgentEnd, error: str, under: str | None = None, limit: str | None = None
    ) -> Sequence[Draft]:
        for origin, _ in [*self._noted.values()]:
            # What was noted comes first: a closed record writes nothing more by itself.
            if self.tree.is_under(origin.record_id, under):
                await self.write(origin)
        drafts = await self.journal.close(status, error, under, limit)
        for draft in drafts:
            self.tree.apply(draft.origin, draft.data)
        return drafts

    async def keep(self, text: str) -> str:
        return await self.journal.keep(text)

    async def kept(self, digest: str) -> str | None:
        return await self.journal.kept(digest)

    async def confirm_held(self) -> None:
        await self.journal.confirm_held()

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        self.journal.delta(origin, delta)

    def progress(self, progress: GenerationProgress) -> None:
        self.journal.progress(progress)
