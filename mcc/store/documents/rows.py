"""Rows of documents: locking one, reading its state at a version, writing a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.documents import CommandsDone, Counts, NodeStatus
from mcc.contracts.ids import is_identifier
from mcc.contracts.shape import to_json
from mcc.documents.change import Author, Change, Step
from mcc.documents.node import Node
from mcc.documents.state import DocumentState
from mcc.store.database.clock import micros, moment
from mcc.store.database.errors import UnknownDocument
from mcc.store.database.tables import DOCUMENT_HEADS, DOCUMENT_HISTORY, DOCUMENT_NODES, DOCUMENTS, among
from mcc.store.documents.node_json import NodeReader, node_json, uncollected
from mcc.store.rows.order_rows import text_json, text_of
from mcc.store.rows.texts import parsed

_ONE = sa.select(DOCUMENTS.c.id, DOCUMENTS.c.version, DOCUMENTS.c.blueprint, DOCUMENTS.c.deleted_at).where(
    DOCUMENTS.c.id == sa.bindparam("wanted")
)
_LOCK = _ONE.with_for_update()
_OF = DOCUMENT_NODES.c.document_id == sa.bindparam("of")
_SINCE = sa.select(DOCUMENT_NODES.c.node_id, DOCUMENT_NODES.c.node_json).where(
    _OF, DOCUMENT_NODES.c.newest, DOCUMENT_NODES.c.version > sa.bindparam("since")
)
_LATER = DOCUMENT_NODES.alias("later")
_AT = sa.select(DOCUMENT_NODES.c.node_id, DOCUMENT_NODES.c.node_json).where(
    _OF,
    DOCUMENT_NODES.c.version <= sa.bindparam("upto"),
    ~sa.select(_LATER.c.version)
    .where(
        _LATER.c.document_id == DOCUMENT_NODES.c.document_id,
        _LATER.c.node_id == DOCUMENT_NODES.c.node_id,
        _LATER.c.version > DOCUMENT_NODES.c.version,
        _LATER.c.version <= sa.bindparam("upto"),
    )
    .exists(),
)
_HEAD = (
    sa.select(DOCUMENT_HEADS)
    .where(DOCUMENT_HEADS.c.document_id == sa.bindparam("of"), DOCUMENT_HEADS.c.version <= sa.bindparam("upto"))
    .order_by(DOCUMENT_HEADS.c.version.desc())
    .limit(1)
)
_OLD = (
    sa.update(DOCUMENT_NODES)
    .where(_OF, DOCUMENT_NODES.c.newest, among(DOCUMENT_NODES.c.node_id, "ids"))
    .values(newest=False)
)
_ADD_DOCUMENT, _ADD_HEAD = sa.insert(DOCUMENTS), sa.insert(DOCUMENT_HEADS)
_ADD_NODE, _ADD_STEP = sa.insert(DOCUMENT_NODES), sa.insert(DOCUMENT_HISTORY)
_DONE = sa.select(DOCUMENT_HISTORY.c.done_json).where(
    DOCUMENT_HISTORY.c.document_id == sa.bindparam("of"),
    DOCUMENT_HISTORY.c.command_id == sa.bindparam("wanted"),
    DOCUMENT_HISTORY.c.n == 0,
)
_COUNTS = tuple(Counts.model_fields)


def _update(*columns: str) -> sa.Update:
    """An UPDATE of these columns, built once: building a statement takes longer than executing it."""
    values: dict[str, Any] = {name: sa.bindparam(name) for name in columns}
    return sa.update(DOCUMENTS).where(DOCUMENTS.c.id == sa.bindparam("moved")).values(values)


_MOVE = _update("version", "status", "updated_at", *_COUNTS)
_RENAME = _update("title_json", "blueprint", "name")


@dataclass(frozen=True, slots=True)
class Locked:
    """A document's row when it was locked, or read; `blueprint` is a digest."""

    id: str
    version: int
    blueprint: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Values that are computed from a state and its blueprint and stored in the document's row."""

    status: NodeStatus
    counts: Counts


def done_of(change: Change, figures: Figures) -> CommandsDone:
    return CommandsDone(version=change.version, changed=change.changed, made=change.made, status=figures.status)


def unknown_document(document_id: str) -> UnknownDocument:
    return UnknownDocument(f"there is no document {document_id[:80]!r}")


def no_version(document_id: str, version: int) -> UnknownDocument:
    return UnknownDocument(f"the document {document_id} has no version {version}")


def lock_document(connection: Connection, document_id: str, *, reading: bool = False) -> Locked:
    """The document's row, locked until the transaction ends; `reading`: without a lock. Raises `UnknownDocument`."""
    if not is_identifier(document_id):
        raise unknown_document(document_id)
    row = connection.execute(_ONE if reading else _LOCK, {"wanted": document_id}).first()
    if row is None:
        raise unknown_document(document_id)
    if row.deleted_at is not None:
        raise UnknownDocument(f"the document {document_id} was deleted")
    return Locked(row.id, row.version, row.blueprint)


def state_now(connection: Connection, locked: Locked, known: DocumentState | None) -> DocumentState:
    """The document at the version of its row. `known`: a state from the cache; if it is older, only the nodes that
    changed since are read."""
    if known is None or known.version > locked.version:
        return state_at(connection, locked.id, locked.version)
    if known.version == locked.version:
        return known
    rows = connection.execute(_SINCE, {"of": locked.id, "since": known.version}).all()
    read = NodeReader().node
    changed = {row.node_id: None if row.node_json is None else read(row.node_json) for row in rows}
    head = _head(connection, locked.id, locked.version)
    if head.blueprint != known.blueprint:
        return state_at(connection, locked.id, locked.version)
    return known.with_nodes(
        locked.version, changed, brief=text_of(head.brief_json) or "", title=text_of(head.title_json) or ""
    )


def state_at(connection: Connection, document_id: str, version: int) -> DocumentState:
    """The document at this version, which must exist. Raises `UnknownDocument`."""
    head = _head(connection, document_id, version)
    now = connection.execute(_ONE, {"wanted": document_id}).first()
    if now is not None and now.version == version:
        rows = connection.execute(_SINCE, {"of": document_id, "since": -1}).all()
    else:
        rows = connection.execute(_AT, {"of": document_id, "upto": version}).all()
    title, brief = text_of(head.title_json) or "", text_of(head.brief_json) or ""
    with uncollected():
        read = NodeReader().node
        nodes = [read(row.node_json) for row in rows if row.node_json is not None]
        return DocumentState.of(document_id, head.blueprint, title, version, nodes, brief)


def _head(connection: Connection, document_id: str, version: int) -> Any:
    head = connection.execute(_HEAD, {"of": document_id, "upto": version}).first()
    if head is None:
        raise no_version(document_id, version)
    return head


def insert_document(
    connection: Connection, change: Change, figures: Figures, *, name: str, author: Author, at: int
) -> None:
    """Insert the first version of a document; its blueprint's row must exist."""
    state = change.state
    row = {
        "id": state.id,
        "title_json": text_json(state.title),
        "blueprint": state.blueprint,
        "name": name,
        "principal": author.principal or "",
        "door": author.door,
        "token_id": author.token_id,
        "created_at": at,
        **_figures(change, figures, at),
    }
    connection.execute(_ADD_DOCUMENT, row)
    _write_head(connection, state)
    _write_nodes(connection, state.id, change)
    _write_steps(connection, state.id, change.steps, done_of(change, figures))


def write_change(
    connection: Connection, before: DocumentState, change: Change, figures: Figures, *, name: str, at: int
) -> None:
    """Write a change of the document, whose state is `before`; the caller has locked its row."""
    state = change.state
    connection.execute(_MOVE, {"moved": state.id, **_figures(change, figures, at)})
    if (state.blueprint, state.title, state.brief) != (before.blueprint, before.title, before.brief):
        _write_head(connection, state)
        head = {"title_json": text_json(state.title), "blueprint": state.blueprint, "name": name}
        connection.execute(_RENAME, {"moved": state.id, **head})
    connection.execute(_OLD, {"of": state.id, "ids": [id for id in change.nodes if id in before.nodes]})
    _write_nodes(connection, state.id, change)
    _write_steps(connection, state.id, change.steps, done_of(change, figures))


def _figures(change: Change, figures: Figures, at: int) -> dict[str, Any]:
    counts = {name: getattr(figures.counts, name) for name in _COUNTS}
    return {"version": change.version, "status": figures.status, "updated_at": at, **counts}


def _write_head(connection: Connection, state: DocumentState) -> None:
    row = {
        "document_id": state.id,
        "version": state.version,
        "blueprint": state.blueprint,
        "title_json": text_json(state.title),
        "brief_json": text_json(state.brief),
    }
    connection.execute(_ADD_HEAD, row)


def _write_nodes(connection: Connection, document_id: str, change: Change) -> None:
    rows = [
        {
            "document_id": document_id,
            "node_id": id,
            "version": change.version,
            "newest": True,
            "node_json": None if node is None else node_json(node),
        }
        for id, node in change.nodes.items()
    ]
    if rows:
        connection.execute(_ADD_NODE, rows)


def _write_steps(connection: Connection, document_id: str, steps: Sequence[Step], done: CommandsDone) -> None:
    answer = to_json(done).decode()
    rows = [
        {
            "document_id": document_id,
            "version": step.version,
            "n": n,
            "command_index": step.index,
            "at": micros(step.at),
            "set_by": step.by,
            "principal": step.principal,
            "door": step.door,
            "token_id": step.token_id,
            "order_id": step.order_id,
            "record_id": step.record_id,
            "command": step.command,
            "command_id": step.command_id,
            "node_json": text_json(step.node),
            "fields_json": to_json(step.fields).decode(),
            "undo_json": to_json(step.undo).decode(),
            "removed": step.removed,
            "done_json": None if n else answer,
        }
        for n, step in enumerate(steps)
    ]
    if rows:
        connection.execute(_ADD_STEP, rows)


def step_of(row: Any) -> Step:
    """The step that a row of the history describes."""
    fields: Mapping[str, Any] = parsed(row.fields_json)
    return Step(
        version=row.version,
        index=row.command_index,
        at=moment(row.at),
        by=row.set_by,
        command=row.command,
        node=text_of(row.node_json) or "",
        fields={name: (before, after) for name, (before, after) in fields.items()},
        principal=row.principal,
        door=row.door,
        token_id=row.token_id,
        order_id=row.order_id,
        record_id=row.record_id,
        command_id=row.command_id,
        removed=row.removed,
        undo=parsed(row.undo_json),
    )


_REMOVED = sa.select(DOCUMENT_NODES.c.node_id).where(
    _OF, DOCUMENT_NODES.c.version == sa.bindparam("at"), DOCUMENT_NODES.c.node_json.is_(None)
)
_BEFORE = (
    sa.select(DOCUMENT_NODES.c.node_id, DOCUMENT_NODES.c.node_json)
    .where(_OF, among(DOCUMENT_NODES.c.node_id, "ids"), DOCUMENT_NODES.c.version < sa.bindparam("at"))
    .order_by(DOCUMENT_NODES.c.version)
)


def removed_at(connection: Connection, document_id: str, version: int) -> Sequence[Node]:
    """The nodes that this version removed, as they were before."""
    place = {"of": document_id, "at": version}
    ids = connection.execute(_REMOVED, place).scalars().all()
    rows = connection.execute(_BEFORE, {**place, "ids": ids}).all() if ids else ()
    newest = {row.node_id: row.node_json for row in rows}
    read = NodeReader().node
    return [read(text) for text in newest.values() if text is not None]


def done_by(connection: Connection, document_id: str, command_id: str | None) -> CommandsDone | None:
    """The answer to this command if it was carried out before; None if it was not."""
    if command_id is None:
        return None
    found = connection.scalar(_DONE, {"of": document_id, "wanted": command_id})
    return None if found is None else CommandsDone.model_validate(parsed(found))
