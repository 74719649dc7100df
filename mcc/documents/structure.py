"""Adding, removing and moving of nodes: checks what is allowed, keeps paths stable and references up to date."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mcc.contracts.ids import derived_id
from mcc.contracts.similar import did_you_mean
from mcc.documents.change import DispatchRefused
from mcc.documents.commands import CHILDREN
from mcc.documents.component import CompiledField
from mcc.documents.kinds import as_stored
from mcc.documents.node import Node, Provenance
from mcc.documents.recomputing import touch_positions
from mcc.documents.references import reference_fields, referrers, referrers_to, rewritten, updated_referrers
from mcc.documents.setting import with_values
from mcc.documents.state import MAX_LEVELS, MAX_NODES, place_of
from mcc.documents.work import ALL, GENERATORS, NODE, DispatchWork

_MAX_OBSTACLES = 5


def add(work: DispatchWork, parent: Node, component: str, values: Mapping[str, Any], position: int | None) -> Node:
    """Add a child with its defaults and these values, by full field name; answers it. Raises `DispatchRefused`."""
    check_child_component(work, parent, component)
    _check_may_reorder(work, parent)
    check_size(work, parent, 1)
    # Counted on and never reused: the path of a node that was removed must not come to mean another one.
    number = parent.next_numbers.get(component, 1)
    numbers = {**parent.next_numbers, component: number + 1}
    node = new_child(work, parent, component, f"{component}-{number}", position)
    node, _, _ = with_values(work, node, values)
    work.change(parent, set(), next_numbers=numbers)
    insert(work, node)
    undo = {"node": node.id, "parent": parent.id, "made": NODE.dump_python(node, mode="json")}
    work.step(
        "add_child", work.state.path(node), {name: (None, value) for name, value in set_values(node).items()}, undo
    )
    return node


def new_child(work: DispatchWork, parent: Node, component: str, key: str, position: int | None = None) -> Node:
    """A new node for this place with only its defaults; it is not inserted yet."""
    siblings = work.state.children.get(parent.id, ())
    index = len(siblings) if position is None else min(position - 1, len(siblings))
    empty = Node(
        id=derived_id(work.state.id, parent.id, key),
        parent_id=parent.id,
        key=key,
        component=component,
        rank=work.draft.rank_at(parent.id, index),
        version=work.version,
        metadata={},
        props={},
        made_by=work.author.by,
    )
    return with_defaults(work, empty)


def with_defaults(work: DispatchWork, node: Node) -> Node:
    """The node with every field of its component, set to its default or None."""
    known = work.component(node)
    sections: dict[str, dict[str, Any]] = {"metadata": {}, "props": {}}
    provenance: dict[str, Provenance] = {}
    for field in known.fields.values():
        value, origin = default_of(work, field)
        sections[field.section][field.key] = value
        if origin is not None:
            provenance[field.name] = replace(origin, rules=known.rules_digest)
    return replace(node, metadata=sections["metadata"], props=sections["props"], provenance=provenance)


def default_of(work: DispatchWork, field: CompiledField) -> tuple[Any, Provenance | None]:
    """The default of a field, with its provenance; None for both where it has none or is computed."""
    value = None if field.computation is not None else as_stored(field.spec, field.spec.default)
    return value, None if value is None else Provenance("default", work.version, work.author.at)


def insert(work: DispatchWork, node: Node) -> None:
    """Put a new or restored node into its place."""
    work.draft.put(node)
    work.made[node.id] = None
    work.touch(node.id, {ALL})
    if node.parent_id is not None:
        touch_positions(work, node.parent_id, place_of(work.state.nodes, work.state.children[node.parent_id], node) + 1)


def remove(work: DispatchWork, node: Node, command: str = "remove_child") -> None:
    """Remove a node with its descendants. Raises `DispatchRefused`."""
    parent = work.state.parent(node)
    if parent is None:
        raise DispatchRefused(422, "the root of a document cannot be removed; delete the document")
    _check_may_reorder(work, parent)
    removed = list(work.state.walk(node))
    _check_may_remove(work, removed)
    path = work.state.path(node)
    _check_unreferenced(work, node, removed)
    fields = {name: (value, None) for name, value in set_values(node).items()}
    index = place_of(work.state.nodes, work.state.children[parent.id], node)
    for removed_node in reversed(removed):
        work.draft.put_all({removed_node.id: None})
        work.made.pop(removed_node.id, None)
        work.touched.pop(removed_node.id, None)
    touch_positions(work, parent.id, index)
    work.change(parent, set())
    # Undo reads removed nodes from rows of earlier versions; what this dispatch made or changed has no such row.
    nodes = [
        NODE.dump_python(removed_node, mode="json")
        for removed_node in removed
        if work.base.nodes.get(removed_node.id) is not removed_node
    ]
    work.step(command, path, fields, {"node": node.id, "parent": parent.id, "nodes": nodes}, removed=True)


def move(work: DispatchWork, node: Node, position: int, parent: Node | None, command: str = "move_child") -> None:
    """Move a node with its descendants to a position (from 1), below another parent if given. Raises
    `DispatchRefused`."""
    above = work.state.parent(node)
    if above is None:
        raise DispatchRefused(422, "the root of a document cannot be moved")
    _check_may_reorder(work, above)
    key, target = node.key, parent or above
    if target.id != above.id:
        _check_target(work, node, target)
        number = target.next_numbers.get(node.component, 1)
        key = f"{node.component}-{number}"
        target = work.change(target, set(), next_numbers={**target.next_numbers, node.component: number + 1})
    before = [node.parent_id, node.key, node.rank]
    moved = put_at(work, node, target.id, key, lambda: work.draft.rank_at(target.id, position - 1))
    undo = {"node": node.id, "before": before, "after": [moved.parent_id, moved.key, moved.rank]}
    work.step(command, work.state.path(moved), {}, undo)


def put_at(work: DispatchWork, node: Node, parent_id: str, key: str, rank: Callable[[], float]) -> Node:
    """Move the node below that parent and rewrite references into its subtree. `rank` is called after the node has left
    its old place. Answers the moved node."""
    above, old = node.parent_id, work.state.path(node)
    assert above is not None
    start = place_of(work.state.nodes, work.state.children[above], node)
    elsewhere = parent_id != above
    referring = _referrers_below(work, node) if elsewhere else {}
    work.draft.put_all({node.id: None})
    moved = work.change(node, {ALL}, parent_id=parent_id, key=key, rank=rank())
    for id in {above, parent_id}:
        work.change(work.state.nodes[id], set())
    at = place_of(work.state.nodes, work.state.children[parent_id], moved)
    if elsewhere:
        touch_positions(work, above, start)
        touch_positions(work, parent_id, at)
        for below in work.state.walk(moved):
            work.touch(below.id, {ALL})
        _rewrite_references(work, referring, old, work.state.path(moved))
    else:
        touch_positions(work, above, min(start, at))
    return work.state.nodes[node.id]


def set_values(node: Node) -> dict[str, Any]:
    """The values with a provenance, by full field name."""
    sections = {"metadata": node.metadata, "props": node.props}
    values = {f"{section}.{key}": value for section, found in sections.items() for key, value in found.items()}
    return {name: value for name, value in values.items() if value is not None and name in node.provenance}


def check_child_component(work: DispatchWork, parent: Node, component: str) -> None:
    known = work.component(parent).spec.children
    if component not in known:
        there = f"; there is: {', '.join(known)}" if known else "; it has no children"
        hint = did_you_mean(component, known) or there
        raise DispatchRefused(422, f"a {parent.component} has no child {component[:80]!r}{hint}")


def _check_may_reorder(work: DispatchWork, parent: Node) -> None:
    held = parent.provenance.get(CHILDREN)
    if work.author.by in GENERATORS and held is not None and held.held:
        raise DispatchRefused(422, f"a person holds the children of {work.state.path(parent)} as they are")


def _check_may_remove(work: DispatchWork, removed: list[Node]) -> None:
    if work.author.by not in GENERATORS:
        return
    for one in removed:
        if one.made_by == "person" or any(known.held for known in one.provenance.values()):
            raise DispatchRefused(422, f"a person holds {work.state.path(one)} or values of it; leave it where it is")


def check_size(work: DispatchWork, parent: Node, nodes: int, levels: int = 1) -> None:
    if len(work.state.nodes) + nodes > MAX_NODES:
        raise DispatchRefused(422, f"a document has at most {MAX_NODES:,} nodes")
    if len(work.state.ancestors(parent)) + 1 + levels > MAX_LEVELS:
        raise DispatchRefused(422, f"a document has at most {MAX_LEVELS} levels")


def _check_target(work: DispatchWork, node: Node, target: Node) -> None:
    if node.id == target.id or any(one.id == node.id for one in work.state.ancestors(target)):
        raise DispatchRefused(422, f"{work.state.path(node)} cannot be moved into itself")
    check_child_component(work, target, node.component)
    _check_may_reorder(work, target)
    deep = len(work.state.ancestors(node))
    levels = max(len(work.state.ancestors(one)) for one in work.state.walk(node)) - deep + 1
    check_size(work, target, 0, levels)


def _check_unreferenced(work: DispatchWork, node: Node, removed: list[Node]) -> None:
    referring = referrers_to(_referrers(work), map(work.state.path, removed), {gone.id for gone in removed})
    if referring:
        obstacles = [
            f"{work.state.path(work.state.nodes[id])} refers to {path}"
            for path, ids in referring.items()
            for id in sorted(ids)
        ]
        more = f" and {len(obstacles) - _MAX_OBSTACLES} more" if len(obstacles) > _MAX_OBSTACLES else ""
        raise DispatchRefused(
            409, f"{work.state.path(node)} cannot be removed while {', '.join(obstacles[:_MAX_OBSTACLES])}{more}"
        )


def _referrers(work: DispatchWork) -> Mapping[str, frozenset[str]]:
    return updated_referrers(work.blueprint, referrers(work.blueprint, work.base), work.draft)


def _referrers_below(work: DispatchWork, node: Node) -> dict[str, frozenset[str]]:
    if not reference_fields(work.blueprint):
        return {}
    return referrers_to(_referrers(work), [work.state.path(one) for one in work.state.walk(node)], set())


def _rewrite_references(work: DispatchWork, referring: Mapping[str, frozenset[str]], old: str, new: str) -> None:
    """Rewrite references into a moved subtree from its old path to the new one."""
    fields = reference_fields(work.blueprint)
    for id in sorted({id for ids in referring.values() for id in ids}):
        node = work.state.nodes[id]
        sections = {"metadata": dict(node.metadata), "props": dict(node.props)}
        for field in fields[node.component]:
            sections[field.section][field.key] = rewritten(sections[field.section][field.key], old, new)
            work.touch(id, {field.name})
        work.draft.put(replace(node, metadata=sections["metadata"], props=sections["props"]))
