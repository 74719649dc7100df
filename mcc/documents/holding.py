"""Accepting and releasing of values, stamps, and recording of agent runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from mcc.documents.change import DispatchRefused
from mcc.documents.commands import CHILDREN, Accept, Instruct, Release, Settle
from mcc.documents.inputs import inputs_of
from mcc.documents.node import Accepted, FieldConflict, Node, NodeFailure, Provenance, Role, Stamp
from mcc.documents.prompts import TaskPrefix, describe, frame_of, own_part, task_opening
from mcc.documents.staleness import missing
from mcc.documents.work import DispatchWork


@dataclass(frozen=True, slots=True)
class HoldState:
    """The parts of a node that accept and release change; kept before and after for undo."""

    provenance: Mapping[str, Provenance | None]
    stamps: Mapping[Role, Stamp]
    conflicts: Mapping[str, FieldConflict]
    failure: NodeFailure | None


HOLD_STATE = TypeAdapter(HoldState)


def hold_state(node: Node, names: tuple[str, ...]) -> HoldState:
    """The present hold state of these fields of a node."""
    found = {name: node.provenance.get(name) for name in names}
    return HoldState(found, node.stamps, node.conflicts, node.failure)


def accept(work: DispatchWork, command: Accept) -> None:
    """Hold the present values of these fields (by default all that are set). Raises `DispatchRefused`."""
    node = work.find(command.node)
    names = _names(work, node, command.fields)
    accepted = Accepted(work.version, work.author.principal or work.author.by)
    provenance = dict(node.provenance)
    for name in names:
        known = provenance.get(name)
        if known is None or (name != CHILDREN and node.value(name) is None):
            if name != CHILDREN:
                raise DispatchRefused(422, f"{name} of {work.state.path(node)} has no value that could be held")
            known = work.provenance(node, None, None)
        provenance[name] = replace(known, accepted=accepted)
    failure = None if command.fields is None else node.failure
    _apply(work, node, names, "accept", provenance=provenance, failure=failure)


def release(work: DispatchWork, command: Release) -> None:
    """Return these fields (by default all that are held) to the generator. Raises `DispatchRefused`."""
    node = work.find(command.node)
    names = _names(work, node, command.fields)
    known = {name: found for name in names if (found := node.provenance.get(name)) is not None}
    freed = {name: replace(found, accepted=None) for name, found in known.items()}
    _apply(work, node, tuple(known), "release", provenance={**node.provenance, **freed})


def _apply(work: DispatchWork, node: Node, names: tuple[str, ...], command: str, **changed: Any) -> None:
    conflicts = {name: conflict for name, conflict in node.conflicts.items() if name not in names}
    after = replace(node, version=work.version, conflicts=conflicts, **changed)
    if command == "accept":
        mark_answered(work, after)
    work.draft.put(after)
    states = [HOLD_STATE.dump_python(hold_state(state, names), mode="json") for state in (node, after)]
    fields = {name: (node.value(name), node.value(name)) for name in names if name != CHILDREN}
    work.step(command, work.state.path(node), fields, {"node": node.id, "names": list(names), "standing": states})


def mark_answered(work: DispatchWork, node: Node) -> None:
    """Mark for a new stamp each role of the node of which people hold all set values."""
    sections: Mapping[Role, str] = {"metadata": "metadata.", "node": "props."}
    for role, section in sections.items():
        answers = [name for name in _names(work, node, None) if name.startswith(section)]
        if answers and all(node.provenance[name].held for name in answers):
            work.to_stamp[node.id, role] = True


def stamp(work: DispatchWork) -> None:
    """Stamp the marked nodes with the digest of the present prompt, as the answer given in an agent's place fits it.

    Call this after recomputation, as the prompt contains computed values. A node with missing values or children is not
    stamped, so that changes of its ancestors do not make it stale before it is complete.
    """
    for (id, role), again in work.to_stamp.items():
        node = work.draft.node(id)
        if node is None or (role in node.stamps and not again):
            continue
        blueprint = work.blueprint
        state = work.state if work.brief is None else replace(work.state, brief=work.brief)
        if role not in node.stamps and any(True for _ in missing(work.component(node), state, node)):
            continue
        frame = frame_of(blueprint, node.component, role)
        if not frame.tools:
            continue
        above = [describe(blueprint, state, ancestor) for ancestor in state.ancestors(node)]
        asked = TaskPrefix(task_opening(state.brief, above)).digest(own_part(frame, node), frame)
        inputs = inputs_of(blueprint, state, node, role)
        made = Stamp(asked, inputs, work.version, work.component(node).rules_digest)
        work.draft.put(replace(node, stamps={**node.stamps, role: made}))


def instruct(work: DispatchWork, command: Instruct) -> None:
    """Set the brief of the document.

    As long as no agent has run, all stamps are renewed, so that a brief given after the first values makes none of them
    stale: people wrote those with this brief in mind.
    """
    if command.brief == work.state.brief:
        return
    work.brief = command.brief
    work.step(command.command, "/")
    stamped = [(node.id, role, known) for node in work.state.nodes.values() for role, known in node.stamps.items()]
    if all(known.record_id is None for _, _, known in stamped):
        work.to_stamp.update({(id, role): True for id, role, _ in stamped})


def _names(work: DispatchWork, node: Node, given: tuple[str, ...] | None) -> tuple[str, ...]:
    """The full names of the given fields; None = all that can be set and are. Raises `DispatchRefused` (422)."""
    fields = work.component(node).fields
    if given is None:
        set_ones = [
            field.name for field in fields.values() if field.computation is None and node.value(field.name) is not None
        ]
        return tuple(name for name in set_ones if name in node.provenance)
    chosen: dict[str, None] = {}
    for name in given:
        full = [full_name for full_name in (f"metadata.{name}", f"props.{name}") if full_name in fields]
        exact = full[0] if len(full) == 1 else name
        chosen[exact if exact == CHILDREN else work.field(node, exact).name] = None
    return tuple(chosen)


def settle(work: DispatchWork, command: Settle) -> None:
    """Record how a run of the node's agent ended, and its stamp."""
    node = work.find(command.node)
    order_id = command.order_id or work.author.order_id
    record_id = command.record_id or work.author.record_id
    stamp = Stamp(command.asked, command.inputs, work.version, command.rules, order_id, record_id)
    failure = None
    if command.failure is not None:
        errors = tuple(error.model_dump() for error in command.failure.errors)
        failure = NodeFailure(command.failure.reason, command.failure.message, errors, record_id, work.author.at)
    summary = node.summary if command.summary is None else command.summary
    changed = work.change(node, set(), stamps={**node.stamps, command.role: stamp}, failure=failure, summary=summary)
    work.add_verdicts(changed, command.verdicts)
    work.step("settle", work.state.path(changed))
