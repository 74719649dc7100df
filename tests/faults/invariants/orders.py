"""What is promised of orders as wholes: accepted once, ended once, in the order of their session."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import PurePath

from tests.faults.invariants.evidence import Evidence, Order, Violation, tolerance_of

REASONS = frozenset(
    {
        "model_error",
        "limit_reached",
        "budget_exhausted",
        "gate_failed",
        "refused",
        "poison",
        "expired",
        "invalid",
        "internal",
    }
)
RELEASES = frozenset({"order.requeued", "order.handed_back", "order.waiting", "order.finished"})
SAME_MOMENT_SECONDS = 2.0
"""Entries of two orders are dated before their transactions: so far apart they may seem out of order."""


def ended_once(evidence: Evidence) -> Iterator[Violation]:
    """I1: one final transition of each order, told alike by its journal, its state and its outcome."""
    for order in evidence.orders.values():
        ends = list(order.of_kind("order.finished"))
        if len(ends) != int(order.final):
            yield Violation("I1", order.id, f"it is {order.status} and has {len(ends)} final entries")
            continue
        if not ends:
            continue
        end, outcome = ends[0].data, order.outcome or {}
        told = {str(end.get("status")), order.status, str(outcome.get("status"))}
        if len(told) > 1:
            yield Violation("I1", order.id, f"journal, state and outcome differ: {', '.join(sorted(told))}")
        reason = end.get("reason")
        if (order.status == "failed") != (reason in REASONS) or reason != order.reason:
            yield Violation(
                "I1", order.id, f"it is {order.status} with the reason {reason!r} (state: {order.reason!r})"
            )


def accepted_is_kept(evidence: Evidence) -> Iterator[Violation]:
    """I2: what was accepted is there, is done, and is there once for each key."""
    for post in evidence.posts:
        if post.accepted and post.order_id not in evidence.orders:
            yield Violation("I2", post.order_id, f"a client was answered {post.status}, and there is no such order")
    for order in evidence.orders.values():
        if not order.final:
            yield Violation("I2", order.id, f"it is still {order.status} (attempts end at entry {order.last_seq})")
    yield from _one_order_for_a_key(evidence)
    yield from _placed_no_oftener_than_asked(evidence)


def _one_order_for_a_key(evidence: Evidence) -> Iterator[Violation]:
    answered: dict[str, set[str]] = defaultdict(set)
    for post in evidence.posts:
        if post.accepted and post.key is not None and post.order_id is not None:
            answered[post.key].add(post.order_id)
    for key, ids in answered.items():
        if len(ids) > 1:
            yield Violation("I2", min(ids), f"the key {key} was answered with {len(ids)} orders")


def _placed_no_oftener_than_asked(evidence: Evidence) -> Iterator[Violation]:
    """A post without an answer may have been kept; sent again under its key it must not make a second order."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for number, post in enumerate(evidence.posts):
        wanted[post.prompt].add(post.key if post.key is not None else f"post {number}")
    placed = Counter(order.prompt for order in evidence.orders.values() if not order.derived)
    for prompt, count in placed.items():
        if prompt in wanted and count > len(wanted[prompt]):
            one = next(order.id for order in evidence.orders.values() if order.prompt == prompt)
            yield Violation("I2", one, f"{len(wanted[prompt])} asked for this prompt, and {count} orders have it")


def spans(order: Order, until: float = float("inf")) -> list[tuple[float, float, str]]:
    """(from, to, drone) of each time that a drone held the order, by its journal; `until` ends what is open."""
    found: list[tuple[float, float, str]] = []
    begun: tuple[float, str] | None = None
    for entry in order.own:
        if entry.kind == "order.claimed":
            begun = entry.at, str(entry.data.get("drone"))
        elif entry.kind in RELEASES and begun is not None:
            found.append((begun[0], entry.at, begun[1]))
            begun = None
    return found if begun is None else [*found, (begun[0], until, begun[1])]


def writing_spans(order: Order) -> list[tuple[float, float, str]]:
    """The part of each span in which the order was the only one that might write in its workspace, by its journal:
    from the entry that says so, of a revert from its first checkpoint."""
    kinds = {"workspace.held"} if order.spec.get("kind") != "revert" else {"workspace.checkpointed"}
    held = [entry.at for entry in order.own if entry.kind in kinds]
    first = [min((at for at in held if begin <= at <= end), default=end) for begin, end, _ in spans(order)]
    return [(at, end, drone) for at, (_, end, drone) in zip(first, spans(order), strict=True) if at < end]


def one_holder(evidence: Evidence) -> Iterator[Violation]:
    """I9: one holder of an order, one running order of a session, and one that writes in a workspace."""
    for order in evidence.orders.values():
        yield from _claims_alternate(order)
    yield from _samples_agree(evidence)
    for session in _by_session(evidence).values():
        yield from _apart(session)
    yield from _alone_in_workspaces(evidence)


def _claims_alternate(order: Order) -> Iterator[Violation]:
    held: int | None = None
    for entry in order.own:
        if entry.kind == "order.claimed":
            if held is not None:
                yield Violation("I9", order.id, f"entry {entry.seq} claims it while the claim of entry {held} stands")
            held = entry.seq
        elif entry.kind in RELEASES:
            held = None


def _samples_agree(evidence: Evidence) -> Iterator[Violation]:
    holders: dict[tuple[str, int], set[str]] = defaultdict(set)
    newest: dict[str, int] = {}
    at_once: dict[tuple[float, str], set[str]] = defaultdict(set)
    for sample in sorted(evidence.samples, key=lambda one: one.t):
        holders[(sample.order_id, sample.epoch)].add(sample.incarnation)
        if sample.epoch < newest.get(sample.order_id, 0):
            yield Violation("I9", sample.order_id, f"its epoch went from {newest[sample.order_id]} to {sample.epoch}")
        newest[sample.order_id] = max(newest.get(sample.order_id, 0), sample.epoch)
        order = evidence.orders.get(sample.order_id)
        if order is not None:
            at_once[(sample.t, order.session_id)].add(sample.order_id)
    for (order_id, epoch), incarnations in holders.items():
        if len(incarnations) > 1:
            yield Violation(
                "I9", order_id, f"{len(incarnations)} incarnations were seen to hold it under epoch {epoch}"
            )
    for (t, session_id), ids in at_once.items():
        if len(ids) > 1:
            yield Violation("I9", min(ids), f"{len(ids)} orders of session {session_id} were held at {t:.3f}")


def _apart(session: list[Order]) -> Iterator[Violation]:
    """The spans of none of these overlap with those of another."""
    held = sorted((begin, end, order.id) for order in session for begin, end, _ in spans(order))
    for (_, end, one), (begin, _, other) in combinations(held, 2):
        if one != other and begin < end - SAME_MOMENT_SECONDS:
            yield Violation("I9", other, f"it ran {end - begin:.1f} s beside {one} of the same session")


def _alone_in_workspaces(evidence: Evidence) -> Iterator[Violation]:
    """None writes in a workspace, or in one above or below it, while another does. The entry from which an order writes
    is dated after it had got its workspace, and the one with which it lets go before that: no moment is shared."""
    tolerance = tolerance_of(evidence)
    writing = sorted(
        (begin, end, order.id, PurePath(order.workspace))
        for order in evidence.orders.values()
        if order.workspace is not None
        for begin, end, _ in writing_spans(order)
    )
    for (_, end, one, place), (begin, _, other, wanted) in combinations(writing, 2):
        if one != other and begin < end - tolerance and (place.is_relative_to(wanted) or wanted.is_relative_to(place)):
            yield Violation("I9", other, f"it wrote in {wanted} {end - begin:.3f} s before {one} had let go of {place}")


def turns_in_order(evidence: Evidence) -> Iterator[Violation]:
    """I15: the orders of a session are numbered without a gap as they were accepted, and begin in that order."""
    for session_id, orders in _by_session(evidence).items():
        numbers = [order.session_seq for order in orders]
        if numbers != list(range(1, len(numbers) + 1)):
            yield Violation("I15", orders[0].id, f"the turns of session {session_id} are numbered {numbers}")
        for earlier, later in pairwise(orders):
            if later.created_at < earlier.created_at - SAME_MOMENT_SECONDS:
                late = earlier.created_at - later.created_at
                yield Violation("I15", later.id, f"turn {later.session_seq} was accepted {late:.1f} s before the last")
        begun = [(spans(order)[0][0], order) for order in orders if spans(order)]
        for (first, earlier), (second, later) in pairwise(begun):
            if second < first - SAME_MOMENT_SECONDS:
                sentence = f"turn {later.session_seq} began {first - second:.1f} s before turn {earlier.session_seq}"
                yield Violation("I15", later.id, sentence)


def _by_session(evidence: Evidence) -> dict[str, list[Order]]:
    found: dict[str, list[Order]] = defaultdict(list)
    for order in sorted(evidence.orders.values(), key=lambda one: one.session_seq):
        found[order.session_id].append(order)
    return found
