"""The differences between two versions of a document: values, and places of nodes."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from mcc.contracts.documents import DocumentDiff, NodeDiff
from mcc.documents.node import Node
from mcc.documents.recomputing import same_json
from mcc.documents.state import DocumentState

Fields: TypeAlias = Mapping[str, tuple[Any, Any]]
Kind: TypeAlias = Literal["added", "removed", "changed", "moved"]


def diff(before: DocumentState, after: DocumentState) -> DocumentDiff:
    """The differences from one version to another, which may be the earlier one."""
    return DocumentDiff(
        document_id=after.id, since=before.version, to=after.version, nodes=tuple(_differences(before, after))
    )


def _differences(before: DocumentState, after: DocumentState) -> Iterator[NodeDiff]:
    moved = _moved(before, after)
    for node in after.walk():
        was = before.nodes.get(node.id)
        if was is None:
            yield _node_diff("added", after, node, _fields(None, node))
        elif node.id in moved:
            yield _node_diff("moved", after, node, _fields(was, node), before.path(was))
        elif was is not node and (fields := _fields(was, node)):
            yield _node_diff("changed", after, node, fields)
    for node in before.walk():
        if node.id not in after.nodes:
            yield _node_diff("removed", before, node, _fields(node, None))


def _node_diff(change: Kind, state: DocumentState, node: Node, fields: Fields, before: str | None = None) -> NodeDiff:
    return NodeDiff(
        id=node.id, path=state.path(node), before=before, component=node.component, change=change, fields=dict(fields)
    )


def _fields(before: Node | None, after: Node | None) -> Fields:
    was, now = _values(before), _values(after)
    names = dict.fromkeys((*now, *was))
    return {name: (was.get(name), now.get(name)) for name in names if not same_json(was.get(name), now.get(name))}


def _values(node: Node | None) -> Mapping[str, object]:
    if node is None:
        return {}
    metadata = {f"metadata.{key}": value for key, value in node.metadata.items()}
    return metadata | {f"props.{key}": value for key, value in node.props.items()}


def _moved(before: DocumentState, after: DocumentState) -> set[str]:
    """Nodes with another parent, and a smallest set of reordered siblings that explains the new order."""
    moved = {
        id for id, node in after.nodes.items() if id in before.nodes and before.nodes[id].parent_id != node.parent_id
    }
    for parent, below in after.children.items():
        earlier = before.children.get(parent, ())
        if earlier is not below and earlier:
            stayed = [id for id in below if id in before.nodes and before.nodes[id].parent_id == parent]
            places = {id: place for place, id in enumerate(earlier)}
            moved |= set(stayed) - _longest_rising(stayed, places)
    return moved


def _longest_rising(ids: Sequence[str], places: Mapping[str, int]) -> set[str]:
    """The longest subsequence of `ids` with increasing places (patience sorting)."""
    ends: list[int] = []
    last: list[str] = []
    before: dict[str, str | None] = {}
    for id in ids:
        at = bisect_left(ends, places[id])
        before[id] = last[at - 1] if at else None
        ends[at : at + 1] = [places[id]]
        last[at : at + 1] = [id]
    kept: set[str] = set()
    index = last[-1] if last else None
    while index is not None:
        kept.add(index)
        index = before[index]
    return kept
