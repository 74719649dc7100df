"""Export of documents as JSON, Markdown, HTML, or JSON lines with one node each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mcc.contracts.documents import DocumentSummary, NodeExample, NodeView
from mcc.contracts.shape import to_json
from mcc.contracts.usage import Usage
from mcc.documents.blueprint import Blueprint
from mcc.documents.briefs import prompt_of
from mcc.documents.export_html import html
from mcc.documents.export_markdown import markdown
from mcc.documents.node import Node
from mcc.documents.state import DocumentState
from mcc.documents.views import Envelope, node_view, provenance_view, summary, verdicts_view

Format: TypeAlias = Literal["json", "md", "html", "jsonl"]

MEDIA_TYPES: Mapping[Format, str] = {
    "json": "application/json",
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "jsonl": "application/x-ndjson",
}


@dataclass(frozen=True, slots=True)
class RunSpending:
    """The model of an agent run, and its usage."""

    model: str | None
    usage: Usage | None


NOTHING_KNOWN = RunSpending(None, None)


def exported(
    blueprint: Blueprint,
    state: DocumentState,
    kept: Envelope,
    format: Format,
    spent: Mapping[str, RunSpending] | None = None,
) -> Iterator[bytes]:
    """The whole document in UTF-8, in pieces. `spent`, by record id, goes into the lines of `jsonl`.

    Markdown and HTML escape all content of the document.
    """
    nodes = (node_view(blueprint, state, node) for node in state.walk())
    match format:
        case "json":
            yield from _json(summary(blueprint, state, kept), nodes)
        case "jsonl":
            for node in state.walk():
                yield to_json(_example(blueprint, state, node, spent or {})) + b"\n"
        case "md":
            yield from (piece.encode() for piece in markdown(summary(blueprint, state, kept), nodes))
        case "html":
            paths = (state.path(node) for node in state.walk())
            yield from (piece.encode() for piece in html(summary(blueprint, state, kept), nodes, paths))


def _json(document: DocumentSummary, nodes: Iterable[NodeView]) -> Iterator[bytes]:
    """The body of `GET /documents/ID` with all nodes on one page, one node per line."""
    yield to_json(document)[:-1] + b',"next_cursor":null,"nodes":['
    for place, node in enumerate(nodes):
        yield (b",\n" if place else b"\n") + to_json(node)
    yield b"\n]}\n"


def _example(blueprint: Blueprint, state: DocumentState, node: Node, spent: Mapping[str, RunSpending]) -> NodeExample:
    system, task = prompt_of(blueprint, state, node, "node")
    stamp = node.stamps.get("node")
    known = spent.get(stamp.record_id or "", NOTHING_KNOWN) if stamp is not None else NOTHING_KNOWN
    return NodeExample(
        document_id=state.id,
        version=state.version,
        path=state.path(node),
        component=node.component,
        system=system,
        task=task,
        metadata=node.metadata,
        props=node.props,
        verdicts=verdicts_view(node.verdicts),
        provenance=provenance_view(node),
        model=known.model,
        usage=known.usage,
    )
