"""The index of references: which nodes refer to which paths."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mcc.documents.blueprint import Blueprint
from mcc.documents.component import CompiledField
from mcc.documents.node import Node
from mcc.documents.state import DocumentState, StateDraft

_KEY = "references"


@dataclass(frozen=True, slots=True)
class _Kept:
    blueprint: Blueprint
    nodes: Mapping[str, Node]
    known: Mapping[str, frozenset[str]]


@lru_cache(maxsize=64)
def reference_fields(blueprint: Blueprint) -> Mapping[str, tuple[CompiledField, ...]]:
    """By component, the fields whose values are paths of nodes; components without any are left out."""
    found = {
        name: tuple(field for field in component.fields.values() if _refers(field))
        for name, component in blueprint.components.items()
    }
    return {name: fields for name, fields in found.items() if fields}


def _refers(field: CompiledField) -> bool:
    spec = field.spec
    return spec.type == "reference" or (spec.type == "list" and spec.items.type == "reference")


def references_of(blueprint: Blueprint, node: Node) -> Iterator[str]:
    """The paths that the node refers to."""
    for field in reference_fields(blueprint).get(node.component, ()):
        value = (node.metadata if field.section == "metadata" else node.props).get(field.key)
        yield from (one for one in (value if isinstance(value, list) else (value,)) if isinstance(one, str))


def referrers(blueprint: Blueprint, state: DocumentState) -> Mapping[str, frozenset[str]]:
    """By path, the ids of the nodes that refer to it; cached with the state."""
    if not reference_fields(blueprint):
        return {}
    kept = state.memory.get(_KEY)
    if isinstance(kept, _Kept) and kept.nodes is state.nodes and kept.blueprint == blueprint:
        return kept.known
    by_path: dict[str, set[str]] = {}
    for node in state.nodes.values():
        for path in references_of(blueprint, node):
            by_path.setdefault(path, set()).add(node.id)
    known = {path: frozenset(ids) for path, ids in by_path.items()}
    cache_referrers(blueprint, state, known)
    return known


def updated_referrers(
    blueprint: Blueprint, known: Mapping[str, frozenset[str]], draft: StateDraft
) -> Mapping[str, frozenset[str]]:
    """The index for the draft, updated from the index `known` of the state it started from."""
    if not reference_fields(blueprint):
        return {}
    made: dict[str, frozenset[str]] = {}
    for id, before in draft.before.items():
        for path in _references_of(blueprint, before):
            made[path] = made.get(path, known.get(path, frozenset())) - {id}
    for id in draft.before:
        for path in _references_of(blueprint, draft.node(id)):
            made[path] = made.get(path, known.get(path, frozenset())) | {id}
    return {**known, **made} if made else known


def _references_of(blueprint: Blueprint, node: Node | None) -> Iterator[str]:
    return iter(()) if node is None else references_of(blueprint, node)


def cache_referrers(blueprint: Blueprint, state: DocumentState, known: Mapping[str, frozenset[str]]) -> None:
    """Cache the index for this state."""
    state.memory[_KEY] = _Kept(blueprint, state.nodes, known)


def referrers_to(
    known: Mapping[str, frozenset[str]], paths: Iterable[str], inside: set[str]
) -> dict[str, frozenset[str]]:
    """By path, the ids of the nodes that refer to one of these paths, without those in `inside`."""
    found = {path: known.get(path, frozenset()) - inside for path in paths}
    return {path: ids for path, ids in found.items() if ids}


def rewritten(value: Any, old: str, new: str) -> Any:
    """A reference, or list of them, with paths at or below `old` moved to `new`."""
    if isinstance(value, list):
        return [rewritten(item, old, new) for item in value]
    if isinstance(value, str) and (value == old or value.startswith(f"{old}/")):
        return new + value[len(old) :]
    return value
