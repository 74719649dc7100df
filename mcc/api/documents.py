"""Creating, reading, changing, exporting and deleting documents over HTTP."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from mcc.api.access.callers import CallerHere
from mcc.api.controls import Requested, announce, with_recipients
from mcc.api.function_rules import has_functions
from mcc.api.orders import IdempotencyKey, IdPart, check_disk
from mcc.api.problems import Refusal
from mcc.api.service import API, ERRORS, Cursor, Limit, Service, ServiceHere, answer, answers, page
from mcc.contracts.answers import Listing
from mcc.contracts.callers import Actor
from mcc.contracts.documents import (
    BlueprintChanged,
    ChangeOfBlueprint,
    CommandsDone,
    DocumentDiff,
    DocumentSummary,
    DocumentView,
    HistoryItem,
    NewCommands,
    NewDocument,
    NodeStatus,
    VersionConflict,
)
from mcc.contracts.generation import PATH_CHARACTERS
from mcc.contracts.ids import is_identifier
from mcc.contracts.shape import now
from mcc.documents import difference
from mcc.documents.change import Author
from mcc.documents.commands import commands_of
from mcc.documents.export import MEDIA_TYPES, Format, RunSpending, exported
from mcc.documents.node import ROOT
from mcc.documents.state import MAX_LEVELS, DocumentState, UnknownNode
from mcc.documents.views import PAGE, Envelope, NodeSelection, document_view
from mcc.store.database.errors import StoreError
from mcc.store.store import Store
from mcc.store.work.documents import CreatedDocument

MOST_NODES = 1_000
"""The most nodes of one page."""

router = APIRouter(prefix=API, tags=["documents"])


async def _document_id(document_id: str) -> str:
    # A malformed id cannot be in the database, so it is not looked up.
    if not is_identifier(document_id):
        raise Refusal(404, "There is no such document.")
    return document_id


async def _nodes(
    node: Annotated[str, Query(max_length=PATH_CHARACTERS)] = ROOT,
    depth: Annotated[int | None, Query(ge=0, le=MAX_LEVELS)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_NODES)] = PAGE,
    cursor: Cursor = None,
) -> NodeSelection:
    return NodeSelection(node, depth, limit, cursor)


DocumentId = Annotated[str, Depends(_document_id)]
Nodes = Annotated[NodeSelection, Depends(_nodes)]
AnyVersion = Annotated[int, Query(ge=0, le=10**15)]
EXPORTED = {
    "content": {media.partition(";")[0]: {"schema": {"type": "string"}} for media in MEDIA_TYPES.values()},
    "description": "The document",
}
CHANGED = answers(CommandsDone) | {409: {"model": VersionConflict, "description": "A node changed meanwhile"}}


@router.post("/documents", status_code=201, responses=answers(DocumentView, 201) | answers(DocumentView))
async def create(
    new: NewDocument, service: ServiceHere, caller: CallerHere, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a document from a blueprint. `metadata` is set on the root, as by a person; `nodes` gives the initial
    nodes in the form of a JSON export. Repeating the same key and body gives the same document."""
    offered = await service.offload(service.catalogue.find, new.blueprint)

    def begin() -> CreatedDocument:
        check_disk(service)
        return service.store.documents.create(
            offered.blueprint,
            by=caller.actor,
            metadata=new.metadata,
            nodes=new.nodes,
            idempotency_key=idempotency_key,
            functions=service.function_rules.functions,
        )

    # Functions are the operator's own code, which may take long or hang: they get threads of their own.
    run = service.function_rules.run if has_functions(offered.blueprint) else service.write
    begun = await run(begin)
    view = await service.slow(shown, service.store, begun.document.id, NodeSelection())
    headers = {"Location": f"documents/{view.id}", **_tag(view.version)}
    return answer(view, 201 if begun.created else 200, headers)


@router.get("/documents", responses=answers(Listing[DocumentSummary]))
async def list_documents(
    service: ServiceHere,
    blueprint: Annotated[str | None, Query(max_length=200)] = None,
    status: NodeStatus | None = None,
    part: IdPart | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """Documents without their nodes, newest first. `part` selects those whose id begins or ends with it; `blueprint` is
    a name or `name:DIGEST12`."""
    documents = service.store.documents
    return page(
        await service.offload(documents.list, blueprint=blueprint, status=status, part=part, cursor=cursor, limit=limit)
    )


@router.get("/documents/{document_id}", responses=answers(DocumentView))
async def show(
    document_id: DocumentId, service: ServiceHere, nodes: Nodes, version: AnyVersion | None = None
) -> Response:
    """A document with a page of its nodes, depth first: `node` (a path or id) and at most `depth` levels below it.
    `version` shows the document as it was then. The `ETag` is the version."""
    found = await service.slow(shown, service.store, document_id, nodes, version)
    return answer(found, headers=_tag(found.version))


@router.get("/documents/{document_id}/history", responses=answers(Listing[HistoryItem]))
async def history(document_id: DocumentId, service: ServiceHere, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """The changes to the document, newest first: who changed which node, and its values before and after."""
    return page(await service.offload(service.store.documents.history, document_id, cursor=cursor, limit=limit))


@router.get("/documents/{document_id}/diff", responses=answers(DocumentDiff))
async def diff(
    document_id: DocumentId,
    service: ServiceHere,
    since: Annotated[AnyVersion, Query(alias="from")],
    to: AnyVersion | None = None,
) -> Response:
    """The differences between two versions, node by node. Without `to`, the second is the current one."""

    def differing() -> DocumentDiff:
        documents = service.store.documents
        return difference.diff(documents.state(document_id, since), documents.state(document_id, to))

    return answer(await service.slow(differing))


@router.get("/documents/{document_id}/export", response_class=Response, responses={200: EXPORTED, **ERRORS})
async def export(
    document_id: DocumentId, service: ServiceHere, format: Format = "json", version: AnyVersion | None = None
) -> Response:
    """The whole document: as JSON, as Markdown, as a self-contained HTML page, or as JSON lines with each node's
    prompt, values and verdicts. `version` exports the document as it was then."""
    as_of, content = await service.slow(exported_whole, service.store, document_id, format, version)
    name = f'attachment; filename="{document_id}.{format}"'
    headers = {"Content-Disposition": name, **_tag(as_of)}
    return Response(content, media_type=MEDIA_TYPES[format], headers=headers)


@router.post("/documents/{document_id}/commands", responses=CHANGED)
async def commands(
    document_id: DocumentId,
    new: NewCommands,
    service: ServiceHere,
    caller: CallerHere,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Execute these commands in sequence, all or none. With `expected_version`, 409 if a node that they name changed
    after it; the problem then has `version` and `changed`. A value that only breaks a rule is accepted, and the node's
    verdict says so."""
    author = Author.of(caller.actor, now())
    rules = service.function_rules
    judged, unfinished = await rules.with_verdicts(document_id, commands_of(new.commands), author)
    done = await service.write(
        service.store.documents.dispatch,
        document_id,
        judged,
        author,
        expected_version=new.expected_version,
        idempotency_key=idempotency_key,
    )
    if unfinished:
        rules.judge_later(document_id, caller.principal)
    return answer(done, headers=_tag(done.version))


@router.post("/documents/{document_id}/blueprint", responses=answers(BlueprintChanged))
async def change_blueprint(
    document_id: DocumentId, new: ChangeOfBlueprint, service: ServiceHere, caller: CallerHere
) -> Response:
    """Move the document to another version of its blueprint. The answer names the nodes that become stale and what has
    no place there. 409 while an order works on the document."""
    offered = await service.offload(service.catalogue.find, new.blueprint)
    changed = await service.write(
        service.store.documents.change_blueprint, document_id, offered.blueprint, by=caller.actor
    )
    # Later, and not in this call: functions may take longer than a caller waits.
    if has_functions(offered.blueprint):
        service.function_rules.judge_later(document_id, caller.principal)
    return answer(changed, headers=_tag(changed.version))


@router.delete("/documents/{document_id}", status_code=204, responses=dict(ERRORS))
async def delete(document_id: DocumentId, service: ServiceHere, caller: CallerHere) -> Response:
    """Delete the document. An order that works on it is cancelled first. Its history is deleted with old journals."""
    requested = await service.write(_delete, service, document_id, caller.actor)
    for one in requested:
        announce(service, one)
    return Response(status_code=204)


def exported_whole(store: Store, document_id: str, format: Format, version: int | None = None) -> tuple[int, bytes]:
    """The exported version number and the document's content in that version. Raises `UnknownDocument`."""
    head, state = store.documents.summary(document_id), store.documents.state(document_id, version)
    kept = Envelope(head.created_at, head.updated_at, head.order_id, head.principal, head.door, head.token)
    spent = spent_by(store, state) if format == "jsonl" else None
    return state.version, b"".join(exported(store.blueprints.get(state.blueprint), state, kept, format, spent))


def spent_by(store: Store, state: DocumentState) -> Mapping[str, RunSpending]:
    """Model and usage of the agents that worked on the document, by record id, as far as their records are kept."""
    orders = {stamp.order_id for node in state.nodes.values() for stamp in node.stamps.values() if stamp.order_id}
    spending: dict[str, RunSpending] = {}
    for order_id in orders:
        with contextlib.suppress(StoreError):
            record = store.orders.record(order_id)
            for child in record.subagent_history if record is not None else ():
                spending[child.id] = RunSpending(child.model.effective if child.model else None, child.usage)
    return spending


def shown(store: Store, document_id: str, nodes: NodeSelection, version: int | None = None) -> DocumentView:
    """The document with a page of its nodes. Raises `UnknownDocument` and `Refusal`."""
    head, state = store.documents.summary(document_id), store.documents.state(document_id, version)
    kept = Envelope(head.created_at, head.updated_at, head.order_id, head.principal, head.door, head.token)
    try:
        return document_view(store.blueprints.get(state.blueprint), state, kept, nodes)
    except UnknownNode as error:
        raise Refusal(404, f"{error}.") from error
    except ValueError as error:
        raise Refusal(400, f"{error}; begin without one.") from error


def _delete(service: Service, document_id: str, by: Actor) -> Sequence[Requested]:
    store = service.store
    requested: list[Requested] = []
    for order_id in store.documents.delete(document_id, by=by):
        with contextlib.suppress(StoreError):
            requested.append(with_recipients(store, store.controls.of_order(order_id)[-1]))
    return requested


def _tag(version: int) -> Mapping[str, str]:
    return {"ETag": f'"{version}"'}
