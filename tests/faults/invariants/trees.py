"""The record tree: complete in itself, and the one that the order's script makes."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcc.contracts.fence import unfenced
from tests.faults.invariants.evidence import Entry, Evidence, Order, Violation
from tests.faults.script import SUBAGENT, SUBAGENTS_RUN, SUBMIT, Part, Play, Step, Wanted, expected

BREAKING = ("raise", "exec_and_error", "disk", "full", "out_of_memory")
"""Faults that make a tool itself fail; the model is told, and the script goes on all the same."""

DELEGATES = frozenset({SUBAGENT, SUBAGENTS_RUN})
MARKED = frozenset({"outcome_unknown"})
"""A result that was lost is told as such; the script goes on all the same."""


UNLIKE = "unlike"
"""Stands for every marked outcome."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the journal tells it; `outcome` None: it has no result."""

    name: str
    arguments: Any
    result: str | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    calls: tuple[Call, ...]


def complete(evidence: Evidence) -> Iterator[Violation]:
    """I7, in itself: parents exist, whatever began has ended, and the stored records are those of the journal."""
    for order in evidence.orders.values():
        if not order.final:
            continue
        started = {entry.record_id: entry for entry in order.of_kind("agent.started")}
        yield from _parents(order, started)
        yield from _ends(order, set(started))
        yield from _calls_have_results(order)
        yield from _asked_and_answered(order)
        stored = {record for record, _ in order.records}
        if stored != set(started):
            missing, foreign = len(set(started) - stored), len(stored - set(started))
            yield Violation("I7", order.id, f"of its {len(started)} records {missing} are not stored, {foreign} beside")


def delivered_once(evidence: Evidence) -> Iterator[Violation]:
    """I7: a subagent in the background ends before its parent, and its parent gets its report once; where the order
    succeeded, it has got it."""
    for order in evidence.orders.values():
        hired: dict[str, Entry] = {}
        brought = Counter[str]()
        ended: dict[str | None, int] = {}
        for entry in order.entries:
            if entry.kind == "agent.finished":
                ended[entry.record_id] = entry.seq
            hired |= dict.fromkeys(entry.data.get("background", ()) if entry.kind == "tool.finished" else (), entry)
            delivered = entry.data.get("delivered", ()) if entry.kind == "tool.finished" else ()
            for child in [entry.data["child_id"]] if entry.kind == "agent.delivered" else delivered:
                brought[child] += 1
                if child not in hired or hired[child].record_id != entry.record_id:
                    yield Violation("I7", order.id, f"entry {entry.seq} delivers {child}, which is no child in hand")
                if child not in ended:
                    yield Violation("I7", order.id, f"entry {entry.seq} delivers {child} before its end")
        if several := [child for child, times in brought.items() if times > 1]:
            yield Violation("I7", order.id, f"{len(several)} subagents are delivered more than once")
        if order.status == "succeeded" and (missing := hired.keys() - brought.keys()):
            yield Violation("I7", order.id, f"{len(missing)} of {len(hired)} subagents are never delivered")


def _parents(order: Order, started: Mapping[str | None, Entry]) -> Iterator[Violation]:
    roots = [entry for entry in started.values() if entry.parent_id is None]
    if len(roots) > 1:
        yield Violation("I7", order.id, f"it has {len(roots)} masters' records")
    for entry in started.values():
        if entry.parent_id is not None and entry.parent_id not in started:
            yield Violation("I7", order.id, f"entry {entry.seq}: the parent {entry.parent_id} does not exist")


def _ends(order: Order, started: set[str | None]) -> Iterator[Violation]:
    ended = {entry.record_id for entry in order.of_kind("agent.finished")}
    if open_ones := started - ended:
        yield Violation("I7", order.id, f"{len(open_ones)} of {len(started)} agents have no end")


def _calls_have_results(order: Order) -> Iterator[Violation]:
    begun = {entry.call_id for entry in order.of_kind("tool.started")}
    done = {entry.call_id for entry in order.of_kind("tool.finished")}
    if lost := begun - done:
        yield Violation("I7", order.id, f"{len(lost)} of {len(begun)} tool calls have no result")


def _asked_and_answered(order: Order) -> Iterator[Violation]:
    """A model call without an answer is followed by another try, by its agent's end, or it was lost with its drone."""
    open_calls: dict[str | None, Entry] = {}
    for entry in order.entries:
        if entry.kind in ("model.replied", "model.retried", "model.fell_back", "agent.finished"):
            open_calls.pop(entry.record_id, None)
        elif entry.kind == "order.claimed":
            open_calls.clear()
        elif entry.kind == "model.started":
            if before := open_calls.get(entry.record_id):
                yield Violation("I7", order.id, f"the model call of entry {before.seq} has neither answer nor error")
            open_calls[entry.record_id] = entry
    if open_calls:
        yield Violation("I7", order.id, f"{len(open_calls)} model calls have neither answer nor error")


def as_written(evidence: Evidence) -> Iterator[Violation]:
    """I7, against the script: each agent said, called and got what its part says; unless it was stopped, all of it."""
    for order in evidence.orders.values():
        disarmed = any(entry.data.get("tools_removed") for entry in order.of_kind("control.applied"))
        if Play.of(order.prompt) is not None and not order.derived and not disarmed:
            broken = any(word in fault.fault for fault in evidence.faults for word in BREAKING)
            yield from differences(order, MARKED | {"error"} if broken else MARKED)


def differences(order: Order, marked: frozenset[str] = MARKED) -> Iterator[Violation]:
    """`marked`: outcomes that may stand in the place of the result."""
    parts = expected(order.prompt).parts
    told = transcripts(order)
    steers = sum(entry.data.get("control") == "steer" for entry in order.of_kind("control.applied"))
    steers += sum(1 for _ in order.of_kind("agent.delivered"))
    for path, said in told.items():
        if path not in parts:
            yield Violation("I7", order.id, f"the agent {path} is not in the script")
            continue
        whole = order.status == "succeeded"
        if why := _difference(parts[path], _without(said, marked), whole, steers):
            yield Violation("I7", order.id, f"{path}: {why}")
    if order.status == "succeeded":
        if missing := sorted(set(parts) - set(told)):
            yield Violation("I7", order.id, f"{len(missing)} agents of the script never began: {', '.join(missing)}")
        answer, wanted = (order.outcome or {}).get("answer"), parts["master"].answer
        if answer != wanted:
            yield Violation("I7", order.id, f"its answer is {str(answer)[:60]!r} and not {wanted[:60]!r}")


def transcripts(order: Order) -> dict[str, list[Said]]:
    """What each agent said and called, by its path in the script (a record id where its prompt names none)."""
    results = {entry.call_id: entry for entry in order.of_kind("tool.finished")}
    paths: dict[str | None, str] = {}
    found: dict[str, list[Said]] = {}
    for entry in order.of_kind("agent.started", "model.replied"):
        if entry.kind == "agent.started":
            play = Play.of(str(entry.data.get("prompt", "")))
            paths[entry.record_id] = path = play.path if play else str(entry.record_id)
            found.setdefault(path, [])
        elif entry.record_id in paths:
            found[paths[entry.record_id]].append(_said(entry, results))
    return found


def _said(entry: Entry, results: Mapping[str | None, Entry]) -> Said:
    blocks, calls = entry.data.get("blocks", ()), []
    for call in (block for block in blocks if block["type"] == "tool_call"):
        done = results.get(call["call_id"])
        result = unfenced(str(done.data.get("content"))) if done else None
        outcome = done.data.get("outcome", "ok") if done else None
        calls.append(Call(call["name"], call["arguments"], result, outcome))
    return Said("".join(block["text"] for block in blocks if block["type"] == "text"), tuple(calls))


def _without(told: list[Said], marked: frozenset[str]) -> list[Said]:
    return [
        Said(one.text, tuple(replace(call, outcome=UNLIKE) if call.outcome in marked else call for call in one.calls))
        for one in told
    ]


def _difference(part: Part, told: list[Said], whole: bool, steers: int) -> str | None:
    """A message, or a report, that comes with the last reply is answered as well: the script then says its last step
    again."""
    steps = [*part.steps, *part.steps[-1:] * steers]
    if len(told) > len(steps) or (whole and len(told) < len(part.steps)):
        return f"{len(told)} replies instead of {len(part.steps)}"
    for number, (step, said) in enumerate(zip(steps, told, strict=False)):
        if why := _step_differs(step, said, whole):
            return f"step {number}: {why}"
    return None


def _step_differs(step: Step, said: Said, whole: bool) -> str | None:
    if said.text != step.text:
        return f"it said {said.text[:60]!r} and not {step.text[:60]!r}"
    if [(call.name, call.arguments) for call in said.calls] != [
        (call.name, dict(call.arguments)) for call in step.calls
    ]:
        return f"it called {[call.name for call in said.calls]} and not {[call.name for call in step.calls]}"
    for call, wanted in zip(said.calls, step.calls, strict=True):
        if why := _result_differs(call, wanted, whole):
            return why
    return None


def _result_differs(call: Call, wanted: Wanted, whole: bool) -> str | None:
    if call.outcome == UNLIKE or (call.outcome is None and not whole):
        return None
    if call.outcome is None:
        return f"{call.name} has no result"
    if not whole and call.outcome != "ok":
        return None
    if call.name in DELEGATES or call.name == SUBMIT or wanted.result is None:
        return None if call.outcome == "ok" else f"{call.name} ended as {call.outcome}"
    return None if call.result == wanted.result else f"{call.name} brought {str(call.result)[:60]!r}"
