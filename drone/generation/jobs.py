"""The jobs of a generation: which agents of which nodes have work to do, and the stamps of their prompts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from mcc.contracts.entry import Origin
from mcc.contracts.ids import derived_id
from mcc.documents.blueprint import Blueprint
from mcc.documents.briefs import Brief
from mcc.documents.commands import CHILDREN
from mcc.documents.node import Node, Role
from mcc.documents.prompts import frame_of
from mcc.documents.staleness import assessed, pending_of
from mcc.documents.state import DocumentState

Part: TypeAlias = Role | Literal["outline"]
"""The agents of a node: for its metadata, for its values and children, or for its children only (outline)."""

WHOLE: tuple[Part, ...] = ("metadata", "node")
"""In the order of work: values may depend on metadata."""

AGAIN = 2
"""Most further runs of one agent in a generation, for what rules of nodes above its own find once all is made."""

STRUCTURE: tuple[Part, ...] = ("metadata", "outline")


@dataclass(frozen=True, slots=True)
class NodeJob:
    """One run of one agent of one node. `agent` is the agent's name in its record, such as "course/lesson:metadata".

    `again`: 0 for its first run in the generation, then 1, 2. `told`: what such a further run is to change.
    """

    node_id: str
    part: Part
    path: str
    component: str
    agent: str
    record_id: str
    generator_id: str
    again: int = 0
    told: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        blueprint: Blueprint,
        state: DocumentState,
        node_id: str,
        part: Part,
        generator_id: str,
        again: int = 0,
    ) -> "NodeJob":
        node = state.nodes[node_id]
        agent = f"{blueprint.spec.blueprint}/{node.component}"
        return cls(
            node_id,
            part,
            state.path(node),
            node.component,
            agent if part == "node" else f"{agent}:{part}",
            record_of(generator_id, node_id, part, again),
            generator_id,
            again,
        )

    @property
    def role(self) -> Role:
        """The role under which the document stamps the agent's prompt."""
        return "metadata" if self.part == "metadata" else "node"

    @property
    def title(self) -> str:
        return f"{self.path}, again" if self.again else self.path

    @property
    def origin(self) -> Origin:
        """The origin of journal entries: at any depth of the node, its record is a child of the generator's."""
        return Origin(record_id=self.record_id, parent_id=self.generator_id, agent=self.agent, depth=1)


def record_of(generator_id: str, node_id: str, part: Part, again: int = 0) -> str:
    """The id of the record of a run, derived so that a drone that resumes the generation finds it again."""
    return derived_id(generator_id, node_id, part, *([again] if again else []))


def records_of(generator_id: str, node_id: str, part: Part) -> tuple[str, ...]:
    """The ids that the records of all runs of this agent may have, in the order of the runs."""
    return tuple(record_of(generator_id, node_id, part, again) for again in range(AGAIN + 1))


def due(blueprint: Blueprint, state: DocumentState, node_id: str, part: Part) -> bool:
    """Whether this agent of the node has work to do: its fields lack values or break rules, its prompt has changed, or
    the last run failed. Fields that people hold do not count. An outline is due while children are missing."""
    node = state.nodes[node_id]
    if part == "outline":
        return _lacks_children(blueprint, state, node)
    if (assessment := assessed(blueprint, state)).statuses[node_id] == "done":
        return False
    if not frame_of(blueprint, node.component, part).tools:
        return False  # it has nothing that it could set
    pending = [name for name in pending_of(blueprint, state, node, own=True) if not _is_held(node, name)]
    outdated = {stamped for stamped, _ in assessment.outdated(node)}
    if part == "metadata":
        return part in outdated or any(name.startswith("metadata.") for name in pending)
    return part in outdated or node.failure is not None or any(not name.startswith("metadata.") for name in pending)


def told_below(state: DocumentState) -> Mapping[str, tuple[str, ...]]:
    """By node id, what broken rules of nodes above say that is to be changed there."""
    told: dict[str, tuple[str, ...]] = {}
    for verdict in (verdict for node in state.walk() for verdict in node.verdicts if verdict.ok is False):
        for node_id, text in verdict.below:
            if node_id in state.nodes:
                told[node_id] = (*told.get(node_id, ()), text)
    return told


def part_told(blueprint: Blueprint, node: Node) -> Role | None:
    """Which agent of the node is told: that of its values, or where it may set none, that of its metadata. None where
    neither may set anything, or where the last run failed, which is what is to be mended first."""
    fields = blueprint.component(node.component).fields
    free = {name.partition(".")[0] for name, one in fields.items() if not (one.spec.computed or _is_held(node, name))}
    if node.failure is not None:
        return None
    return "node" if "props" in free else "metadata" if "metadata" in free else None


def _is_held(node: Node, name: str) -> bool:
    """Whether people hold the pending field or list of children, so that no agent may fix it."""
    held = node.provenance.get(CHILDREN if of_children(name) else name)
    return held is not None and held.held


def _lacks_children(blueprint: Blueprint, state: DocumentState, node: Node) -> bool:
    allowed = blueprint.component(node.component).spec.children
    if not allowed or _is_held(node, "children."):
        return False
    return not state.children.get(node.id) or any(of_children(name) for name in pending_of(blueprint, state, node))


def of_children(name: str) -> bool:
    """Whether a rule id or pending name is about the number of children."""
    return name.startswith("children.")


def functions_of(blueprint: Blueprint) -> frozenset[str]:
    """The names of the functions used by rules of validated components."""
    gated = (component for component in blueprint.components.values() if component.validates)
    return frozenset(rule.function for component in gated for rule in component.rules if rule.kind == "function")


@dataclass(frozen=True, slots=True)
class StampBasis:
    """The parts of the node's stamp that come from the agent's prompt. Kept with the agent's set-up, because the prompt
    may differ by the time another drone settles the node."""

    asked: str
    inputs: Mapping[str, Any]
    rules: str

    @classmethod
    def of(cls, brief: Brief) -> "StampBasis":
        return cls(brief.asked, brief.inputs, brief.rules)

    def as_json(self, finish: str) -> dict[str, object]:
        return {"finish": finish, "asked": self.asked, "inputs": dict(self.inputs), "rules": self.rules}

    @classmethod
    def read(cls, setup: str) -> "StampBasis | None":
        """Read from a kept set-up; None where it has no stamp basis."""
        try:
            kept = json.loads(setup)["gate"]
            return cls(str(kept["asked"]), dict(kept["inputs"]), str(kept["rules"]))
        except (ValueError, KeyError, TypeError):
            return None
