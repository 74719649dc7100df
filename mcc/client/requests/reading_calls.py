"""The calls that read one order, for both clients: see `mcc.client.calls`."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcc.contracts.answers import Listing
    from mcc.contracts.entry import Entry
    from mcc.contracts.model_calls import ModelRequest
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.reading import ChangesOfOrder, Drafts, FileChanges, Overview, ReviewSent, Rows, Timeline


def _path(order_id: str, what: str) -> str:
    return f"/orders/{quote(order_id, safe='')}/{what}"


def overview(order_id: str, at: int | None, cursor: str | None) -> "Call[Overview]":
    from mcc.contracts.reading import Overview

    return Call("GET", _path(order_id, "overview"), Overview.model_validate, query(at=at, cursor=cursor))


def timeline(order_id: str, **wanted: Any) -> "Call[Timeline]":
    from mcc.contracts.reading import Timeline

    return Call("GET", _path(order_id, "timeline"), Timeline.model_validate, query(**wanted))


def rows(order_id: str, kinds: "Sequence[str]", errors: bool, **wanted: Any) -> "Call[Rows]":
    from mcc.contracts.reading import Rows

    asked = query(**wanted, errors="true" if errors else None)
    return Call("GET", _path(order_id, "rows"), Rows.model_validate, {**asked, "kinds": tuple(kinds)})


def journal(order_id: str, kinds: "Sequence[str]", **wanted: Any) -> "Call[Listing[Entry]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.entry import Entry

    asked = query(**wanted)
    return Call("GET", _path(order_id, "journal"), Listing[Entry].model_validate, {**asked, "kind": tuple(kinds)})


def model_request(order_id: str, seq: int, cursor: str | None) -> "Call[ModelRequest]":
    from mcc.contracts.model_calls import ModelRequest

    return Call("GET", _path(order_id, f"calls/{seq}"), ModelRequest.model_validate, query(cursor=cursor))


def changes(order_id: str, cursor: str | None) -> "Call[ChangesOfOrder | None]":
    from mcc.contracts.reading import ChangesOfOrder

    def parse(body: Any) -> "ChangesOfOrder | None":
        return None if body is None else ChangesOfOrder.model_validate(body)

    return Call("GET", _path(order_id, "changes"), parse, query(cursor=cursor))


def file_changes(order_id: str, path: str, cursor: str | None) -> "Call[FileChanges]":
    from mcc.contracts.reading import FileChanges

    asked = query(path=path, cursor=cursor)
    return Call("GET", _path(order_id, "changes/file"), FileChanges.model_validate, asked)


def review(
    order_id: str,
    comments: "Sequence[Mapping[str, Any]]",
    note: str | None,
    record_id: str | None,
    idempotency_key: str | None,
) -> "Call[ReviewSent | WorkOrder]":
    from mcc.contracts.ids import fresh_id
    from mcc.contracts.order import WorkOrder
    from mcc.contracts.reading import ReviewSent
    from mcc.contracts.shape import finite_json

    def parse(body: Any) -> "ReviewSent | WorkOrder":
        return ReviewSent.model_validate(body) if "receipt" in body else WorkOrder.model_validate(body)

    asked = {"comments": list(comments), "note": note, "record_id": record_id}
    headers = {"Idempotency-Key": idempotency_key or fresh_id()}
    return Call("POST", _path(order_id, "review"), parse, body=finite_json(asked), headers=headers)


def drafts(order_id: str) -> "Call[Drafts]":
    from mcc.contracts.reading import Drafts

    return Call("GET", _path(order_id, "drafts"), Drafts.model_validate)


def keep_drafts(order_id: str, begun: "Mapping[str, Any]") -> "Call[None]":
    from mcc.contracts.shape import finite_json

    return Call("PUT", _path(order_id, "drafts"), lambda _: None, body=finite_json(dict(begun)))


def artifact_content(order_id: str, artifact_id: str) -> Call[bytes]:
    path = _path(order_id, f"artifacts/{quote(artifact_id, safe='')}/content")
    return Call("GET", path, lambda content: bytes(content), raw=True)
