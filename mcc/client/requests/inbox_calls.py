"""The request of each call of the inbox and the parsing of its answer, without I/O: for both clients."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from datetime import datetime

    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem, Grant, InboxItem, LateAnswer
    from mcc.contracts.order_bulk import View


def inbox_items(path: str, **filters: object) -> "Call[Listing[AnyItem]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem

    return Call("GET", path, Listing[AnyItem].model_validate, query(**filters))


def look(kinds: Sequence[str], **filters: object) -> "Call[Listing[InboxItem]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import InboxItem

    return Call("GET", "/inbox", Listing[InboxItem].model_validate, {**query(**filters), "kinds": tuple(kinds)})


def see(ids: Sequence[str], before: "datetime | None") -> "Call[None]":
    from mcc.contracts.shape import finite_json

    body = finite_json({"before": before.isoformat()} if before else {"ids": list(ids)})
    return Call("POST", "/inbox/seen", lambda _: None, body=body)


def decide(item_id: str, decision: str, note: str | None, remember: str | None, digest: str | None) -> "Call[AnyItem]":
    from mcc.contracts.shape import finite_json

    body = finite_json({"decision": decision, "note": note, "remember": remember, "digest": digest})
    return Call("POST", f"/approvals/{quote(item_id, safe='')}", _inbox_item, body=body)


def answer_question(item_id: str, answer: str | Mapping[str, str]) -> "Call[AnyItem | LateAnswer]":
    from mcc.contracts.approvals import LateAnswer
    from mcc.contracts.shape import finite_json

    def parse(body: Any) -> "AnyItem | LateAnswer":
        return LateAnswer.model_validate(body) if "became" in body else _inbox_item(body)

    body = {"answer": answer} if isinstance(answer, str) else {"answers": dict(answer)}
    return Call("POST", f"/questions/{quote(item_id, safe='')}", parse, body=finite_json(body))


def decline_question(item_id: str) -> "Call[AnyItem]":
    from mcc.contracts.shape import finite_json

    return Call("POST", f"/questions/{quote(item_id, safe='')}", _inbox_item, body=finite_json({"decline": True}))


def list_grants(**filters: object) -> "Call[Listing[Grant]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import Grant

    return Call("GET", "/grants", Listing[Grant].model_validate, query(**filters))


def revoke_grant(grant_id: str) -> "Call[None]":
    return Call("DELETE", f"/grants/{quote(grant_id, safe='')}", lambda _: None)


def list_views() -> "Call[tuple[View, ...]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.order_bulk import View

    return Call("GET", "/views", lambda body: Listing[View].model_validate(body).items)


def get_view(name: str) -> "Call[View]":
    from mcc.contracts.order_bulk import View

    return Call("GET", f"/views/{quote(name, safe='')}", View.model_validate)


def put_view(name: str, asked: Mapping[str, Any], position: int, shared: bool) -> "Call[View]":
    from mcc.contracts.order_bulk import View
    from mcc.contracts.shape import finite_json

    body = finite_json({"query": dict(asked), "position": position, "shared": shared})
    return Call("PUT", f"/views/{quote(name, safe='')}", View.model_validate, body=body)


def delete_view(name: str) -> "Call[None]":
    return Call("DELETE", f"/views/{quote(name, safe='')}", lambda _: None)


def _inbox_item(body: object) -> "AnyItem":
    from mcc.contracts.approvals import ItemByKind

    return ItemByKind.model_validate(body).root
