"""The agents of an order from its entries in short: who started whom, what each did and spent, what it waits for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add

from mcc.contracts.entry_lines import TOKENS, EntryLine
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
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.order_facts import (
    OrderClaimed,
    OrderFinished,
    OrderHandedBack,
    OrderQueued,
    OrderRequeued,
    OrderResumed,
    OrderWaiting,
)
from mcc.contracts.reading import Attempt, LastVerdict, RecordOverview, WaitingKind
from mcc.contracts.record import ModelChoice, RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from mcc.store.database.clock import moment


@dataclass(slots=True, eq=False)
class RecordLines:
    """One agent's run so far. `tokens` and `cost_usd`: what it used itself, as in `EntryLine`."""

    started: EntryLine
    last: EntryLine
    finished: EntryLine | None = None
    model: str = ""
    steps: int = 0
    tool_calls: int = 0
    tokens: Sequence[int] = (0,) * len(TOKENS)
    cost_usd: float | None = 0.0
    first_token_ms: float | None = None
    open_items: dict[str, WaitingKind] = field(default_factory=dict)
    retries: bool = False
    paused: bool = False
    gate: LastVerdict | None = None
    background: bool = False

    @property
    def usage(self) -> Usage:
        return Usage(**dict(zip(TOKENS, self.tokens, strict=True)), cost_usd=self.cost_usd)

    @property
    def id(self) -> str:
        return self.started.record or ""

    @property
    def waiting(self) -> WaitingKind | None:
        if self.finished is not None:
            return None
        if self.open_items:
            return next(iter(self.open_items.values()))
        return "provider" if self.retries else "paused" if self.paused else None

    def status(self, paused: bool) -> RecordStatus:
        """`paused`: it or an agent above it is."""
        if self.finished is not None:
            return RecordStatus(self.finished.state[0])
        return RecordStatus.WAITING if paused else RecordStatus.RUNNING

    def add(self, line: EntryLine) -> None:
        self.last = line
        if line.tokens is not None:
            self.tokens = tuple(map(add, self.tokens, line.tokens))
            self.cost_usd = None if self.cost_usd is None or line.cost is None else self.cost_usd + line.cost
        kind = line.kind  # the four most frequent kinds come first
        if kind == ModelStarted.kind:
            self.model, self.retries = line.name, False
        elif kind == ModelReplied.kind:
            self.steps, self.model, self.first_token_ms = self.steps + 1, line.name, line.state[3]
        elif kind == ToolFinished.kind:
            self.tool_calls += 1
        elif kind != ToolStarted.kind:
            self._add_other(line)

    def _add_other(self, line: EntryLine) -> None:
        match line.kind:
            case ModelRetried.kind:
                self.retries = True
            case ModelFellBack.kind:
                self.model = line.name
            case AgentFinished.kind:
                self.finished = line
            case GateChecked.kind | VerifyChecked.kind:
                ok, check_only, why = line.state
                if not check_only:
                    self.gate = LastVerdict(ok=ok, rule=None if ok else why.partition("\n")[0], message=why)
            case ControlApplied.kind if line.name in ("pause", "resume"):
                self.paused = line.name == "pause"
            case ApprovalRequested.kind | QuestionAsked.kind:
                self.open_items[line.state[0]] = "approval" if line.kind == ApprovalRequested.kind else "question"
            case ApprovalDecided.kind | QuestionAnswered.kind:
                self.open_items.pop(line.state[0], None)


class OrderTree:
    """All agents of an order as of its last line, and the drones that held it."""

    def __init__(self, lines: Iterable[EntryLine] = ()) -> None:
        self.records: dict[str, RecordLines] = {}
        self.attempts: list[Attempt] = []
        self.status = OrderStatus.QUEUED
        self.paused = False
        self.finished: EntryLine | None = None
        self.extend(lines)

    def extend(self, lines: Iterable[EntryLine]) -> None:
        """Add the lines that follow."""
        for line in lines:
            self._add(line)

    def _add(self, line: EntryLine) -> None:
        kind = line.kind
        if kind == AgentStarted.kind:
            if line.parent not in self.records:
                self.records = {}
            self.records[line.record or ""] = RecordLines(line, line, model=line.state[2])
        elif (record := self.records.get(line.record or "")) is not None:
            record.add(line)
            if kind == ToolFinished.kind:
                for child in line.state[3]:
                    if child in self.records:
                        self.records[child].background = True
        elif kind == ControlApplied.kind and line.name in ("pause", "resume"):
            self.paused = line.name == "pause"
        elif kind.startswith("order."):
            self._add_of_order(line)

    def _add_of_order(self, line: EntryLine) -> None:
        match line.kind:
            case OrderClaimed.kind:
                self.status = OrderStatus.RUNNING
                number = line.state[0]
                self.attempts.append(Attempt(n=number, drone=line.name, from_seq=line.seq, to_seq=line.seq, ended=None))
            case OrderRequeued.kind:
                self._end("lost", line, OrderStatus.QUEUED)
            case OrderHandedBack.kind:
                self._end("handed_back", line, OrderStatus.QUEUED)
            case OrderWaiting.kind:
                self._end("parked", line, OrderStatus.WAITING)
            case OrderResumed.kind | OrderQueued.kind:
                self.status = OrderStatus.QUEUED
            case OrderFinished.kind:
                self.finished = line
                self._end("finished", line, OrderStatus(line.name))

    def _end(self, how: str, line: EntryLine, status: OrderStatus) -> None:
        self.status = status
        if self.attempts and self.attempts[-1].ended is None:
            self.attempts[-1] = self.attempts[-1].model_copy(update={"ended": how, "to_seq": line.seq})

    def totals(self) -> Mapping[str, Usage]:
        """What each record used with all below it; children start after their parents."""
        totals = {record.id: record.usage for record in self.records.values()}
        for record in reversed(list(self.records.values())):
            if (parent := record.started.parent or "") in totals:
                totals[parent] = totals[parent].plus(totals[record.id])
        return totals

    @property
    def usage(self) -> Usage:
        total = Usage()
        for record in self.records.values():
            total = total.plus(record.usage)
        return total

    def _is_paused(self, record: RecordLines) -> bool:
        above: RecordLines | None = record
        while above is not None and not above.paused:
            above = self.records.get(above.started.parent or "")
        return self.paused or above is not None

    def overview_of(self, record: RecordLines, total: Usage) -> RecordOverview:
        """`total`: what it used with all below it."""
        title, depth, effective, requested = record.started.state
        paused = self._is_paused(record)
        choice = ModelChoice(requested=requested, effective=record.model or effective) if requested else None
        return RecordOverview(
            id=record.id,
            parent_id=record.started.parent,
            call_id=record.started.call,
            agent=record.started.name,
            title=title,
            depth=depth,
            status=record.status(paused),
            model=choice,
            started_at=moment(record.started.at),
            finished_at=moment(record.finished.at) if record.finished else None,
            first_seq=record.started.seq,
            last_seq=record.last.seq,
            steps=record.steps,
            tool_calls=record.tool_calls,
            usage=record.usage,
            usage_total=total,
            first_token_ms=record.first_token_ms,
            waiting=record.waiting or ("paused" if paused and record.finished is None else None),
            gate=record.gate,
            background=record.background,
        )

    def attempts_to(self, seq: int) -> Sequence[Attempt]:
        """The claims; the one that goes on reaches to this entry."""
        return [attempt if attempt.ended else attempt.model_copy(update={"to_seq": seq}) for attempt in self.attempts]
