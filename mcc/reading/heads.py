"""Which rows an order has, from its entries in short: each stands where it began, and nothing later moves it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.inbox_facts import ApprovalDecided, ApprovalRequested, QuestionAnswered, QuestionAsked
from mcc.contracts.journal import (
    AgentFinished,
    AgentStarted,
    ControlApplied,
    GateChecked,
    ToolFinished,
    ToolStarted,
    VerifyChecked,
)
from mcc.contracts.merging import ended_badly, joins
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import OrderFinished, OrderQueued
from mcc.contracts.reading import RowKind
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus

MERGED = 2
"""So many neighbouring calls of one tool become one row."""

LASTING = frozenset({"model", "tool", "tools", "child", "approval", "question"})
"""Kinds of rows that end later than they begin."""

_UNSAID = frozenset({"provisioned"})
"""Steps without a row."""

_OWN: dict[str, RowKind] = {
    GateChecked.kind: "gate",
    VerifyChecked.kind: "gate",
    ControlApplied.kind: "steer",
    TranscriptCompacted.kind: "compacted",
}


@dataclass(slots=True, eq=False)
class RowHead:
    """A row without its texts. `first`: the entry with which it began, `ended`: the one that ended it; `tries`: further
    requests and failures of a model call; `records`: of the agents that a call started; `calls`: of merged calls, all
    of them."""

    kind: RowKind
    first: EntryLine
    ended: EntryLine | None = None
    tries: list[EntryLine] = field(default_factory=list)
    records: list[str] = field(default_factory=list)
    calls: "list[RowHead]" = field(default_factory=list)

    @property
    def seq(self) -> int:
        return self.first.seq

    @property
    def failed(self) -> bool:
        line = self.ended or self.first
        match line.kind:
            case ToolFinished.kind:
                return ended_badly(line.state[1], line.state[2])
            case GateChecked.kind | VerifyChecked.kind:
                return not line.state[0] and not line.state[1]
            case AgentFinished.kind:
                return line.state[0] not in (RecordStatus.COMPLETED, RecordStatus.CANCELLED)
            case OrderFinished.kind:
                return line.name == OrderStatus.FAILED
            case ModelFellBack.kind:
                return True
        return bool(self.tries)

    @property
    def ms(self) -> float | None:
        """How long it took; None while it has not ended."""
        if self.ended is None:
            return None if self.kind in LASTING else 0.0
        alone = self.ended.ms if not self.calls else None
        return alone or (self.ended.at - self.first.at) / 1_000


class _Heads:
    def __init__(self) -> None:
        self.heads: list[RowHead] = []
        self._calls: dict[str, RowHead] = {}
        self._asked: dict[str, RowHead] = {}
        self._items: dict[str, RowHead] = {}

    def add(self, line: EntryLine) -> None:
        match line.kind:
            case AgentStarted.kind:
                self._begin("prompt", line)
                self.add_child(line)
            case ModelStarted.kind:
                asked = self._asked.get(line.record or "")
                if asked is not None and asked.ended is None and asked.first.state[0] == line.state[0]:
                    asked.tries.append(line)
                else:
                    self._asked[line.record or ""] = self._begin("model", line)
            case ModelReplied.kind:
                self._end(self._asked.get(line.record or ""), "model", line)
            case ModelRetried.kind:
                if (asked := self._asked.get(line.record or "")) is not None:
                    asked.tries.append(line)
            case ToolStarted.kind:
                self._calls[line.call or ""] = self._begin("tool", line)
            case ToolFinished.kind:
                # A call that was refused never began.
                self._end(self._calls.get(line.call or ""), "tool", line)
            case ApprovalRequested.kind | QuestionAsked.kind:
                kind: RowKind = "approval" if line.kind == ApprovalRequested.kind else "question"
                self._items[line.state[0]] = self._begin(kind, line)
            case ApprovalDecided.kind | QuestionAnswered.kind:
                kind = "approval" if line.kind == ApprovalDecided.kind else "question"
                self._end(self._items.get(line.state[0]), kind, line)
            case OrderQueued.kind:
                pass
            case _:
                if line.name not in _UNSAID:
                    self._begin(_OWN.get(line.kind, "note"), line)

    def add_child(self, line: EntryLine) -> None:
        """A call has started an agent, and is the row of that agent from now on."""
        if (call := self._calls.get(line.call or "")) is not None:
            call.kind = "child"
            call.records.append(line.record or "")

    def _begin(self, kind: RowKind, line: EntryLine) -> RowHead:
        head = RowHead(kind, line)
        self.heads.append(head)
        return head

    def _end(self, head: RowHead | None, kind: RowKind, line: EntryLine) -> None:
        if head is None:
            head = self._begin(kind, line)
        head.ended = line


def heads_alone(lines: Sequence[EntryLine]) -> list[RowHead]:
    """The rows of all records, none of them merged."""
    heads = _Heads()
    for line in lines:
        heads.add(line)
    return heads.heads


def heads_of(lines: Sequence[EntryLine], record: str | None = None) -> list[RowHead]:
    """The rows of one record, with those of the order itself for the master's; None: of all."""
    heads = _Heads()
    master = next((line.record for line in lines if line.kind == AgentStarted.kind and line.parent is None), None)
    with_order = record is not None and record == master
    for line in lines:
        if record is None or line.record == record or (with_order and line.record is None):
            heads.add(line)
        elif line.kind == AgentStarted.kind and line.parent == record:
            heads.add_child(line)
    return list(_merged(heads.heads))


def _merged(heads: Sequence[RowHead]) -> Iterator[RowHead]:
    """The rows with neighbouring calls of one tool, none of which failed, as one row."""
    group: list[RowHead] = []
    for head in heads:
        if group and _joins(group[-1], head):
            group.append(head)
            continue
        yield from _as_one(group)
        group = [head]
    yield from _as_one(group)


def _joins(before: RowHead, head: RowHead) -> bool:
    return (
        before.kind == head.kind == "tool"
        and before.first.record == head.first.record
        and joins((before.first.name, before.failed), (head.first.name, head.failed))
    )


def _as_one(group: list[RowHead]) -> list[RowHead]:
    if len(group) < MERGED:
        return group
    ended = None if any(head.ended is None for head in group) else group[-1].ended
    return [RowHead("tools", group[0].first, ended, calls=group)]
