"""The jobs of a generation: which agents of which nodes have something to do, and what each was asked with."""

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
from mcc.documents.state import State

Part: TypeAlias = Role | Literal["outline"]
"""Which agent of a node: of its metadata, of its values and children, or of its children alone."""

WHOLE: tuple[Part, ...] = ("metadata", "node")
"""In the order in which the agents of a node work: its values may rest on its metadata."""

STRUCTURE: tuple[Part, ...] = ("metadata", "outline")


@dataclass(frozen=True, slots=True)
class Job:
    """One agent of one node. `agent` is the name that its record goes by: "course/lesson:metadata"."""

    node_id: str
    part: Part
    path: str
    component: str
    agent: str
    record_id: str
    generator_id: str

    @classmethod
    def of(cls, blueprint: Blueprint, state: State, node_id: str, part: Part, generator_id: str) -> "Job":
        node = state.nodes[node_id]
        agent = f"{blueprint.spec.blueprint}/{node.component}"
        return cls(
            node_id,
            part,
            state.path(node),
            node.component,
            agent if part == "node" else f"{agent}:{part}",
            record_of(generator_id, node_id, part),
            generator_id,
        )

    @property
    def role(self) -> Role:
        """As whose agent the document knows it."""
        return "metadata" if self.part == "metadata" else "node"

    @property
    def origin(self) -> Origin:
        """However deep the node lies, its record is a child of the generator's."""
        return Origin(record_id=self.record_id, parent_id=self.generator_id, agent=self.agent, depth=1)


def record_of(generator_id: str, node_id: str, part: Part) -> str:
    """The record of this agent in this generation; whoever goes on with it finds it again."""
    return derived_id(generator_id, node_id, part)


def due(blueprint: Blueprint, state: State, node_id: str, part: Part) -> bool:
    """Whether this agent of the node has something to do now: fields of it miss values or break rules, what it is
    asked with has changed, or the last run failed. What people hold is no work for it. An outline is due while
    children are missing."""
    node = state.nodes[node_id]
    if part == "outline":
        return _lacks_children(blueprint, state, node)
    if (found := assessed(blueprint, state)).statuses[node_id] == "done":
        return False
    if not frame_of(blueprint, node.component, part).tools:
        return False  # there is nothing that it could set
    pending = [name for name in pending_of(blueprint, state, node) if not _is_held(node, name)]
    outdated = {stamped for stamped, _ in found.outdated(node)}
    if part == "metadata":
        return part in outdated or any(name.startswith("metadata.") for name in pending)
    return part in outdated or node.failure is not None or any(not name.startswith("metadata.") for name in pending)


def _is_held(node: Node, name: str) -> bool:
    """Whether people hold what is pending, so that no agent could mend it."""
    held = node.provenance.get(CHILDREN if of_children(name) else name)
    return held is not None and held.held


def _lacks_children(blueprint: Blueprint, state: State, node: Node) -> bool:
    allowed = blueprint.component(node.component).spec.children
    if not allowed or _is_held(node, "children."):
        return False
    return not state.children.get(node.id) or any(of_children(name) for name in pending_of(blueprint, state, node))


def of_children(name: str) -> bool:
    """Whether a rule, or what is pending, is about the count of children."""
    return name.startswith("children.")


def functions_of(blueprint: Blueprint) -> frozenset[str]:
    """The functions that rules of nodes which are validated name."""
    gated = (component for component in blueprint.components.values() if component.validates)
    return frozenset(rule.function for component in gated for rule in component.rules if rule.kind == "function")


@dataclass(frozen=True, slots=True)
class StampBasis:
    """What an agent was asked with, for the stamp of its node: kept with its set-up, because what it would be asked
    with when another drone ends its work may be something else."""

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
        """Out of a kept set-up; None where that says nothing of it."""
        try:
            kept = json.loads(setup)["gate"]
            return cls(str(kept["asked"]), dict(kept["inputs"]), str(kept["rules"]))
        except (ValueError, KeyError, TypeError):
            return None
