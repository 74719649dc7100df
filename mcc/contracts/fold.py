"""Folds journal entries into the chat record, the usage and the open calls of an order."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, assert_never, cast

from mcc.contracts.control import merged
from mcc.contracts.delivery import AgentDelivered
from mcc.contracts.entry import Draft, Entry, Origin
from mcc.contracts.fact import NotedFact
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    AnyFact,
    ControlApplied,
    GateChecked,
    Outcome,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
)
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelStarted
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.record import AgentEnd, ChatRecord, ModelChoice, RecordStatus
from mcc.contracts.shape import Text
from mcc.contracts.steps import NumberedFact, StepFact, step_of
from mcc.contracts.usage import Usage

_CAUSES = {RecordStatus.LIMIT_REACHED: "limit", RecordStatus.CANCELLED: "cancelled"}
"""The `cause` of an agent's end, by the status with which `Fold.closing` closes it."""


@dataclass(slots=True)
class RecordNode:
    """One agent's record as far as its entries have been folded."""

    id: str
    parent_id: str | None
    agent: str
    depth: int
    started: AgentStarted
    started_at: datetime
    steps: list[NumberedFact] = field(default_factory=list)
    children: list["RecordNode"] = field(default_factory=list)
    calls: dict[str, tuple[ToolStarted, datetime]] = field(default_factory=dict)
    asked_at: datetime | None = None
    usage: Usage = Usage()
    finished: AgentFinished | None = None
    finished_at: datetime | None = None
    paused: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def origin(self) -> Origin:
        return Origin(record_id=self.id, parent_id=self.parent_id, agent=self.agent, depth=self.depth)

    @property
    def model(self) -> ModelChoice | None:
        """As started; after a fallback, `effective` is the last reply's model or the target of a later fallback."""
        if self.started.model is None:
            return None
        facts = [step.fact for step in reversed(self.steps) if isinstance(step.fact, ModelFellBack | ModelReplied)]
        fallback = next((fact.target for fact in facts if isinstance(fact, ModelFellBack)), None)
        if fallback is None:
            return self.started.model
        last = facts[0]
        answered = last.model if isinstance(last, ModelReplied) else fallback
        return ModelChoice(requested=self.started.model.requested, effective=answered)

    def last_text(self) -> str | None:
        """The last text of the model, which stands in for the answer of an agent that never gave one."""
        texts = (step.fact.text for step in reversed(self.steps) if isinstance(step.fact, ModelReplied))
        return next(filter(None, texts), None)


class Fold:
    """Builds the state that a journal describes, entry by entry. Entries must come in order, each once.

    All attempts at an order continue the same records.
    """

    def __init__(self, order_id: str, session_id: str = "") -> None:
        self.order_id = order_id
        self.session_id = session_id
        self.last_seq = 0
        self.attempt = 0
        self.finished: OrderFinished | None = None
        self.usage = Usage()
        """The usage of all records, entries copied by a fork included."""
        self.spent = self.usage
        """The usage of this order alone. Without a fork it is the same object as `usage`."""
        self.paused = False
        """Whether the whole order is paused. This and `tools_removed` also hold for later attempts."""
        self.tools_removed: tuple[str, ...] = ()
        """Tools and groups removed from the whole order."""
        self.metadata: Mapping[str, Any] = {}
        """The order's metadata after the last entry."""
        self._copied_until = 0
        """Number of the last entry that a fork copied from its source."""
        self.root: RecordNode | None = None
        """The master's record."""
        self._early_steps: list[NumberedFact] = []
        self._nodes: dict[str, RecordNode] = {}

    @classmethod
    def of(cls, order_id: str, entries: Iterable[Entry]) -> "Fold":
        fold = cls(order_id)
        for entry in entries:
            fold.add(entry)
        return fold

    def add(self, entry: Entry) -> None:
        """Apply the next entry. Raises ValueError when its number does not follow the last one."""
        if entry.seq != self.last_seq + 1:
            raise ValueError(f"journal of {self.order_id}: expected entry {self.last_seq + 1}, got {entry.seq}")
        self.last_seq = entry.seq
        self._apply(entry, cast(AnyFact, entry.data))

    def _apply(self, entry: Entry, fact: AnyFact) -> None:
        match fact:  # the four most frequent kinds come first; every kind has a case (docs/decisions/04)
            case ModelStarted():
                self._node(entry).asked_at = entry.at
            case ModelReplied():
                node = self._node(entry)
                self._count_usage(entry, node)
                node.steps.append(NumberedFact(entry.seq, fact, entry.at, started_at=node.asked_at))
            case ToolStarted():
                self._node(entry).calls[fact.call_id] = (fact, entry.at)
            case ToolFinished():
                self._tool_finished(entry, fact)
            case OrderQueued():
                self.session_id = fact.session_id
                self._copied_until = fact.forked.until if fact.forked else 0
                self.metadata = merged({}, fact.metadata)
            case OrderClaimed():
                self.attempt = fact.attempt
            case OrderFinished():
                self.finished = fact
            case AgentStarted():
                self._start(entry, fact)
            case AgentFinished():
                node = self._node(entry)
                node.finished, node.finished_at = fact, entry.at
            case GateChecked() | VerifyChecked() | ControlApplied() | NotedFact():
                self._note(entry, fact)
            case OrderRequeued() | OrderHandedBack() | OrderWaiting() | OrderResumed():
                pass
            case _:
                assert_never(fact)

    def _start(self, entry: Entry, fact: AgentStarted) -> None:
        assert entry.record_id is not None
        node = RecordNode(entry.record_id, entry.parent_id, entry.agent or "", entry.depth, fact, entry.at)
        parent = self._nodes.get(entry.parent_id or "")
        if parent is None:
            self.root, self._nodes = node, {}
            node.steps, self._early_steps = self._early_steps, []
        else:
            parent.children.append(node)
        self._nodes[node.id] = node

    def _node(self, entry: Entry) -> RecordNode:
        return self._nodes[entry.record_id or ""]

    def _note(self, entry: Entry, fact: StepFact) -> None:
        """Add the fact to its agent's steps; one of the whole order (such as a cancel) becomes a step of the master."""
        node = self._nodes.get(entry.record_id or "") or self.root
        steps = node.steps if node else self._early_steps
        steps.append(NumberedFact(entry.seq, fact, entry.at))
        if node is not None:
            self._count_usage(entry, node)
        if not isinstance(fact, ControlApplied):
            return
        if entry.record_id is None or node is self.root:
            # A control of the master's record counts for the whole order.
            self.paused = fact.paused(self.paused)
            self.tools_removed = tuple(dict.fromkeys((*self.tools_removed, *fact.tools_removed)))
            # Not for copied entries: a fork's first entry already carries the final metadata of its source.
            if entry.seq > self._copied_until:
                self.metadata = merged(self.metadata, fact.metadata or {})
        elif node is not None:
            node.paused = fact.paused(node.paused)
            node.metadata = merged(node.metadata, fact.metadata or {})

    def _tool_finished(self, entry: Entry, fact: ToolFinished) -> None:
        node = self._node(entry)
        self._count_usage(entry, node)
        started, at = node.calls.pop(fact.call_id, (None, None))
        node.steps.append(NumberedFact(entry.seq, fact, entry.at, started.arguments if started else None, at))

    def _count_usage(self, entry: Entry, node: RecordNode) -> None:
        used = entry.data.added_usage
        if used is None:
            return
        node.usage = node.usage.plus(used)
        shared, self.usage = self.usage is self.spent, self.usage.plus(used)
        if entry.seq > self._copied_until:
            self.spent = self.usage if shared else self.spent.plus(used)

    def node(self, record_id: str | None) -> RecordNode | None:
        """The record with this id so far; None when no such agent has started."""
        return self._nodes.get(record_id or "")

    def closing(
        self, at: datetime, status: AgentEnd, error: Text, under: str | None = None, limit: str | None = None
    ) -> list[Draft]:
        """Entries that close every open agent, children first, each after its open calls. They end an attempt.

        `under`: close only that record and its descendants. `limit`: the limit that was reached.
        """
        drafts: list[Draft] = []
        for node in reversed(list(self._nodes.values())):
            if node.finished is not None or not self._is_under(node, under):
                continue
            for call, _ in node.calls.values():
                unknown = ToolFinished(
                    call_id=call.call_id, name=call.name, content=error, is_error=True, outcome=Outcome.OUTCOME_UNKNOWN
                )
                drafts.append(Draft(at=at, origin=node.origin, data=unknown))
            end = AgentFinished(
                status=status, answer=node.last_text(), error=error, cause=_CAUSES.get(status), limit=limit
            )
            drafts.append(Draft(at=at, origin=node.origin, data=end))
        return drafts

    def _is_under(self, node: RecordNode, record_id: str | None) -> bool:
        above: RecordNode | None = node
        while record_id is not None and above is not None and above.id != record_id:
            above = self._nodes.get(above.parent_id or "")
        return above is not None

    def setup_digest(self, record_id: str) -> str | None:
        """The digest under which the set-up of this record's agent is stored; None when there is no such record."""
        node = self._nodes.get(record_id)
        return None if node is None else node.started.setup_digest

    def has_artifact(self, digest: str) -> bool:
        """Whether an attachment, a tool result or an approval's preview here names the artifact with this digest."""
        nodes = self._nodes.values()
        facts = (step.fact for node in nodes for step in node.steps)
        return any(digest in _artifacts(fact) for fact in facts) or any(
            digest in one.digests for node in nodes for one in node.started.attachments
        )

    def record(self) -> ChatRecord | None:
        """The chat record so far; None before the first agent started."""
        if self.root is None:
            return None
        return self._record(self.root, self.paused, self.usage)

    def _record(self, node: RecordNode, paused: bool, total: Usage | None = None) -> ChatRecord:
        """`paused`: this agent or one above it is paused, so an unfinished record has the status waiting.

        `total`: the usage of the whole tree, given for the root; None = computed from the node and its children.
        """
        children = tuple(self._record(child, paused or child.paused) for child in node.children)
        if total is None:
            total = node.usage
            for child in children:
                total = total.plus(child.usage_total)
        end = node.finished
        return ChatRecord(
            id=node.id,
            order_id=self.order_id,
            session_id=self.session_id,
            parent_id=node.parent_id,
            call_id=node.started.call_id,
            continues=node.started.continues,
            continues_order=node.started.continues_order,
            forked_from=node.started.forked_from,
            agent=node.agent,
            title=node.started.title,
            depth=node.depth,
            prompt=node.started.prompt,
            status=end.status if end else RecordStatus.WAITING if paused else RecordStatus.RUNNING,
            node=node.started.node,
            model=node.model,
            model_settings=node.started.model_settings,
            tools=node.started.tools,
            tools_requested=node.started.tools_requested,
            limits=node.started.limits,
            definition_digest=node.started.definition_digest,
            definition_origin=node.started.definition_origin,
            metadata=self.metadata if node is self.root else node.metadata,
            steps=tuple(step_of(step) for step in node.steps),
            result=end.result if end else None,
            answer=end.answer if end else None,
            error=end.error if end else None,
            usage=node.usage,
            usage_total=total,
            started_at=node.started_at,
            finished_at=node.finished_at,
            subagent_history=children,
        )


def _artifacts(fact: StepFact) -> Iterator[str | None]:
    if isinstance(fact, ToolFinished):
        yield from (fact.artifact, *(image.artifact for image in fact.images))
    if isinstance(fact, AgentDelivered):
        yield fact.artifact
    if isinstance(fact, ApprovalRequested) and fact.preview is not None:
        yield fact.preview.artifact
