"""Documents, blueprints and notes for an event loop: every call is awaited."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcc.client import document_calls as calls

if TYPE_CHECKING:
    from mcc.client.async_connection import Connection
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
    from mcc.contracts.notes import Note, NoteKind


class Blueprints:
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    async def keep(self, text: str) -> "KeptBlueprint":
        """Hand the service a blueprint's file, YAML or JSON; it is found by `name:DIGEST12` then. `Invalid` with all
        that is wrong with it: its `errors` are {line, place, message}."""
        return await self._connection.send(calls.keep_blueprint(text))

    async def list(self) -> "Sequence[BlueprintSummary]":
        """Those that ship, and the operator's."""
        return await self._connection.send(calls.list_blueprints())

    async def get(self, name: str) -> "BlueprintDetail":
        """One blueprint with its content, by its name or `name:DIGEST12`. Raises `NotFound`."""
        return await self._connection.send(calls.get_blueprint(name))


class Documents:
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    async def create(
        self,
        blueprint: str,
        metadata: "Mapping[str, Any] | None" = None,
        nodes: "Sequence[Mapping[str, Any]]" = (),
        *,
        idempotency_key: str | None = None,
    ) -> "DocumentView":
        """A new document. `metadata` is the root's, held; `nodes` are what it begins with, such as those of an export.

        A key is made when none is given, so that a repeated request cannot make a second document.
        """
        return await self._connection.send(calls.create(blueprint, metadata or {}, nodes, idempotency_key))

    async def list(
        self,
        *,
        blueprint: str | None = None,
        status: str | None = None,
        part: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> "Listing[DocumentSummary]":
        """One page without nodes, newest first; `part`: those whose id begins or ends so, by at least four
        characters."""
        return await self._connection.send(
            calls.list_documents(blueprint=blueprint, status=status, part=part, cursor=cursor, limit=limit)
        )

    async def get(
        self,
        document_id: str,
        *,
        node: str | None = None,
        depth: int | None = None,
        version: int | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> "DocumentView":
        """The document with a page of its nodes, depth first; from `node` (path or id) down, `depth` levels below it,
        as it was at `version`."""
        return await self._connection.send(
            calls.get_document(document_id, node=node, depth=depth, version=version, cursor=cursor, limit=limit)
        )

    async def history(self, document_id: str, *, cursor: str | None = None, limit: int = 50) -> "Listing[HistoryItem]":
        """One page of what was done to it, newest first."""
        return await self._connection.send(calls.history(document_id, cursor=cursor, limit=limit))

    async def diff(self, document_id: str, since: int, to: int | None = None) -> "DocumentDiff":
        """What differs between two versions; `to` None: now."""
        return await self._connection.send(calls.diff(document_id, since, to))

    async def export(self, document_id: str, format: str = "json") -> bytes:
        """The document as `json`, `md`, `html` or `jsonl`."""
        return await self._connection.send(calls.export(document_id, format))

    async def run(
        self,
        document_id: str,
        commands: "Sequence[Mapping[str, Any]]",
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> "CommandsDone":
        """Do these commands, all or none. `Conflict` (with `version` and `changed` in its `problem`) when a node that
        they name changed after `expected_version`, `Invalid` for what a document does not take."""
        return await self._connection.send(calls.commands(document_id, commands, expected_version, idempotency_key))

    async def change_blueprint(self, document_id: str, blueprint: str) -> "BlueprintChanged":
        """Move it to another content of its blueprint. `Conflict` while an order works on it."""
        return await self._connection.send(calls.change_blueprint(document_id, blueprint))

    async def delete(self, document_id: str) -> None:
        """Its running order is cancelled first."""
        await self._connection.send(calls.delete(document_id))


class Notes:
    """What agents wrote down for later orders of a project."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    async def list(self, *, project: str | None = None, kind: "NoteKind | None" = None) -> "Sequence[Note]":
        """The newest version of each note, newest first; at most 200."""
        return await self._connection.send(calls.notes(project, kind))

    async def history(self, project: str, kind: "NoteKind", name: str) -> "Sequence[Note]":
        """All versions that are kept, newest first."""
        return await self._connection.send(calls.note_history(project, kind, name))

    async def delete(self, project: str, kind: "NoteKind", name: str) -> "Note":
        """Take it away from all agents. `NotFound` when it is not there."""
        return await self._connection.send(calls.delete_note(project, kind, name))
