"""Requests about documents, blueprints and notes, and the parsing of their answers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.documents import (
        BlueprintChanged,
        BlueprintDetail,
        BlueprintSummary,
        CommandsDone,
        DocumentDiff,
        DocumentSummary,
        DocumentView,
        HistoryItem,
        KeptBlueprint,
    )
    from mcc.contracts.notes import Note


def keep_blueprint(text: str) -> "Call[KeptBlueprint]":
    from mcc.contracts.documents import KeptBlueprint
    from mcc.contracts.shape import to_json

    return Call("POST", "/blueprints", KeptBlueprint.model_validate, body=to_json({"text": text}))


def list_blueprints() -> "Call[tuple[BlueprintSummary, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.documents import BlueprintSummary

    return Call("GET", "/blueprints", lambda body: Listing[BlueprintSummary].model_validate(body).items)


def get_blueprint(name: str) -> "Call[BlueprintDetail]":
    from mcc.contracts.documents import BlueprintDetail

    return Call("GET", f"/blueprints/{quote(name, safe='')}", BlueprintDetail.model_validate)


def _path(document_id: str, *parts: str) -> str:
    return "/".join(("/documents", quote(document_id, safe=""), *parts))


def create(
    blueprint: str, metadata: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]], idempotency_key: str | None
) -> "Call[DocumentView]":
    from mcc.contracts.documents import DocumentView
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import to_json

    body = to_json({"blueprint": blueprint, "metadata": metadata, "nodes": list(nodes)})
    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    return Call("POST", "/documents", DocumentView.model_validate, body=body, headers=headers)


def list_documents(**filters: object) -> "Call[Listing[DocumentSummary]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.documents import DocumentSummary

    return Call("GET", "/documents", Listing[DocumentSummary].model_validate, query(**filters))


def get_document(document_id: str, **filters: object) -> "Call[DocumentView]":
    from mcc.contracts.documents import DocumentView

    return Call("GET", _path(document_id), DocumentView.model_validate, query(**filters))


def history(document_id: str, **filters: object) -> "Call[Listing[HistoryItem]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.documents import HistoryItem

    return Call("GET", _path(document_id, "history"), Listing[HistoryItem].model_validate, query(**filters))


def diff(document_id: str, since: int, to: int | None) -> "Call[DocumentDiff]":
    from mcc.contracts.documents import DocumentDiff

    versions = {"from": since} if to is None else {"from": since, "to": to}
    return Call("GET", _path(document_id, "diff"), DocumentDiff.model_validate, versions)


def commands(
    document_id: str, batch: Sequence[Mapping[str, Any]], expected_version: int | None, idempotency_key: str | None
) -> "Call[CommandsDone]":
    from mcc.contracts.documents import CommandsDone
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.shape import to_json

    body: dict[str, Any] = {"commands": list(batch)}
    if expected_version is not None:
        body["expected_version"] = expected_version
    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    path = _path(document_id, "commands")
    return Call("POST", path, CommandsDone.model_validate, body=to_json(body), headers=headers)


def change_blueprint(document_id: str, blueprint: str) -> "Call[BlueprintChanged]":
    from mcc.contracts.documents import BlueprintChanged
    from mcc.contracts.shape import to_json

    path, body = _path(document_id, "blueprint"), to_json({"blueprint": blueprint})
    return Call("POST", path, BlueprintChanged.model_validate, body=body)


def delete(document_id: str) -> "Call[None]":
    return Call("DELETE", _path(document_id), lambda _: None)


def export(document_id: str, format: str) -> "Call[bytes]":
    return Call("GET", _path(document_id, "export"), bytes, query(format=format), raw=True)


def notes(project: str | None, kind: str | None, state: str) -> "Call[tuple[Note, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.notes import Note

    filters = query(project=project, kind=kind, state=state)
    return Call("GET", "/notes", lambda body: Listing[Note].model_validate(body).items, filters)


def note_history(project: str, kind: str, name: str) -> "Call[tuple[Note, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.notes import Note

    one = query(project=project, kind=kind, name=name)
    return Call("GET", "/notes/history", lambda body: Listing[Note].model_validate(body).items, one)


def decide_note(project: str, name: str, version: int, decision: str) -> "Call[Note]":
    from mcc.contracts.notes import Note
    from mcc.contracts.shape import to_json

    body = to_json({"project": project, "name": name, "version": version, "decision": decision})
    return Call("POST", "/notes/decide", Note.model_validate, body=body)


def delete_note(project: str, kind: str, name: str) -> "Call[Note]":
    from mcc.contracts.notes import Note

    return Call("DELETE", "/notes", Note.model_validate, query(project=project, kind=kind, name=name))
