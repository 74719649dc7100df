"""Formulas and bindings, made again from the top down, as far as something changed and no further."""

import heapq
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledField, computed
from mcc.documents.formulas import Around
from mcc.documents.node import Node, Provenance
from mcc.documents.work import ALL, POSITION, Work

_ABOVE = "parent."


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to JSON: neither 1 and true, nor 1 and 1.0."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def recompute(work: Work) -> None:
    """What follows from the touched fields."""
    waiting = {id: set(names) for id, names in work.touched.items() if work.draft.node(id) is not None}
    order = [(len(work.state.ancestors(work.state.nodes[id])), id) for id in waiting]
    heapq.heapify(order)
    while order:
        level, id = heapq.heappop(order)
        names = waiting.pop(id, None)
        if names is None:
            continue
        node = work.state.nodes[id]
        changed = names | _made_anew(work, node, names)
        for child in _followers(work, node, changed):
            if child not in waiting:
                heapq.heappush(order, (level + 1, child))
            waiting.setdefault(child, set()).update(_ABOVE + name for name in changed if not name.startswith(_ABOVE))


def shifted(work: Work, parent_id: str, index: int) -> None:
    """The children from this index (from 0) on have another position than before."""
    wanted = reads_position(work.blueprint)
    if wanted.isdisjoint(work.state.tallies.get(parent_id, {})):
        return
    for child in work.state.children.get(parent_id, ())[index:]:
        if work.state.nodes[child].component in wanted:
            work.touch(child, {POSITION})


def _made_anew(work: Work, node: Node, touched: set[str]) -> set[str]:
    """The computed fields of the node that have another value by now."""
    component = work.component(node)
    names, changed = set(touched), set[str]()
    if not component.computed:
        return changed
    sections = {"metadata": dict(node.metadata), "props": dict(node.props)}
    provenance = dict(node.provenance)
    above = work.state.parent(node)
    parent = None if above is None else Around(above.metadata, above.props)
    around = Around(sections["metadata"], sections["props"], parent, work.state.position(node))
    for field in component.computed:
        if ALL not in names and names.isdisjoint(_reads(field)):
            continue
        found, sources = computed(field, around).value, _sources(work, node, field)
        before = provenance.get(field.name)
        if not same(found, sections[field.section][field.key]):
            sections[field.section][field.key] = found
            names.add(field.name)
            changed.add(field.name)
            provenance[field.name] = _provenance(work, field, sources)
        elif before is not None and before.sources != sources:
            provenance[field.name] = replace(before, sources=sources)
    if provenance != node.provenance:
        made = replace(node, metadata=sections["metadata"], props=sections["props"], provenance=provenance)
        work.draft.put(made)
    return changed


def _reads(field: CompiledField) -> tuple[str, ...]:
    assert field.computation is not None
    return field.computation.reads


def _sources(work: Work, node: Node, field: CompiledField) -> tuple[str, ...]:
    state = work.state
    above = state.parent(node)
    own, parent = state.path(node), "" if above is None else state.path(above)
    return tuple(
        f"{parent} {read.removeprefix(_ABOVE)}" if read.startswith(_ABOVE) else f"{own} {read}"
        for read in _reads(field)
    )


def _provenance(work: Work, field: CompiledField, sources: tuple[str, ...]) -> Provenance:
    by = "formula" if field.spec.formula is not None else "binding"
    return Provenance(by=by, version=work.version, at=work.author.at, sources=sources)  # type: ignore[arg-type]


def _followers(work: Work, node: Node, changed: set[str]) -> list[str]:
    """The children with bindings to what changed."""
    read = parent_reads(work.blueprint)
    components = {name for name in work.state.tallies.get(node.id, {}) if not read[name].isdisjoint(changed)}
    if not components:
        return []
    nodes = work.state.nodes
    return [id for id in work.state.children.get(node.id, ()) if nodes[id].component in components]


@lru_cache(maxsize=64)
def parent_reads(blueprint: Blueprint) -> Mapping[str, frozenset[str]]:
    """By component, the fields of its parent that its bindings name."""
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
    """The components with a binding to their own position."""
    return frozenset(
        name
        for name, component in blueprint.components.items()
        if any(POSITION in _reads(field) for field in component.computed)
    )
