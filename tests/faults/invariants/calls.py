"""Effects: done once, never invented, never before their intent; the ledger is the witness."""

from collections import Counter
from collections.abc import Iterator

from tests.faults.invariants.evidence import Effect, Entry, Evidence, Order, Violation, tolerance_of

WITNESSED = frozenset({"ledger_once", "ledger_idem"})
NO_EFFECT = frozenset({"denied", "timeout", "outcome_unknown", "cancelled", "error"})
"""Outcomes that promise no effect; `error` is what the tool itself could not do."""


def done_once(evidence: Evidence) -> Iterator[Violation]:
    """I3: nothing runs again whose result is committed, and what is not idempotent runs at most once, always."""
    for order in evidence.orders.values():
        effects = evidence.effects_of(order.id)
        for call_id, count in Counter(effect.call_id for effect in effects if effect.once).items():
            if count > 1:
                yield Violation(
                    "I3", order.id, f"the call {call_id} is not idempotent and had its effect {count} times"
                )
        for (call_id, epoch), count in Counter((one.call_id, one.epoch) for one in effects if not one.once).items():
            if count > 1:
                yield Violation("I3", order.id, f"the call {call_id} ran {count} times under epoch {epoch}")
        yield from _after_the_result(order, effects, tolerance_of(evidence))


def _after_the_result(order: Order, effects: list[Effect], tolerance: float) -> Iterator[Violation]:
    """A zombie that was stopped in the midst of a call may finish it late; the holder must not begin it again."""
    results = {entry.call_id: entry for entry in order.own if entry.kind == "tool.finished"}
    for effect in effects:
        result = results.get(effect.call_id)
        if result is None or effect.t <= result.at + tolerance or effect.epoch < result.epoch:
            continue
        late = effect.t - result.at
        yield Violation(
            "I3", order.id, f"{effect.tool} {effect.call_id} ran {late:.3f} s after its result was committed"
        )


def never_invented(evidence: Evidence) -> Iterator[Violation]:
    """I4: a good result has its line in the ledger, and each line had its intent committed before it.

    A later holder has read the intent before it ran anything, whatever its clock says.
    """
    for order in evidence.orders.values():
        effects = evidence.effects_of(order.id)
        witnessed = {effect.call_id for effect in effects}
        for entry in order.own:
            if entry.kind == "tool.finished" and _claims_an_effect(entry) and entry.call_id not in witnessed:
                yield Violation("I4", order.id, f"entry {entry.seq}: {entry.data['name']} has a result and no effect")
        started = {entry.call_id: entry for entry in order.entries if entry.kind == "tool.started"}
        for effect in effects:
            intent = started.get(effect.call_id)
            if intent is None:
                yield Violation("I4", order.id, f"{effect.tool} {effect.call_id} had an effect that no entry announced")
            elif effect.epoch <= intent.epoch and effect.t + tolerance_of(evidence) < intent.at:
                early = intent.at - effect.t
                yield Violation("I4", order.id, f"{effect.tool} {effect.call_id} ran {early:.3f} s before its intent")


def _claims_an_effect(entry: Entry) -> bool:
    return entry.data.get("name") in WITNESSED and entry.data.get("outcome", "ok") not in NO_EFFECT
