"""Replies in a channel of Slack and on an issue of Linear: once each, in words that call nobody."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mcc.addresses import AddressRule
from mcc.contracts.replies import LinearReply, ReplyTarget, SlackReply
from mcc.redaction import Redactor
from mcc.store.doors.messages import OutgoingReply
from mcc.webhooks.reply_chat import SLACK_CHARACTERS
from mcc.webhooks.replying import ReplySender
from mcc.webhooks.sending import WebhookAnswer
from tests.mcc.webhooks.chats import ISSUE, THREAD_TS, ChatFailure, FakeChat, FakeLinear, FakeSlack, serving
from tests.mcc.webhooks.receiver import of_this_machine
from tests.mcc.webhooks.test_replying import ID, MARK, happening

IN_THREAD = SlackReply(slack="team", channel="C1", thread=THREAD_TS)
ON_ISSUE = LinearReply(linear="acme", issue="ENG-12")
NOW = datetime.fromtimestamp(1_900_000_000, UTC)


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with serving(running := FakeSlack()):
        yield running


@pytest.fixture
def linear() -> Iterator[FakeLinear]:
    with serving(running := FakeLinear()):
        yield running


async def sent(
    chat: FakeChat, target: ReplyTarget, answer: str = "Done.", *, may_be_there: bool = False, token: str = ""
) -> WebhookAnswer:
    tables = chat.tables
    if token:
        tables = replace(tables, tokens=dict.fromkeys(tables.tokens, token))
    sender = ReplySender(tables, AddressRule(of_this_machine, allow_private=tables.endpoints), try_seconds=10.0)
    reply = OutgoingReply(target, happening(answer, at=NOW))
    return await sender.send(reply, Redactor(), may_be_there=may_be_there)


async def test_an_answer_stands_in_its_thread_and_calls_nobody(slack: FakeSlack) -> None:
    assert (await sent(slack, IN_THREAD, "<!channel> a & b\n<https://x.test|y> \u202e")).delivered
    (message,) = slack.messages
    assert message["thread_ts"] == THREAD_TS
    assert message["metadata"] == {"event_type": "mcc_reply", "event_payload": {"order": ID}}
    assert message["text"].split("\n\n") == [
        "&lt;!channel&gt; a &amp; b\n&lt;https://x.test|y&gt; ⟦U+202E⟧",
        f"cost 0.0123 USD · order {ID}",
    ]
    assert MARK not in message["text"]


@pytest.mark.parametrize("piece", ["word ", "<&>", "x"])
async def test_an_answer_of_any_length_fits_a_message(slack: FakeSlack, piece: str) -> None:
    assert (await sent(slack, SlackReply(slack="team", channel="C1"), piece * 50_000)).delivered
    (message,) = slack.messages
    assert SLACK_CHARACTERS / 2 < len(message["text"]) <= SLACK_CHARACTERS
    assert "The answer is longer" in message["text"] and message["text"].endswith(ID)


@pytest.mark.parametrize("thread", [THREAD_TS, None])
async def test_a_message_that_is_there_is_found_behind_others_and_not_sent_again(
    slack: FakeSlack, thread: str | None
) -> None:
    target = SlackReply(slack="team", channel="C1", thread=thread)
    for number in range(130):
        slack.say("earlier", thread, at=1_800_000_000 + number)
    for _ in range(120):
        slack.say("later", thread)
    other = {"event_type": "mcc_reply", "event_payload": {"order": "another"}}
    slack.say("of another order", thread, other)
    assert (await sent(slack, target, may_be_there=True)).delivered
    assert len(slack.messages) == 252
    for _ in range(120):
        slack.say("later", thread)
    assert (await sent(slack, target, may_be_there=True)).delivered
    assert len(slack.messages) == 372


@pytest.mark.parametrize(
    ("failing", "status", "unsure"),
    [
        (ChatFailure(429, {"ok": False, "error": "ratelimited"}, {"Retry-After": "30"}), 429, False),
        (ChatFailure(200, {"ok": False, "error": "ratelimited"}), 429, False),
        (ChatFailure(200, {"ok": False, "error": "internal_error"}), None, True),
        (ChatFailure(503), 503, True),
        (ChatFailure(0), None, True),
        (ChatFailure(200, {"hello": 1}), None, True),
    ],
)
async def test_what_slack_does_not_do_now_is_tried_again(
    slack: FakeSlack, failing: ChatFailure, status: int | None, unsure: bool
) -> None:
    slack.failing.append(failing)
    answer = await sent(slack, IN_THREAD)
    assert (answer.status, answer.unsure, answer.delivered, answer.is_final) == (status, unsure, False, False)
    assert answer.after_seconds == (30.0 if failing.headers else 0.0)


async def test_what_slack_refuses_is_final_and_told(slack: FakeSlack) -> None:
    unknown = await sent(slack, SlackReply(slack="team", channel="C2"))
    assert unknown.is_final and "channel_not_found" in unknown.error
    wrong = await sent(slack, IN_THREAD, token="another-token")
    assert wrong.is_final and "invalid_auth" in wrong.error and "another-token" not in wrong.error
    slack.scopes.remove("channels:history")
    blind = await sent(slack, IN_THREAD, may_be_there=True)
    assert blind.is_final and "channels:history" in blind.error and slack.messages == []


@pytest.mark.parametrize("issue", ["ENG-12", ISSUE])
async def test_an_answer_stands_on_its_issue(linear: FakeLinear, issue: str) -> None:
    assert (await sent(linear, LinearReply(linear="acme", issue=issue), "Do\n/it")).delivered
    (body,) = linear.comments.values()
    assert body.startswith(f"{MARK}\n> Do\n> /it\n\ncost 0.0123 USD")


@pytest.mark.parametrize("keeps_marks", [True, False])
async def test_a_comment_that_is_there_is_found_and_not_written_again(linear: FakeLinear, keeps_marks: bool) -> None:
    linear.keeps_marks = keeps_marks
    linear.failing.append(ChatFailure(502, after=True))
    assert (await sent(linear, ON_ISSUE)).unsure
    assert (await sent(linear, ON_ISSUE, may_be_there=True)).delivered
    assert linear.asked == ["mutation", "query"] and len(linear.comments) == 1
    linear.comments = {"x": "of somebody"}
    assert (await sent(linear, ON_ISSUE, may_be_there=True)).delivered and len(linear.comments) == 2


async def test_what_linear_says_of_errors_is_told(linear: FakeLinear) -> None:
    unknown = await sent(linear, LinearReply(linear="acme", issue="ENG-13"))
    assert unknown.is_final and "Entity not found" in unknown.error
    wrong = await sent(linear, ON_ISSUE, token="lin_api_of-another")
    assert wrong.is_final and "Authentication required" in wrong.error and "of-another" not in wrong.error
    limited = {"errors": [{"message": "Rate limit exceeded", "extensions": {"code": "RATELIMITED"}}]}
    linear.failing.append(ChatFailure(400, limited))
    busy = await sent(linear, ON_ISSUE)
    assert (busy.status, busy.unsure, busy.is_final) == (429, False, False)
    linear.failing.append(ChatFailure(200, {"data": {"commentCreate": {"success": False}}}))
    assert (await sent(linear, ON_ISSUE)).is_final
    assert linear.comments == {}
