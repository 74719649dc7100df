"""The brief of a node's agent: all that it is asked with, and beside it how the node stands at present."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from mcc.contracts.blueprints import ListField, ReferenceField
from mcc.contracts.fence import fenced
from mcc.documents.asking import Begun, beginning, describe, frame_of, settled, value_lines
from mcc.documents.blueprint import Blueprint
from mcc.documents.commands import CHILDREN
from mcc.documents.inputs import Inputs, because, inputs_of
from mcc.documents.instructions import a
from mcc.documents.node import Node, Role
from mcc.documents.state import State
from mcc.documents.tools import ToolSchema

LISTED = 200
"""Nodes that one list of a brief names at most."""

LOOKED_AT = 400
"""Nodes that are looked at to find those that a reference may lead to."""

_SEED = "present"


@dataclass(frozen=True, slots=True)
class Brief:
    """`asked` is the digest over `system`, `task` and `tools`. `present` is told beside the task and no part of it: the
    values that are there, the children, what is held, what has changed. `inputs` are what went into the task, by name;
    `rules` is the digest of what the node is held to."""

    system: str
    task: str
    present: str
    tools: tuple[ToolSchema, ...]
    asked: str
    inputs: Inputs
    rules: str


def brief_of(blueprint: Blueprint, state: State, node_id: str, role: Role) -> Brief:
    """What the agent of this node (path or id) is asked with today. Raises `UnknownNode`.

    The same blueprint, brief of the document, values of the ancestors and own metadata give the same question, whatever
    happened in between.
    """
    node = state.find(node_id)
    frame = frame_of(blueprint, node.component, role)
    begins, own = _task(blueprint, state, node, role)
    return Brief(
        system=frame.system,
        task=f"{begins}{own}{frame.end}",
        present="\n\n".join(_present(blueprint, state, node, role)),
        tools=frame.tools,
        asked=Begun(begins).asked(own, frame),
        inputs=inputs_of(blueprint, state, node, role),
        rules=blueprint.component(node.component).rules_digest,
    )


def question_of(blueprint: Blueprint, state: State, node: Node, role: Role) -> tuple[str, str]:
    """System prompt and task of the node's agent as of this state, and nothing beside."""
    frame = frame_of(blueprint, node.component, role)
    return frame.system, "".join([*_task(blueprint, state, node, role), frame.end])


def _task(blueprint: Blueprint, state: State, node: Node, role: Role) -> tuple[str, str]:
    """How the task begins for all children of the parent, and how it goes on for the node."""
    begins = beginning(state.brief, [describe(blueprint, state, one) for one in state.ancestors(node)])
    return begins, settled(frame_of(blueprint, node.component, role), node)


def _present(blueprint: Blueprint, state: State, node: Node, role: Role) -> Iterator[str]:
    component = blueprint.component(node.component)
    section = "metadata" if role == "metadata" else "props"
    yield f"# How it stands\nThis is the node {state.path(node)}."
    values = [name for name, field in component.fields.items() if field.section == section]
    in_frame = frame_of(blueprint, node.component, role).known
    there = [name for name in values if name not in in_frame]
    yield from _section("Values that are there", list(value_lines(node, there)))
    if role == "node":
        yield from _nodes("Children that are there", blueprint, state, state.children_of(node))
    if component.validates:
        # What is required is said in the system prompt already.
        broken = (
            one
            for one in node.verdicts
            if one.ok is False and _is_of(one.rule, section) and not one.rule.endswith(".required")
        )
        wrong = [f"- {one.rule}: {one.message}" for one in broken]
        yield from _section("Rules that do not hold", wrong)
    stamp = node.stamps.get(role)
    if stamp is not None:
        changed = [f"- {one}" for one in because(blueprint, state, node, role, stamp)]
        yield from _section("What has changed since it was made", changed)
    held = [name for name in values if (found := node.provenance.get(name)) is not None and found.held]
    if held:
        yield f"People hold these values. They stay as they are, and cannot be set: {', '.join(held)}."
    if role == "node" and (found := node.provenance.get(CHILDREN)) is not None and found.held:
        yield "People hold the children as they are: none is made, moved or taken away."
    if role == "node":
        yield from _references(blueprint, state, node)


def _section(title: str, lines: Sequence[str], more: int = 0) -> Iterator[str]:
    if lines:
        text = "\n".join([*lines[:LISTED], *([f"- and {more:,} more"] if more else [])])
        yield f"# {title}\n{fenced(text, _SEED)}"


def _nodes(title: str, blueprint: Blueprint, state: State, nodes: Sequence[Node]) -> Iterator[str]:
    lines = [f"- {state.path(node)}: {describe(blueprint, state, node)}" for node in nodes[:LISTED]]
    return _section(title, lines, max(0, len(nodes) - LISTED))


def _is_of(rule: str, section: str) -> bool:
    """Metadata has a gate of its own; all other rules are the node's."""
    return rule.startswith("metadata.") == (section == "metadata")


def _references(blueprint: Blueprint, state: State, node: Node) -> Iterator[str]:
    """The nodes that its references may lead to: those beside it, then those that come first in the document."""
    fields = blueprint.component(node.component).spec.properties.values()
    about = (spec.items if isinstance(spec, ListField) else spec for spec in fields if not spec.computed)
    for component in dict.fromkeys(one.to for one in about if isinstance(one, ReferenceField)):
        beside = () if node.parent_id is None else state.children[node.parent_id]
        near = chain((state.nodes[id] for id in beside[:LOOKED_AT]), islice(state.walk(), LOOKED_AT))
        found = {one.id: one for one in near if one.component == component and one.id != node.id}
        yield from _nodes(f"Nodes that are {a(component)}", blueprint, state, tuple(found.values()))
