"""The stamp that a node would get in a state, from a run of its agent or from people's values."""

from mcc.documents import Blueprint
from mcc.documents.inputs import inputs_of
from mcc.documents.node import Node, Role, Stamp
from mcc.documents.staleness import assessed
from mcc.documents.state import DocumentState


def stamp_today(blueprint: Blueprint, state: DocumentState, node: Node, role: Role) -> Stamp:
    asked = assessed(blueprint, state).prompt_digest(node, role)
    rules = blueprint.component(node.component).rules_digest
    return Stamp(asked, inputs_of(blueprint, state, node, role), state.version, rules)
