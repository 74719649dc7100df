"""Documents, blueprints and notes for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcc.client.requests import document_calls as calls

if TYPE_CHECKING:
    from mcc.client.sync_connection import Connection
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
    from mcc.contracts.notes import Note, NoteKind, NoteState


class Blueprints:
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def keep(self, text: str) -> "KeptBlueprint":
        """Store a blueprint from the text of its file, YAML or JSON; it is then found as `name:DIGEST12`. Raises
        `Invalid` with every mistake in it: its `errors` are {line, place, message}."""
        return self._connection.send(calls.keep_blueprint(text))

    def list(self) -> "Sequence[BlueprintSummary]":
        """The blueprints that ship with MCC, and the operator's."""
        return self._connection.send(calls.list_blueprints())

    def get(self, name: str) -> "BlueprintDetail":
        """One blueprint with its content, by its name or `name:DIGEST12`. Raises `NotFound`."""
        return self._connection.send(calls.get_blueprint(name))


class Documents:
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def create(
        self,
        blueprint: str,
        metadata: "Mapping[str, Any] | None" = None,
        nodes: "Sequence[Mapping[str, Any]]" = (),
        *,
        idempotency_key: str | None = None,
    ) -> "DocumentView":
        """Create a document. `metadata`: values of the root, which agents then cannot change. `nodes`: its first nodes,
        such as those of an export.

        Without an `idempotency_key` one is generated, so that a retried request cannot make a second document.
        """
        return self._connection.send(calls.create(blueprint, metadata or {}, nodes, idempotency_key))

    def list(
        self,
        *,
        blueprint: str | None = None,
        status: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[DocumentSummary]":
        """One page, without nodes, newest first. `part`: only documents whose id begins or ends with it, at least four
        characters."""
        return self._connection.send(
            calls.list_documents(blueprint=blueprint, status=status, part=part, cursor=cursor, limit=limit)
        )

    def get(
        self,
        document_id: str,
        *,
        node: str | None = None,
        depth: int | None = None,
        version: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> "DocumentView":
        """The document with one page of its nodes, depth first. `node` (path or id): only this node and those below it.
        `depth`: only so many levels below the first. `version`: as of that version; None = now."""
        return self._connection.send(
            calls.get_document(document_id, node=node, depth=depth, version=version, cursor=cursor, limit=limit)
        )

    def history(self, document_id: str, *, cursor: str | None = None, limit: int = 50) -> "Listing[HistoryItem]":
        """One page of the document's changes, newest first."""
        return self._connection.send(calls.history(document_id, cursor=cursor, limit=limit))

    def diff(self, document_id: str, since: int, to: int | None = None) -> "DocumentDiff":
        """The differences between versions `since` and `to`; None = the current version."""
        return self._connection.send(calls.diff(document_id, since, to))

    def export(self, document_id: str, format: str = "json") -> bytes:
        """The document as `json`, `md`, `html` or `jsonl`."""
        return self._connection.send(calls.export(document_id, format))

    def run(
        self,
        document_id: str,
        commands: "Sequence[Mapping[str, Any]]",
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> "CommandsDone":
        """Run these commands, all or none. Raises `Conflict` (its `problem` has `version` and `changed`) when a node
        that they name changed after `expected_version`, `Invalid` when the document cannot take a command."""
        return self._connection.send(calls.commands(document_id, commands, expected_version, idempotency_key))

    def change_blueprint(self, document_id: str, blueprint: str) -> "BlueprintChanged":
        """Move the document to another version of its blueprint. Raises `Conflict` while an order works on it."""
        return self._connection.send(calls.change_blueprint(document_id, blueprint))

    def delete(self, document_id: str) -> None:
        """Delete the document. An order that is running on it is cancelled first."""
        self._connection.send(calls.delete(document_id))


class Notes:
    """Notes that agents keep for later orders of a project."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def list(
        self, *, project: str | None = None, kind: "NoteKind | None" = None, state: "NoteState" = "accepted"
    ) -> "Sequence[Note]":
        """The version of each note that counts, or all versions of memories that are pending or were rejected; newest
        first, at most 200."""
        return self._connection.send(calls.notes(project, kind, state))

    def history(self, project: str, kind: "NoteKind", name: str) -> "Sequence[Note]":
        """All stored versions of a note, newest first."""
        return self._connection.send(calls.note_history(project, kind, name))

    def accept(self, project: str, name: str, version: int) -> "Note":
        """Accept a pending version of a memory, which counts from now on. Raises `NotFound`, `Conflict`."""
        return self._connection.send(calls.decide_note(project, name, version, "accept"))

    def reject(self, project: str, name: str, version: int) -> "Note":
        """Reject a pending version of a memory: no agent sees it. Raises `NotFound`, `Conflict`."""
        return self._connection.send(calls.decide_note(project, name, version, "reject"))

    def delete(self, project: str, kind: "NoteKind", name: str) -> "Note":
        """Delete a note, so that no agent sees it. Raises `NotFound`."""
        return self._connection.send(calls.delete_note(project, kind, name))
