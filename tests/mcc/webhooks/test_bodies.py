"""What a message says, within its bounds."""

import json
from typing import Any

import pytest

from mcc.contracts.entry import Entry
from mcc.contracts.git_delivery import DeliveryRequest, GitDelivery
from mcc.contracts.inbox_facts import ApprovalRequested, ShownPreview
from mcc.contracts.order import OrderKind, OrderOutcome
from mcc.contracts.order_facts import OrderFinished, OrderWaiting
from mcc.contracts.shape import now
from mcc.contracts.status import FailureReason, OrderStatus, WaitingReason
from mcc.contracts.webhooks import WebhookType
from mcc.redaction import Redactor
from mcc.store.doors.messages import Happening, ToldOrder
from mcc.store.rows.inbox_rows import item_when_asked
from mcc.webhooks.body import ANSWER_BYTES, BODY_BYTES, PREVIEW_BYTES, WHY_BYTES, body_of, shortened

ORDER_ID = "0197f000-0000-7000-8000-000000000000"
ORDER = ToldOrder(ORDER_ID, ORDER_ID, OrderKind.CHAT, "master", ("a",), "operator", "cli")
AT = now()


def ended(**outcome: Any) -> Happening:
    fact = OrderFinished(status=OrderStatus.FAILED, reason=FailureReason.NOT_DONE, detail="it \u202e did not")
    known = {"status": OrderStatus.FAILED, **outcome}
    entry = Entry(order_id=ORDER_ID, seq=7, at=AT, data=fact)
    return Happening(WebhookType.FINISHED, AT, 7, ORDER, entry, OrderOutcome.model_validate(known))


def said(happening: Happening) -> Any:
    return json.loads(body_of(happening, "https://mcc.test", Redactor()))["data"]


def test_the_same_happening_has_the_same_bytes() -> None:
    first, second = (body_of(ended(answer="x"), "https://mcc.test", Redactor()) for _ in range(2))
    assert first == second and b"\\u202e" in first.lower()


def test_an_end_says_status_reason_detail_and_answer() -> None:
    data = said(ended(answer="x", result={"a": 1}))
    assert (data["status"], data["reason"], data["detail"]) == ("failed", "not_done", "it \u202e did not")
    assert (data["answer"], data["result"], data["seq"]) == ("x", {"a": 1}, 7)
    assert data["links"]["record"] == f"https://mcc.test/api/v1/orders/{ORDER_ID}/record"


def test_an_end_says_what_was_delivered_as_the_order_does() -> None:
    request = DeliveryRequest(number=12, url="https://git.example.org/12", state="open", created=True)
    delivery = GitDelivery(
        forge="hub", project="team/shop", branch="mcc/1", base="main", commit="c" * 40, request=request
    )
    assert said(ended(delivery=delivery))["delivery"] == delivery.model_dump(mode="json")
    assert said(ended())["delivery"] is None
    long = said(ended(delivery=GitDelivery(why="x" * BODY_BYTES), answer="x", result=1))
    assert len(long["delivery"]["why"].encode()) == WHY_BYTES and long["result"] == 1


def test_a_wait_says_why() -> None:
    fact = OrderWaiting(reason=WaitingReason.RATE_LIMIT, message="later")
    entry = Entry(order_id=ORDER_ID, seq=2, at=AT, data=fact)
    data = said(Happening(WebhookType.WAITING, AT, 2, ORDER, entry))
    assert (data["status"], data["reason"], data["detail"]) == ("waiting", "rate_limit", "later")


def test_long_answers_are_cut_and_results_left_out_of_long_bodies() -> None:
    data = said(ended(answer="é" * ANSWER_BYTES, result="x" * 1_000))
    assert len(data["answer"].encode()) <= ANSWER_BYTES and data["answer"].endswith("…")
    assert data["result"] == "x" * 1_000
    assert said(ended(answer="x", result="x" * BODY_BYTES))["result"] is None


def test_a_secret_at_the_cut_is_gone_as_a_whole() -> None:
    secret = "sesame-open-1234567890"
    long = f"{'x' * (ANSWER_BYTES - 12)} {secret} end"
    why = f"{'x' * (WHY_BYTES - 12)} {secret} end"
    fact = ApprovalRequested(
        approval_id="a", call_id="c", tool="edit_file", digest="d", preview=ShownPreview(kind="diff", text=long)
    )
    asked = Entry(order_id=ORDER_ID, seq=3, at=AT, record_id=ORDER_ID, agent="master", data=fact)
    item = item_when_asked(ORDER_ID, asked)
    for happening in (
        ended(answer=long, delivery=GitDelivery(why=why)),
        Happening(WebhookType.APPROVAL, AT, 3, ORDER, asked, item=item),
    ):
        assert b"sesame" not in body_of(happening, "https://mcc.test", Redactor((secret,)))


def test_the_preview_of_an_item_is_cut() -> None:
    preview = ShownPreview(kind="diff", text="x" * (2 * PREVIEW_BYTES))
    fact = ApprovalRequested(approval_id="a", call_id="c", tool="edit_file", digest="d", preview=preview)
    entry = Entry(order_id=ORDER_ID, seq=3, at=AT, record_id=ORDER_ID, agent="master", data=fact)
    item = item_when_asked(ORDER_ID, entry)
    data = said(Happening(WebhookType.APPROVAL, AT, 3, ORDER, entry, item=item))
    assert (data["item"]["tool"], data["item"]["status"], data["status"]) == ("edit_file", "pending", "running")
    assert len(data["item"]["preview"]["text"].encode()) == PREVIEW_BYTES


@pytest.mark.parametrize(("text", "most", "short"), [("abc", 3, "abc"), ("abcd", 5, "abcd"), ("ééé", 5, "é…")])
def test_a_text_is_shortened_by_bytes_and_never_within_a_character(text: str, most: int, short: str) -> None:
    assert shortened(text, most) == short
