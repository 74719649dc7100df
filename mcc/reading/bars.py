"""Bars of a time line: when each agent, model call, tool call, wait and check ran, from its entries in short."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mcc.contracts.entry_lines import EntryLine
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.order_facts import OrderClaimed, OrderFinished, OrderResumed, OrderWaiting
from mcc.contracts.reading import BarKind, BarState
from mcc.reading.heads import RowHead, heads_alone
from mcc.reading.tree import OrderTree

_BARS: dict[str, BarKind] = {
    "model": "model",
    "tool": "tool",
    "child": "tool",
    "approval": "wait",
    "question": "wait",
    "gate": "gate",
}
"""Kinds of rows that are bars."""

RUNS = frozenset({"model", "tool"})
"""Bars while which something runs; an agent that waits has a bar as well."""


@dataclass(slots=True)
class Span:
    """A bar with times in microseconds since 1970; `end` None: it goes on. It stands for `n` bars."""

    kind: BarKind
    record: str
    start: int
    end: int | None
    seq: int
    label: str
    state: BarState
    n: int = 1


def spans_of(lines: Sequence[EntryLine], tree: OrderTree) -> list[Span]:
    """All bars, by their start."""
    spans = [*_of_agents(tree), *_of_waits(lines, tree)]
    for head in heads_alone(lines):
        if head.kind in _BARS:
            spans.append(_of_head(head, tree))
            spans += _of_retries(head)
    return sorted(spans, key=lambda span: (span.start, span.seq))


def _of_agents(tree: OrderTree) -> Iterator[Span]:
    for record in tree.records.values():
        end = record.finished
        state: BarState = "running" if end is None else "ok" if end.state[0] == "completed" else "error"
        started = record.started
        yield Span("agent", record.id, started.at, end.at if end else None, started.seq, started.name, state)


def _of_head(head: RowHead, tree: OrderTree) -> Span:
    record = tree.records.get(head.first.record or "")
    closed = record.finished if record is not None else None
    last = head.ended or closed or tree.finished
    end = head.first.at if head.kind == "gate" else last.at if last is not None else None
    failed = head.failed if head.kind != "model" else head.ended is None and last is not None
    state: BarState = "error" if failed else "running" if end is None else "ok"
    label = head.kind if head.kind in ("approval", "question") else head.first.name
    return Span(_BARS[head.kind], head.first.record or "", head.first.at, end, head.seq, label, state)


def _of_retries(head: RowHead) -> Iterator[Span]:
    """The waits before a model is asked again."""
    for line, following in pairwise([*head.tries, head.ended]):
        if line is not None and line.kind == ModelRetried.kind:
            end = following.at if following is not None else None
            state: BarState = "running" if end is None else "ok"
            yield Span("wait", line.record or "", line.at, end, line.seq, "provider", state)


def _of_waits(lines: Iterable[EntryLine], tree: OrderTree) -> Iterator[Span]:
    """The times for which the order itself was set aside; they are the master's."""
    master = next(iter(tree.records), "")
    since: EntryLine | None = None
    for line in lines:
        if line.kind == OrderWaiting.kind:
            since = line
        elif since is not None and line.kind in (OrderClaimed.kind, OrderResumed.kind, OrderFinished.kind):
            yield Span("wait", master, since.at, line.at, since.seq, since.name, "ok")
            since = None
    if since is not None:
        yield Span("wait", master, since.at, None, since.seq, since.name, "running")


def merged(spans: Sequence[Span], shortest: float) -> list[Span]:
    """The spans of one lane, by start, with those shorter than `shortest` microseconds joined to the short one of their
    kind that they follow at once. All of them have ends."""
    joined: list[Span] = []
    last: dict[str, Span] = {}
    for span in spans:
        before = last.get(span.kind)
        end = span.end or span.start
        if before is not None and end - span.start < shortest and end - before.start < shortest:
            before.n += span.n
            before.end = max(before.end or before.start, end)
            before.state = "error" if "error" in (before.state, span.state) else span.state
            continue
        joined.append(span)
        if end - span.start < shortest:
            last[span.kind] = span
        else:
            last.pop(span.kind, None)
    return joined
