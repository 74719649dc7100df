"""Values that people hold: accepted and released, and how a run of a node's agent is kept."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from mcc.documents.asking import Begun, beginning, describe, frame_of, settled
from mcc.documents.change import Refused
from mcc.documents.commands import CHILDREN, Accept, Instruct, Release, Settle
from mcc.documents.inputs import inputs_of
from mcc.documents.node import Accepted, Conflict, Failure, Node, Provenance, Role, Stamp
from mcc.documents.staleness import missing
from mcc.documents.work import Work


@dataclass(frozen=True, slots=True)
class Standing:
    """What accepting and releasing change of a node: provenance of the fields in question, stamps, conflicts, and how
    its last run ended."""

    provenance: Mapping[str, Provenance | None]
    stamps: Mapping[Role, Stamp]
    conflicts: Mapping[str, Conflict]
    failure: Failure | None


STANDING = TypeAdapter(Standing)


def standing(node: Node, names: tuple[str, ...]) -> Standing:
    found = {name: node.provenance.get(name) for name in names}
    return Standing(found, node.stamps, node.conflicts, node.failure)


def accept(work: Work, command: Accept) -> None:
    """Hold these fields (all that are set, if none is named) as they are. Raises `Refused`."""
    node = work.find(command.node)
    names = _names(work, node, command.fields)
    accepted = Accepted(work.version, work.author.principal or work.author.by)
    provenance = dict(node.provenance)
    for name in names:
        known = provenance.get(name)
        if known is None or (name != CHILDREN and _value(node, name) is None):
            if name != CHILDREN:
                raise Refused(422, f"{name} of {work.state.path(node)} has no value that could be held")
            known = work.provenance(node, None, None)
        provenance[name] = replace(known, accepted=accepted)
    failure = None if command.fields is None else node.failure
    _stand(work, node, names, "accept", provenance=provenance, failure=failure)


def release(work: Work, command: Release) -> None:
    """Give these fields (all that are held, if none is named) to the generator. Raises `Refused`."""
    node = work.find(command.node)
    names = _names(work, node, command.fields)
    known = {name: found for name in names if (found := node.provenance.get(name)) is not None}
    freed = {name: replace(found, accepted=None) for name, found in known.items()}
    _stand(work, node, tuple(known), "release", provenance={**node.provenance, **freed})


def _stand(work: Work, node: Node, names: tuple[str, ...], command: str, **changed: Any) -> None:
    conflicts = {name: found for name, found in node.conflicts.items() if name not in names}
    after = replace(node, version=work.version, conflicts=conflicts, **changed)
    if command == "accept":
        answered(work, after)
    work.draft.put(after)
    standings = [STANDING.dump_python(standing(one, names), mode="json") for one in (node, after)]
    fields = {name: (_value(node, name), _value(node, name)) for name in names if name != CHILDREN}
    work.step(command, work.state.path(node), fields, {"node": node.id, "names": list(names), "standing": standings})


def answered(work: Work, node: Node) -> None:
    """What people hold all answers of is stamped as of now; where an agent's value is left, its agent may be asked."""
    sections: Mapping[Role, str] = {"metadata": "metadata.", "node": "props."}
    for role, section in sections.items():
        answers = [name for name in _names(work, node, None) if name.startswith(section)]
        if answers and all(node.provenance[name].held for name in answers):
            work.answered[node.id, role] = True


def stamp(work: Work) -> None:
    """Where somebody answered in an agent's place, the question is the one of now: with what follows from the change,
    and so once that is known.

    A node of which something is missing yet is not answered: what its ancestors come to say before it is complete moves
    no ground of it.
    """
    for (id, role), again in work.answered.items():
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
        above = [describe(blueprint, state, one) for one in state.ancestors(node)]
        asked = Begun(beginning(state.brief, above)).asked(settled(frame, node), frame)
        inputs = inputs_of(blueprint, state, node, role)
        made = Stamp(asked, inputs, work.version, work.component(node).rules_digest)
        work.draft.put(replace(node, stamps={**node.stamps, role: made}))


def instruct(work: Work, command: Instruct) -> None:
    """What all agents read from now on.

    As long as no agent has run, people answered with this brief in mind, though they gave it after their values: it is
    part of what they answered, and moves no ground of theirs.
    """
    if command.brief == work.state.brief:
        return
    work.brief = command.brief
    work.step(command.command, "/")
    stamped = [(node.id, role, one) for node in work.state.nodes.values() for role, one in node.stamps.items()]
    if all(one.record_id is None for _, _, one in stamped):
        work.answered.update({(id, role): True for id, role, _ in stamped})


def _names(work: Work, node: Node, given: tuple[str, ...] | None) -> tuple[str, ...]:
    """Full names of fields. Raises `Refused` (422)."""
    fields = work.component(node).fields
    if given is None:
        set_ones = [
            one.name for one in fields.values() if one.computation is None and _value(node, one.name) is not None
        ]
        return tuple(name for name in set_ones if name in node.provenance)
    found: dict[str, None] = {}
    for name in given:
        full = [one for one in (f"metadata.{name}", f"props.{name}") if one in fields]
        exact = full[0] if len(full) == 1 else name
        found[exact if exact == CHILDREN else work.field(node, exact).name] = None
    return tuple(found)


def _value(node: Node, name: str) -> Any:
    section, _, key = name.partition(".")
    return (node.metadata if section == "metadata" else node.props).get(key)


def settle(work: Work, command: Settle) -> None:
    """Keep how a run of the node's agent ended, and what the agent was asked with."""
    node = work.find(command.node)
    order_id = command.order_id or work.author.order_id
    record_id = command.record_id or work.author.record_id
    stamp = Stamp(command.asked, command.inputs, work.version, command.rules, order_id, record_id)
    failure = None
    if command.failure is not None:
        errors = tuple(error.model_dump() for error in command.failure.errors)
        failure = Failure(command.failure.reason, command.failure.message, errors, record_id, work.author.at)
    summary = node.summary if command.summary is None else command.summary
    changed = work.change(node, set(), stamps={**node.stamps, command.role: stamp}, failure=failure, summary=summary)
    work.say(changed, command.verdicts)
    work.step("settle", work.state.path(changed))
