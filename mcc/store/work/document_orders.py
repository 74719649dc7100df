"""Orders that concern documents: generate orders, which make or continue one, and chats about one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.callers import Actor
from mcc.contracts.ids import fresh_id
from mcc.contracts.order import NewOrder, OrderKind
from mcc.documents.beginning import new_state
from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change
from mcc.documents.commands import Command, SetMetadata
from mcc.documents.node import ROOT
from mcc.documents.staleness import assessed
from mcc.store.database.errors import NotAConversation, UnknownDocument
from mcc.store.database.tables import DOCUMENTS
from mcc.store.documents.rows import lock_document
from mcc.store.work.documents import DocumentStore

_IS_DOCUMENT = sa.select(DOCUMENTS.c.id).where(DOCUMENTS.c.id == sa.bindparam("wanted"))


@dataclass(frozen=True, slots=True)
class BegunDocument:
    """The first version of a document that is created together with its order."""

    blueprint: Blueprint
    change: Change


@dataclass(frozen=True, slots=True)
class OrderedDocument:
    """The document of a generate order: a new one in `begun`, or an existing one, to which `commands` of the order's
    author are applied first."""

    id: str
    title: str
    author: Author
    begun: BegunDocument | None = None
    commands: Sequence[Command] = ()


def ordered_document(
    documents: DocumentStore, new: NewOrder, by: Actor, at: datetime, blueprint: Blueprint | None = None
) -> OrderedDocument | None:
    """The document of this order; None for a chat turn. Raises `mcc.documents.change.DispatchRefused`."""
    if new.kind is not OrderKind.GENERATE:
        return None
    author = Author.of(by, at)
    metadata = dict(new.generation.metadata) if new.generation else {}
    if new.document_id is not None:
        commands = (SetMetadata(node=ROOT, values=metadata),) if metadata else ()
        return OrderedDocument(new.document_id, _title(documents, new.document_id), author, commands=commands)
    if blueprint is None:
        raise ValueError(f"an order that names the blueprint {new.blueprint} is placed together with it")
    change = new_state(blueprint, id=fresh_id(), metadata=metadata, author=author)
    assessed(blueprint, change.state)
    return OrderedDocument(change.state.id, change.state.title, author, begun=BegunDocument(blueprint, change))


def _title(documents: DocumentStore, document_id: str) -> str:
    """The document's title. Empty for an unknown one, which is refused only after the order's idempotency key has been
    looked up."""
    try:
        return documents.warm(document_id).title
    except UnknownDocument:
        return ""


def check_chat(connection: Connection, new: NewOrder) -> None:
    """Raises `UnknownDocument` if the chat names an unknown document, `NotAConversation` if its session is that of a
    document."""
    if new.document_id is not None:
        lock_document(connection, new.document_id, reading=True)
    if new.session_id is not None and connection.scalar(_IS_DOCUMENT, {"wanted": new.session_id}) is not None:
        raise NotAConversation(
            f"session {new.session_id} is that of a document, whose turns generate it: leave session_id out and name "
            f"document_id to talk about it"
        )
