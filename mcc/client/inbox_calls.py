"""What each call about the inbox and grants sends and how its answer is read."""

from typing import TYPE_CHECKING
from urllib.parse import quote

from mcc.client.calls import Call, query

if TYPE_CHECKING:
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem, Grant


def items(path: str, **asked: object) -> "Call[Listing[AnyItem]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import AnyItem

    return Call("GET", path, Listing[AnyItem].model_validate, query(**asked))


def decide(item_id: str, decision: str, note: str | None, remember: str | None) -> "Call[AnyItem]":
    from mcc.contracts.shape import to_json

    body = to_json({"decision": decision, "note": note, "remember": remember})
    return Call("POST", f"/approvals/{quote(item_id, safe='')}", _item, body=body)


def answer(item_id: str, said: str) -> "Call[AnyItem]":
    from mcc.contracts.shape import to_json

    return Call("POST", f"/questions/{quote(item_id, safe='')}", _item, body=to_json({"answer": said}))


def grants(**asked: object) -> "Call[Listing[Grant]]":
    from mcc.contracts.answers import Listing
    from mcc.contracts.approvals import Grant

    return Call("GET", "/grants", Listing[Grant].model_validate, query(**asked))


def revoke(grant_id: str) -> "Call[None]":
    return Call("DELETE", f"/grants/{quote(grant_id, safe='')}", lambda _: None)


def _item(body: object) -> "AnyItem":
    from mcc.contracts.approvals import ItemByKind

    return ItemByKind.model_validate(body).root
