"""The time line of an order: lanes with bars, gaps in which nothing ran, marks, and the path of a failure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from mcc.contracts.compaction import TranscriptCompacted
from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.journal import AgentFinished, ControlApplied, GateChecked, VerifyChecked
from mcc.contracts.model_facts import ModelFellBack, ModelRetried
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderHandedBack, OrderRequeued
from mcc.contracts.reading import Bar, Gap, Lane, Mark, MarkKind, Timeline
from mcc.contracts.record import RecordStatus
from mcc.contracts.status import OrderStatus
from mcc.reading.bars import RUNS, Span, merged, spans_of
from mcc.reading.index import LinesAt
from mcc.reading.tree import OrderTree
from mcc.store.database.clock import micros, moment

GAP_SECONDS = 30
MOST_BARS = 4_000
MOST_MARKS = 2_000

_FAILED = frozenset({RecordStatus.FAILED, RecordStatus.BLOCKED, RecordStatus.LIMIT_REACHED})


LATEST = micros(datetime.max.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class ShownPart:
    """The part of a time line to show: between two times (None: from the beginning, to the end), `px` wide, with a lane
    for each record or each agent. `now`: until when what has not ended reaches."""

    now: datetime
    start: datetime | None = None
    end: datetime | None = None
    px: int = 1_200
    by: Literal["record", "agent"] = "record"


def timeline(view: ShownPart, read: LinesAt) -> Timeline:
    """At most `MOST_BARS` bars: those shorter than a pixel are merged, and longer ones where that is not enough."""
    lines, tree = read.lines, read.tree
    begun = lines[0].at if lines else micros(view.now)
    going = tree.finished is None and read.at == read.read
    last = micros(view.now) if going else lines[-1].at if lines else begun
    start = begun if view.start is None else min(micros(view.start), LATEST - 1)
    end = max(start + 1, max(last, begun) if view.end is None else micros(view.end))
    spans = spans_of(lines, tree)
    for span in spans:
        span.end = max(span.start, last) if span.end is None else span.end
    gaps = tuple(_gaps(lines, spans, max(start, begun), min(end, last)))
    marks = [
        Mark(at=moment(line.at), seq=line.seq, record_id=line.record, kind=kind)
        for line in lines
        if start <= line.at <= end and (kind := _mark(line)) is not None
    ]
    shown = [span for span in spans if span.start <= end and (span.end or 0) >= start]
    for span in shown:
        span.start, span.end = max(span.start, start), min(span.end or span.start, end)
    labels: dict[str, int] = {}
    lanes = _lanes(shown, tree, view.by, (end - start) / view.px)
    return Timeline(
        from_=moment(start),
        to=moment(end),
        gaps=gaps,
        lanes=tuple(_lane(lane, tree, some, start, labels, view.by) for lane, some in lanes.items()),
        labels=tuple(labels),
        marks=tuple(_thinned(marks, end - start, view.px)),
        failure_path=tuple(failure_path(tree)),
        last_seq=read.of,
        at=read.at,
        index=read.index,
    )


def _lanes(spans: Sequence[Span], tree: OrderTree, by: str, pixel: float) -> Mapping[str, Sequence[Span]]:
    """The spans of each lane, in the order of the agents' starts, merged until there are few enough."""
    lanes: dict[str, list[Span]] = {}
    for record in tree.records.values():
        lanes.setdefault(record.started.name if by == "agent" else record.id, [])
    for span in spans:
        if (of := tree.records.get(span.record)) is not None:
            lanes[of.started.name if by == "agent" else of.id].append(span)
    fewer = {lane: merged(some, pixel) for lane, some in lanes.items() if some}
    while sum(map(len, fewer.values())) > MOST_BARS and pixel < 10**18:
        pixel *= 2
        fewer = {lane: merged(some, pixel) for lane, some in fewer.items()}
    return fewer


def _lane(lane: str, tree: OrderTree, spans: Sequence[Span], start: int, labels: dict[str, int], by: str) -> Lane:
    record = tree.records[spans[0].record]
    bars: list[Bar] = []
    for span in spans:
        label = labels.setdefault(span.label, len(labels))
        since, ms = (span.start - start) / 1_000, ((span.end or span.start) - span.start) / 1_000
        bars.append((span.kind, since, ms, span.seq, span.n, span.state, label))
    title = record.started.state[0] if by == "record" else ""
    return Lane(id=lane, agent=record.started.name, title=title, bars=tuple(bars))


def _gaps(lines: Sequence[EntryLine], spans: Sequence[Span], start: int, end: int) -> Iterator[Gap]:
    """The times of at least `GAP_SECONDS` in which neither a model nor a tool ran, and what was waited for."""
    reached = start
    running = [span for span in spans if span.kind in RUNS]
    for since, until in [*((span.start, span.end or span.start) for span in running), (end, end)]:
        if since - reached >= GAP_SECONDS * 1_000_000 and since <= end:
            yield moment(reached), moment(since), _why(lines, spans, reached, since)
        reached = max(reached, until)


def _why(lines: Sequence[EntryLine], spans: Sequence[Span], start: int, end: int) -> str:
    waits = [span for span in spans if span.kind == "wait" and span.start < end and (span.end or 0) > start]
    if waits:
        longest = max(waits, key=lambda span: min(span.end or end, end) - max(span.start, start))
        return f"waits: {longest.label}"
    if any(line.kind in (OrderClaimed.kind, OrderRequeued.kind) and start <= line.at <= end for line in lines):
        return "waits for a drone"
    return "nothing ran"


def _mark(line: EntryLine) -> MarkKind | None:
    match line.kind:
        case ModelRetried.kind:
            return "retry"
        case ModelFellBack.kind:
            return "fell_back"
        case OrderRequeued.kind:
            return "takeover"
        case OrderHandedBack.kind:
            return "handed_back"
        case GateChecked.kind | VerifyChecked.kind:
            return None if line.state[0] or line.state[1] else "gate_refused"
        case ApprovalRequested.kind:
            return "approval"
        case ControlApplied.kind:
            return "steer" if line.name == "steer" else None
        case TranscriptCompacted.kind:
            return "compacted"
        case AgentFinished.kind:
            return "failed" if line.state[0] in _FAILED else None
        case OrderFinished.kind:
            return "failed" if line.name == OrderStatus.FAILED else None
    return None


def _thinned(marks: Sequence[Mark], width: int, px: int) -> Sequence[Mark]:
    """The marks, of several of one kind and record within a pixel the first, and no more than `MOST_MARKS`."""
    pixel = timedelta(microseconds=width / px)
    while True:
        last: dict[tuple[str | None, str], datetime] = {}
        kept: list[Mark] = []
        for mark in marks:
            before = last.get((mark.record_id, mark.kind))
            if before is None or mark.at - before >= pixel:
                kept.append(mark)
                last[mark.record_id, mark.kind] = mark.at
        if len(kept) <= MOST_MARKS or pixel > timedelta(days=36_500):
            return kept[:MOST_MARKS]
        pixel *= 2


def failure_path(tree: OrderTree) -> Iterator[str]:
    """The records from the master down, each the first that failed of those that the one before it had started; none
    where the master has not failed."""
    ended = [record for record in tree.records.values() if record.finished is not None]
    failed = [record for record in ended if record.finished and record.finished.state[0] in _FAILED]
    parent: str | None = None
    while below := [record for record in failed if record.started.parent == parent]:
        first = min(below, key=lambda record: record.finished.seq if record.finished else 0)
        yield first.id
        parent = first.id
