"""The body of a message: the same bytes for every try, as nothing in it changes while it is tried."""

import json
from collections.abc import Mapping
from typing import Any

from mcc.contracts.invisible import escape_invisible_json
from mcc.contracts.order_facts import OrderFinished, OrderResumed, OrderWaiting
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.contracts.webhooks import WebhookType
from mcc.redaction import Redactor
from mcc.store.doors.messages import Happening, ToldOrder

ANSWER_BYTES = PREVIEW_BYTES = 16 * 1024
WHY_BYTES = 4 * 1024
BODY_BYTES = 64 * 1024
"""A result is left out of a longer body."""

CUT = "…"

_STATUS = {
    WebhookType.QUEUED: OrderStatus.QUEUED,
    WebhookType.WAITING: OrderStatus.WAITING,
    WebhookType.RESUMED: OrderStatus.QUEUED,
    WebhookType.APPROVAL: OrderStatus.RUNNING,
    WebhookType.QUESTION: OrderStatus.RUNNING,
}
"""That of an order with the entry, but for its end, which says it itself."""


def body_of(happening: Happening, public_url: str, redactor: Redactor) -> bytes:
    """As JSON, without the secrets that are known here, and with what nobody sees as escapes."""
    data: dict[str, Any] = {**_said(happening, redactor), "links": _links(happening.order, public_url), **happening.of}
    whole = {"type": happening.type, "timestamp": happening.at, "data": data}
    encoded = _encoded(whole, redactor)
    if len(encoded) > BODY_BYTES and data["result"] is not None:
        encoded = _encoded({**whole, "data": {**data, "result": None}}, redactor)
    return encoded


def _encoded(value: Mapping[str, Any], redactor: Redactor) -> bytes:
    plain = to_json(value)
    if redactor.finds(plain):
        plain = to_json(redactor.value(json.loads(plain)))
    return escape_invisible_json(plain)


def _said(happening: Happening, redactor: Redactor) -> dict[str, Any]:
    # Nothing is cut before its secrets are gone: of half a one nobody would know that it is one.
    order, outcome = happening.order, happening.outcome
    delivery = None if outcome is None else outcome.delivery
    if delivery is not None and delivery.why is not None:
        delivery = delivery.model_copy(update={"why": shortened(redactor.text(delivery.why), WHY_BYTES)})
    said: dict[str, Any] = {
        "seq": happening.seq,
        "order": None if order is None else {name: getattr(order, name) for name in ToldOrder.__slots__},
        "status": _STATUS.get(happening.type),
        "reason": None,
        "detail": None,
        "answer": None
        if outcome is None or outcome.answer is None
        else shortened(redactor.text(outcome.answer), ANSWER_BYTES),
        "result": None if outcome is None else outcome.result,
        "usage": None,
        "delivery": delivery,
        "item": _item(happening, redactor),
    }
    match happening.entry.data if happening.entry else None:
        case OrderFinished() as end:
            said |= {"status": end.status, "reason": end.reason, "detail": end.detail, "usage": end.usage}
        case OrderWaiting() as wait:
            said |= {"reason": wait.reason, "detail": wait.message}
        case OrderResumed() as back:
            said |= {"detail": back.message}
    return said


def _item(happening: Happening, redactor: Redactor) -> Any:
    item = happening.item
    preview = getattr(item, "preview", None)
    if item is None or preview is None:
        return item
    cut = shortened(redactor.text(preview.text), PREVIEW_BYTES)
    return item.model_copy(update={"preview": preview.model_copy(update={"text": cut})})


def _links(order: ToldOrder | None, public_url: str) -> Mapping[str, str] | None:
    if order is None:
        return None
    here = f"{public_url}/api/v1/orders/{order.id}"
    return {"order": here, "record": f"{here}/record", "page": f"{public_url}/orders/{order.id}"}


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and a mark, in at most so many bytes of UTF-8."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= most:
        return text
    return encoded[: most - len(CUT.encode())].decode("utf-8", "ignore") + CUT
