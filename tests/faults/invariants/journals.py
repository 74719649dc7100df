"""What is promised of a journal: numbers, causes, epochs, and viewers that get all of it once."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from tests.faults.invariants.evidence import Entry, Evidence, Order, Violation

DECIDED = frozenset({"approval.decided", "question.answered"})
"""A person's answer: the drone writes it, or the store where none has the order."""

CLOSING = frozenset({"control.applied", "tool.finished", "agent.finished", "order.finished"})
"""What the store itself writes when it ends an order that no drone runs."""

BY_STORE = frozenset({"order.queued", "order.requeued", "order.handed_back", "order.waiting", "order.resumed"})
LETS_GO = frozenset({"order.requeued", "order.handed_back", "order.waiting", "order.resumed"})
STALE = re.compile(r"another drone holds|lease lost|\bfenced\b", re.IGNORECASE)
"""How a drone tells in its log that it was told off."""


def numbered(evidence: Evidence) -> Iterator[Violation]:
    """I5, in the database: each journal runs 1..N, and N is what the order's state says."""
    for order in evidence.orders.values():
        numbers = [entry.seq for entry in order.entries]
        if numbers != list(range(1, len(numbers) + 1)):
            missing = sorted(set(range(1, max(numbers, default=0) + 1)) - set(numbers))
            yield Violation("I5", order.id, f"of {len(numbers)} entries these numbers are missing: {missing[:10]}")
        if len(numbers) != order.last_seq:
            yield Violation("I5", order.id, f"its state says {order.last_seq} entries, and {len(numbers)} are there")


def viewed(evidence: Evidence) -> Iterator[Violation]:
    """I5, at the viewers: over all its connections each got what the journal has, in order and once."""
    for viewer, seen in evidence.viewers.items():
        by_order: dict[str, list[tuple[int, str]]] = {}
        for one in seen:
            by_order.setdefault(one.order_id, []).append((one.seq, one.kind))
        for order_id, got in by_order.items():
            order = evidence.orders.get(order_id)
            if order is None:
                yield Violation("I5", order_id, f"viewer {viewer} saw {len(got)} entries of an order that is not there")
                continue
            lost, twice = missed(order, got), repeated(got)
            if lost or twice:
                yield Violation(
                    "I5", order_id, f"viewer {viewer} missed {lost} and got {twice} twice of {order.last_seq} entries"
                )
            elif got != [(entry.seq, entry.kind) for entry in order.entries]:
                yield Violation("I5", order_id, f"viewer {viewer} got the {len(got)} entries in another order or shape")


def missed(order: Order, got: list[tuple[int, str]]) -> int:
    return len({entry.seq for entry in order.entries} - {seq for seq, _ in got})


def repeated(got: list[tuple[int, str]]) -> int:
    return len(got) - len({seq for seq, _ in got})


def causes_first(evidence: Evidence) -> Iterator[Violation]:
    """I6: the end comes last, answers come after what they answer, nothing is told of an agent outside its life."""
    for order in evidence.orders.values():
        ends = [entry.seq for entry in order.of_kind("order.finished")]
        if ends and ends[0] != order.entries[-1].seq:
            yield Violation("I6", order.id, f"the end is entry {ends[0]}, and entry {order.entries[-1].seq} follows")
        yield from _told_in_their_lives(order)
        yield from _answers(order, "tool.started", "tool.finished", lambda entry: entry.call_id)
        yield from _answers(order, "model.started", "model.replied", _round_of)


def _round_of(entry: Entry) -> object:
    return entry.record_id, entry.data.get("round")


def _answers(order: Order, begin: str, end: str, key: object) -> Iterator[Violation]:
    assert callable(key)
    begun: set[object] = set()
    for entry in order.entries:
        if entry.kind == begin:
            begun.add(key(entry))
        elif entry.kind == end and key(entry) not in begun:
            yield Violation("I6", order.id, f"entry {entry.seq} is a {end} without a {begin} before it")


def _told_in_their_lives(order: Order) -> Iterator[Violation]:
    alive: set[str] = set()
    ended: dict[str, int] = {}
    for entry in order.entries:
        record = entry.record_id
        if record is None:
            continue
        if entry.kind == "agent.started":
            if entry.parent_id is not None and entry.parent_id not in alive:
                yield Violation("I6", order.id, f"entry {entry.seq} begins an agent whose parent is not at work")
            alive.add(record)
        elif record in ended:
            yield Violation(
                "I6", order.id, f"entry {entry.seq} ({entry.kind}) follows its agent's end, {ended[record]}"
            )
        elif record not in alive:
            yield Violation("I6", order.id, f"entry {entry.seq} ({entry.kind}) comes before its agent's start")
        if entry.kind == "agent.finished":
            alive.discard(record)
            ended.setdefault(record, entry.seq)


def fenced(evidence: Evidence) -> Iterator[Violation]:
    """I8: nothing is written under an epoch that is over, and runs that provoke zombies have seen them told off."""
    for order in evidence.orders.values():
        yield from _epochs(order)
    if evidence.run.get("provoked_stale") and stale_attempts(evidence.logs) == 0:
        yield Violation("I8", None, "this run provoked stale writers, and no log tells of one that was told off")


def stale_attempts(logs: Mapping[str, str]) -> int:
    """How often drones were told that an order, or their lease, is no longer theirs."""
    counted = Counter({name: sum(1 for line in text.splitlines() if STALE.search(line)) for name, text in logs.items()})
    return counted.total()


def _epochs(order: Order) -> Iterator[Violation]:
    newest, holder = 0, None
    for place, entry in enumerate(order.own):
        if entry.epoch < newest:
            yield Violation(
                "I8", order.id, f"entry {entry.seq} was written under epoch {entry.epoch} after one of {newest}"
            )
        newest = max(newest, entry.epoch)
        if entry.kind == "order.claimed":
            holder = entry.epoch
            if entry.data.get("epoch") != entry.epoch:
                told = entry.data.get("epoch")
                yield Violation("I8", order.id, f"entry {entry.seq} claims epoch {told} and stands under {entry.epoch}")
        elif entry.kind in BY_STORE or (entry.kind in DECIDED and holder is None):
            pass
        elif entry.epoch != holder and not _ends_it(order.own[place:], entry.epoch):
            yield Violation(
                "I8", order.id, f"entry {entry.seq} ({entry.kind}) has epoch {entry.epoch}, the holder has {holder}"
            )
        if entry.kind in LETS_GO:
            holder = None
    if newest > order.epoch:
        yield Violation("I8", order.id, f"it is at epoch {order.epoch}, and an entry has {newest}")


def _ends_it(rest: object, epoch: int) -> bool:
    """Whether these are the entries by which the store ends (or wakes) an order that no drone runs."""
    assert isinstance(rest, list | tuple)
    for entry in rest:
        if entry.kind in ("order.resumed", "order.finished"):
            return bool(entry.epoch == epoch)
        if entry.kind not in CLOSING or entry.epoch != epoch:
            return False
    return False
