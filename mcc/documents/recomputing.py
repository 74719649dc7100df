"""Recomputation of formulas and bindings, from the top down, only where something they read has changed."""

import heapq
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledField, computed
from mcc.documents.formulas import NodeContext
from mcc.documents.node import Node, Provenance
from mcc.documents.work import ALL, POSITION, DispatchWork

_ABOVE = "parent."


def same_json(one: Any, other: Any) -> bool:
    """Equality as in JSON: unlike `==`, it tells 1 from true and from 1.0."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return type(one) is type(other) and bool(one == other)


def recompute(work: DispatchWork) -> None:
    """Recompute what depends on touched fields: of their nodes, then of children that bind to what changed."""
    waiting = {id: set(names) for id, names in work.touched.items() if work.draft.node(id) is not None}
    order = [(len(work.state.ancestors(work.state.nodes[id])), id) for id in waiting]
    heapq.heapify(order)
    while order:
        level, id = heapq.heappop(order)
        names = waiting.pop(id, None)
        if names is None:
            continue
        node = work.state.nodes[id]
        changed = names | _recompute_node(work, node, names)
        for child in _followers(work, node, changed):
            if child not in waiting:
                heapq.heappush(order, (level + 1, child))
            waiting.setdefault(child, set()).update(_ABOVE + name for name in changed if not name.startswith(_ABOVE))


def touch_positions(work: DispatchWork, parent_id: str, index: int) -> None:
    """Touch the position of the children from this index (from 0) on, where their component reads it."""
    wanted = reads_position(work.blueprint)
    if wanted.isdisjoint(work.state.tallies.get(parent_id, {})):
        return
    for child in work.state.children.get(parent_id, ())[index:]:
        if work.state.nodes[child].component in wanted:
            work.touch(child, {POSITION})


def _recompute_node(work: DispatchWork, node: Node, touched: set[str]) -> set[str]:
    """Recompute fields of the node that read touched ones; answers the names of those whose value changed."""
    component = work.component(node)
    names, changed = set(touched), set[str]()
    if not component.computed:
        return changed
    sections = {"metadata": dict(node.metadata), "props": dict(node.props)}
    provenance = dict(node.provenance)
    above = work.state.parent(node)
    parent = None if above is None else NodeContext(above.metadata, above.props)
    context = NodeContext(sections["metadata"], sections["props"], parent, work.state.position(node))
    for field in component.computed:
        if ALL not in names and names.isdisjoint(_reads(field)):
            continue
        value, sources = computed(field, context).value, _sources(work, node, field)
        before = provenance.get(field.name)
        if not same_json(value, sections[field.section][field.key]):
            sections[field.section][field.key] = value
            names.add(field.name)
            changed.add(field.name)
            by = "formula" if field.spec.formula is not None else "binding"
            provenance[field.name] = Provenance(by=by, version=work.version, at=work.author.at, sources=sources)  # type: ignore[arg-type]
        elif before is not None and before.sources != sources:
            provenance[field.name] = replace(before, sources=sources)
    if provenance != node.provenance:
        made = replace(node, metadata=sections["metadata"], props=sections["props"], provenance=provenance)
        work.draft.put(made)
    return changed


def _reads(field: CompiledField) -> tuple[str, ...]:
    assert field.computation is not None
    return field.computation.reads


def _sources(work: DispatchWork, node: Node, field: CompiledField) -> tuple[str, ...]:
    state = work.state
    above = state.parent(node)
    own, parent = state.path(node), "" if above is None else state.path(above)
    return tuple(
        f"{parent} {read.removeprefix(_ABOVE)}" if read.startswith(_ABOVE) else f"{own} {read}"
        for read in _reads(field)
    )


def _followers(work: DispatchWork, node: Node, changed: set[str]) -> list[str]:
    """The children with bindings to changed fields."""
    read = parent_reads(work.blueprint)
    components = {name for name in work.state.tallies.get(node.id, {}) if not read[name].isdisjoint(changed)}
    if not components:
        return []
    nodes = work.state.nodes
    return [id for id in work.state.children.get(node.id, ()) if nodes[id].component in components]


@lru_cache(maxsize=64)
def parent_reads(blueprint: Blueprint) -> Mapping[str, frozenset[str]]:
    """By component, the parent's fields that its bindings read."""
    return {
        name: frozenset(
            read.removeprefix(_ABOVE)
            for field in component.computed
            for read in _reads(field)
            if read.startswith(_ABOVE)
        )
        for name, component in blueprint.components.items()
    }


@lru_cache(maxsize=64)
def reads_position(blueprint: Blueprint) -> frozenset[str]:
    """The components with a computed field that reads the position."""
    return frozenset(
        name
        for name, component in blueprint.components.items()
        if any(POSITION in _reads(field) for field in component.computed)
    )
