"""The task of a node's agent as data, for models that follow rules: what its brief says in words."""

from collections.abc import Mapping

from drone.agent.ports.model import ChildForm, NodeForm
from mcc.contracts.blueprints import FieldSpec
from mcc.documents.blueprint import Blueprint
from mcc.documents.briefs import reference_targets
from mcc.documents.commands import CHILDREN
from mcc.documents.inputs import changes_since
from mcc.documents.node import Role
from mcc.documents.state import DocumentState


def form_of(blueprint: Blueprint, state: DocumentState, node_id: str, role: Role) -> NodeForm:
    """What the agent of this node may set and make in this state."""
    node = state.nodes[node_id]
    component = blueprint.component(node.component)
    spec, section = component.spec, "metadata" if role == "metadata" else "props"
    held = frozenset(name for name, provenance in node.provenance.items() if provenance.held)
    fields = spec.metadata if role == "metadata" else spec.properties
    children = {} if role == "metadata" or CHILDREN in held else spec.children
    stamp = node.stamps.get(role)
    return NodeForm(
        path=state.path(node),
        component=node.component,
        section=section,
        fields={name: form for name, form in _settable(fields).items() if f"{section}.{name}" not in held},
        values={name: value for name in component.fields if (value := node.value(name)) is not None},
        held=held,
        topics=tuple(level.metadata for level in (node, *reversed(state.ancestors(node)))),
        brief=state.brief,
        children={
            name: ChildForm(count, _settable(blueprint.spec.components[name].metadata))
            for name, count in children.items()
        },
        existing={state.path(child): child.component for child in state.children_of(node)},
        targets={name: tuple(map(state.path, targets)) for name, targets in reference_targets(blueprint, state, node)}
        if role == "node"
        else {},
        is_stale=stamp is not None and next(changes_since(blueprint, state, node, role, stamp), None) is not None,
    )


def _settable(fields: Mapping[str, FieldSpec]) -> dict[str, FieldSpec]:
    return {name: spec for name, spec in fields.items() if not spec.computed}
