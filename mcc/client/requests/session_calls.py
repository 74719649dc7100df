"""The requests about sessions and the parsing of their answers, without I/O: for both clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.cancelling import OrdersCancelled
    from mcc.contracts.history import HistoryFound
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.sessions import Session, SessionWithTurns, TurnUsage


def _path(session_id: str, rest: str = "") -> str:
    return f"/sessions/{quote(session_id, safe='')}{rest}"


def open_session(title: str, fields: Mapping[str, Any]) -> "Call[Session]":
    from mcc.contracts.sessions import Session
    from mcc.contracts.shape import finite_json

    body = finite_json({"title": title, **fields})
    return Call("POST", "/sessions", Session.model_validate, body=body, repeatable=False)


def get_session(session_id: str, **page: object) -> "Call[SessionWithTurns]":
    from mcc.contracts.sessions import SessionWithTurns

    return Call("GET", _path(session_id), SessionWithTurns.model_validate, query(**page))


def list_sessions(archived: bool | None, **filters: object) -> "Call[Listing[Session]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.sessions import Session

    shown = None if archived is None else str(archived).lower()
    return Call("GET", "/sessions", Listing[Session].model_validate, query(archived=shown, **filters))


def change_session(session_id: str, fields: Mapping[str, Any]) -> "Call[Session]":
    from mcc.contracts.sessions import Session
    from mcc.contracts.shape import finite_json

    return Call("PATCH", _path(session_id), Session.model_validate, body=finite_json(dict(fields)))


def delete_session(session_id: str) -> "Call[OrdersCancelled]":
    """Not repeatable: once it is deleted, a session is unknown."""
    from mcc.contracts.cancelling import OrdersCancelled

    return Call("DELETE", _path(session_id), OrdersCancelled.model_validate, repeatable=False)


def fork_session(session_id: str, turn: int, title: str | None) -> "Call[Session]":
    from mcc.contracts.sessions import Session
    from mcc.contracts.shape import finite_json

    body = finite_json({"turn": turn, "title": title})
    return Call("POST", _path(session_id, "/fork"), Session.model_validate, body=body, repeatable=False)


def compact_session(session_id: str) -> "Call[WorkOrder]":
    """Repeatable: while the order has not ended, it is answered again."""
    from mcc.contracts.order import WorkOrder

    return Call("POST", _path(session_id, "/compact"), WorkOrder.model_validate)


def mark_read(session_id: str, turn: int) -> "Call[None]":
    from mcc.contracts.shape import finite_json

    return Call("POST", _path(session_id, "/read"), lambda _: None, body=finite_json({"turn": turn}))


def session_usage(session_id: str) -> "Call[tuple[TurnUsage, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.sessions import TurnUsage

    return Call("GET", _path(session_id, "/usage"), lambda body: Listing[TurnUsage].model_validate(body).items)


def search_session(session_id: str, words: str, **wanted: object) -> "Call[HistoryFound]":
    from mcc.contracts.history import HistoryFound

    return Call("GET", _path(session_id, "/search"), HistoryFound.model_validate, query(q=words, **wanted))


def export_path(session_id: str) -> str:
    return _path(session_id, "/export")
