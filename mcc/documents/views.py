"""API views of documents: summary, pages of nodes, history items."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise

from mcc.contracts.documents import (
    AcceptedView,
    Computed,
    ConflictView,
    DocumentSummary,
    DocumentView,
    FailureView,
    HistoryItem,
    NodeView,
    PinnedBlueprint,
    ProvenanceView,
    RuleError,
    SetByAgent,
    SetByPerson,
    VerdictView,
)
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Step
from mcc.documents.node import ROOT, Node, NodeFailure, Provenance, RuleVerdict
from mcc.documents.staleness import assessed, pending_of, stale_because
from mcc.documents.state import DocumentState

PAGE = 200
"""Default number of nodes on a page."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """Facts about a document beside its state; `order_id` is the unfinished order that generates it,
    `principal`, `door`, `token` tell who made it."""

    created_at: datetime
    updated_at: datetime
    order_id: str | None = None
    principal: str | None = None
    door: str | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """Which nodes to show: `node` (path or id) and its descendants down to `depth` levels (0 = only the node, None =
    all), at most `limit`, starting at `cursor`."""

    node: str = ROOT
    depth: int | None = None
    limit: int | None = PAGE
    cursor: str | None = None


WHOLE = NodeSelection(limit=None)


def summary(blueprint: Blueprint, state: DocumentState, kept: Envelope) -> DocumentSummary:
    """The document without its nodes."""
    assessment = assessed(blueprint, state)
    return DocumentSummary(
        id=state.id,
        title=state.title,
        blueprint=PinnedBlueprint(name=blueprint.name, version=blueprint.spec.version, digest=blueprint.digest),
        version=state.version,
        status=assessment.status,
        counts=assessment.counts,
        order_id=kept.order_id,
        created_at=kept.created_at,
        updated_at=kept.updated_at,
        principal=kept.principal,
        door=kept.door,
        token=kept.token,
    )


def document_view(
    blueprint: Blueprint, state: DocumentState, kept: Envelope, page: NodeSelection = WHOLE
) -> DocumentView:
    """The document with a page of its nodes, depth first.

    Raises `UnknownNode`, and ValueError for an invalid cursor.
    """
    start, rest = _page_start(state, page)
    nodes = list(islice(rest, None if page.limit is None else page.limit + 1))
    cursor = None
    if page.limit is not None and len(nodes) > page.limit:
        nodes.pop()
        cursor = f"{start + page.limit}.{nodes[-1].id}"
    shown = tuple(node_view(blueprint, state, node) for node in nodes)
    return DocumentView(**dict(summary(blueprint, state, kept)), next_cursor=cursor, nodes=shown)


def node_view(blueprint: Blueprint, state: DocumentState, node: Node) -> NodeView:
    assessment = assessed(blueprint, state)
    path = state.path(node)
    above = state.parent(node)
    return NodeView(
        id=node.id,
        path=path,
        parent=None if above is None else state.path(above),
        component=node.component,
        position=state.position(node),
        children=tuple(f"{path.rstrip('/')}/{child.key}" for child in state.children_of(node)),
        version=node.version,
        status=assessment.statuses[node.id],
        pending=pending_of(blueprint, state, node),
        stale_because=stale_because(blueprint, state, node),
        metadata=node.metadata,
        props=node.props,
        provenance=provenance_view(node),
        verdicts=verdicts_view(node.verdicts),
        conflicts=tuple(
            ConflictView(field=name, since=conflict.since, because=conflict.because)
            for name, conflict in node.conflicts.items()
        ),
        failure=None if node.failure is None else _failure(node.failure),
        summary=node.summary,
    )


def provenance_view(node: Node) -> Mapping[str, ProvenanceView]:
    return {name: _set_by(one) for name, one in node.provenance.items()}


def verdicts_view(verdicts: Sequence[RuleVerdict]) -> tuple[VerdictView, ...]:
    return tuple(
        VerdictView(rule=one.rule, kind=one.kind, ok=one.ok, message=one.message, version=one.version)
        for one in verdicts
    )


def history_item(step: Step) -> HistoryItem:
    return HistoryItem(
        version=step.version,
        at=step.at,
        by=step.by,
        principal=step.principal,
        door=step.door,
        order_id=step.order_id,
        record_id=step.record_id,
        command=step.command,
        node=step.node,
        fields=dict(step.fields),
    )


def _page_start(state: DocumentState, page: NodeSelection) -> tuple[int, Iterator[Node]]:
    """The number of nodes before the page, and the nodes from there on.

    The cursor has the last node of the page before; where that is gone, the walk starts at the same count instead.
    """
    top = state.find(page.node)
    if page.cursor is None:
        return 0, walk_from(state, [(top, 0)], page.depth)
    shown, _, last = page.cursor.partition(".")
    if not (shown.isascii() and shown.isdigit() and len(shown) < 10 and last):
        raise ValueError("this cursor comes from no page of this document")
    stack = _stack_after(state, top, last, page.depth)
    if stack is None:
        return int(shown), islice(walk_from(state, [(top, 0)], page.depth), int(shown), None)
    return int(shown), walk_from(state, stack, page.depth)


def walk_from(state: DocumentState, stack: list[tuple[Node, int]], depth: int | None) -> Iterator[Node]:
    """Walk depth first from a stack of nodes with their levels, the next one at the end, down to level `depth`."""
    while stack:
        node, level = stack.pop()
        yield node
        stack.extend(_children(state, node, level, depth))


def _children(state: DocumentState, node: Node, level: int, depth: int | None) -> Iterator[tuple[Node, int]]:
    """The children to visit, with their level, in reverse order for the stack."""
    below = state.children.get(node.id, ()) if depth is None or level < depth else ()
    return ((state.nodes[child], level + 1) for child in reversed(below))


def _stack_after(state: DocumentState, top: Node, last: str, depth: int | None) -> list[tuple[Node, int]] | None:
    """The stack of a walk from `top` right after the node `last`; None where that is no longer on the walk."""
    chain = [last] if last in state.nodes else []
    while chain and chain[-1] != top.id and (parent := state.nodes[chain[-1]].parent_id) is not None:
        chain.append(parent)
    if not chain or chain[-1] != top.id or (depth is not None and len(chain) - 1 > depth):
        return None
    chain.reverse()
    stack: list[tuple[Node, int]] = []
    for level, (above, child) in enumerate(pairwise(chain), start=1):
        beside = state.children[above]
        stack.extend((state.nodes[id], level) for id in reversed(beside[beside.index(child) + 1 :]))
    stack.extend(_children(state, state.nodes[last], len(chain) - 1, depth))
    return stack


def _set_by(one: Provenance) -> ProvenanceView:
    accepted = None
    if one.accepted is not None:
        accepted = AcceptedView(version=one.accepted.version, principal=one.accepted.principal)
    match one.by:
        case "formula" | "binding":
            return Computed(by=one.by, sources=one.sources, version=one.version, at=one.at)
        case "person" | "import" | "default":
            return SetByPerson(
                by=one.by,
                principal=one.principal,
                version=one.version,
                at=one.at,
                asked=one.asked,
                rules=one.rules,
                accepted=accepted,
            )
    return SetByAgent(
        by=one.by,
        order_id=one.order_id,
        record_id=one.record_id,
        version=one.version,
        at=one.at,
        asked=one.asked,
        rules=one.rules,
        accepted=accepted,
    )


def _failure(one: NodeFailure) -> FailureView:
    errors = tuple(RuleError.model_validate(dict(error)) for error in one.errors)
    return FailureView(reason=one.reason, message=one.message, errors=errors, record_id=one.record_id, at=one.at)
