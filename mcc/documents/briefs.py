"""The complete brief of a node's agent: prompt, tools, and the present content of the node."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from mcc.contracts.blueprints import ListField, ReferenceField
from mcc.contracts.fence import fenced
from mcc.documents.blueprint import Blueprint
from mcc.documents.commands import CHILDREN
from mcc.documents.inputs import Inputs, changes_since, inputs_of
from mcc.documents.instructions import with_article
from mcc.documents.node import Node, Role
from mcc.documents.prompts import TaskPrefix, describe, frame_of, own_part, task_opening, value_lines
from mcc.documents.state import DocumentState
from mcc.documents.tools import ToolSchema

LISTED = 200
"""Most nodes named by one list in a brief."""

LOOKED_AT = 400
"""Most nodes searched for possible targets of a reference."""

_SEED = "present"


@dataclass(frozen=True, slots=True)
class Brief:
    """`asked` is the digest over `system`, `task` and `tools`. `present` is shown after the task but not part of that
    digest: current values, children, held fields, what has changed. `inputs` are the named inputs of the task; `rules`
    is the digest of the component's rules."""

    system: str
    task: str
    present: str
    tools: tuple[ToolSchema, ...]
    asked: str
    inputs: Inputs
    rules: str


def brief_of(blueprint: Blueprint, state: DocumentState, node_id: str, role: Role) -> Brief:
    """The brief that the agent of this node (path or id) would get today. Raises `UnknownNode`.

    `asked` depends only on the blueprint, the document's brief, the ancestors' values and the node's own metadata.
    """
    node = state.find(node_id)
    frame = frame_of(blueprint, node.component, role)
    begins, ending = _task(blueprint, state, node, role)
    return Brief(
        system=frame.system,
        task=f"{begins}{ending}{frame.end}",
        present="\n\n".join(_present(blueprint, state, node, role)),
        tools=frame.tools,
        asked=TaskPrefix(begins).digest(ending, frame),
        inputs=inputs_of(blueprint, state, node, role),
        rules=blueprint.component(node.component).rules_digest,
    )


def prompt_of(blueprint: Blueprint, state: DocumentState, node: Node, role: Role) -> tuple[str, str]:
    """System prompt and task of the node's agent in this state."""
    frame = frame_of(blueprint, node.component, role)
    return frame.system, "".join([*_task(blueprint, state, node, role), frame.end])


def _task(blueprint: Blueprint, state: DocumentState, node: Node, role: Role) -> tuple[str, str]:
    """The first part of the task, common to all children of the parent, and the node's own part."""
    begins = task_opening(state.brief, [describe(blueprint, state, one) for one in state.ancestors(node)])
    return begins, own_part(frame_of(blueprint, node.component, role), node)


def _present(blueprint: Blueprint, state: DocumentState, node: Node, role: Role) -> Iterator[str]:
    component = blueprint.component(node.component)
    section = "metadata" if role == "metadata" else "props"
    yield f"# Current state\nThis is the node {state.path(node)}."
    values = [name for name, field in component.fields.items() if field.section == section]
    in_frame = frame_of(blueprint, node.component, role).known
    filled = [name for name in values if name not in in_frame]
    yield from _section("Current values", list(value_lines(node, filled)))
    if role == "node":
        yield from _nodes("Current children", blueprint, state, state.children_of(node))
    if component.validates:
        # The system prompt says already which fields are required.
        broken = (
            verdict
            for verdict in node.verdicts
            if verdict.ok is False
            and not verdict.below
            and _concerns(verdict.rule, section)
            and not verdict.rule.endswith(".required")
        )
        wrong = [f"- {verdict.rule}: {verdict.message}" for verdict in broken]
        yield from _section("Rules that do not hold", wrong)
    stamp = node.stamps.get(role)
    if stamp is not None:
        changed = [f"- {change}" for change in changes_since(blueprint, state, node, role, stamp)]
        yield from _section("What has changed since it was made", changed)
    held = [name for name in values if (provenance := node.provenance.get(name)) is not None and provenance.held]
    if held:
        yield f"People hold these values. They stay as they are, and cannot be set: {', '.join(held)}."
    if role == "node" and (provenance := node.provenance.get(CHILDREN)) is not None and provenance.held:
        yield "People hold the children as they are: none is made, moved or taken away."
    if role == "node":
        for target, found_nodes in reference_targets(blueprint, state, node):
            yield from _nodes(f"Nodes that are {with_article(target)}", blueprint, state, found_nodes)


def told_section(texts: Sequence[str]) -> str:
    """The part of a prompt with what an agent that runs again is to change, by rules of nodes above its own."""
    return "\n\n".join(_section("What you are to change here, and nothing else", [f"- {text}" for text in texts]))


def _section(title: str, lines: Sequence[str], more: int = 0) -> Iterator[str]:
    if lines:
        text = "\n".join([*lines[:LISTED], *([f"- and {more:,} more"] if more else [])])
        yield f"# {title}\n{fenced(text, _SEED)}"


def _nodes(title: str, blueprint: Blueprint, state: DocumentState, nodes: Sequence[Node]) -> Iterator[str]:
    lines = [f"- {state.path(node)}: {describe(blueprint, state, node)}" for node in nodes[:LISTED]]
    return _section(title, lines, max(0, len(nodes) - LISTED))


def _concerns(rule: str, section: str) -> bool:
    """Whether the rule concerns this section's agent: metadata fields have their own, all else is the node agent's."""
    return rule.startswith("metadata.") == (section == "metadata")


def reference_targets(blueprint: Blueprint, state: DocumentState, node: Node) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """By component, possible targets of the node's references: siblings first, then nodes from the start of the
    document."""
    fields = blueprint.component(node.component).spec.properties.values()
    about = (spec.items if isinstance(spec, ListField) else spec for spec in fields if not spec.computed)
    for component in dict.fromkeys(field.to for field in about if isinstance(field, ReferenceField)):
        beside = () if node.parent_id is None else state.children[node.parent_id]
        near = chain((state.nodes[id] for id in beside[:LOOKED_AT]), islice(state.walk(), LOOKED_AT))
        targets = {other.id: other for other in near if other.component == component and other.id != node.id}
        yield component, tuple(targets.values())
