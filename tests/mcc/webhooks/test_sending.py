"""One try: where it may go, how long it may take, what of the answer counts."""

import asyncio

import httpx
import pytest

from mcc.addresses import AddressRefused, AddressRule
from mcc.configuration.network import WebhookSettings
from mcc.webhooks.sending import CONNECT_SECONDS, TRY_SECONDS, WebhookForm, WebhookSender
from tests.mcc.webhooks.receiver import Receiver, answering, of_this_machine, receiving, sender_to

BODY = b'{"type":"webhook.test"}'


async def test_what_is_sent_arrives_as_it_is() -> None:
    async with receiving() as receiver:
        answer = await sender_to(receiver).post(f"{receiver.url}?k=v", {"webhook-id": "msg_1"}, BODY)
    assert answer.delivered and answer.error == ""
    (received,) = receiver.received
    assert (received.body, received.id) == (BODY, "msg_1")
    assert received.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert received.headers["content-type"] == "application/json"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_and_not_followed(status: int) -> None:
    async with receiving() as there, receiving(answering(status, f"Location: {there.url}")) as receiver:
        answer = await sender_to(receiver, there).post(receiver.url, {}, BODY)
    assert not answer.delivered and answer.status == status and "not followed" in answer.error
    assert there.received == []


async def test_a_receiver_that_says_nothing_is_cut_off_after_its_time() -> None:
    assert (CONNECT_SECONDS, TRY_SECONDS) == (5.0, 15.0)
    async with receiving(None) as receiver:
        answer = await sender_to(receiver, try_seconds=0.3).post(receiver.url, {}, BODY)
    assert (answer.status, answer.error) == (None, "no answer within 0.3 s")
    assert len(receiver.received) == 1


async def test_a_receiver_that_repeats_its_address_tells_nobody_the_secret_in_it() -> None:
    async with receiving(answering(404, body=b"no page /hook?t=sesame-open&sesame-shut&a=1 (sesame-open)")) as receiver:
        answer = await sender_to(receiver).post(f"{receiver.url}?t=sesame-open&sesame-shut&a=1", {}, BODY)
    assert answer.error == "it answered 404: no page /hook?t=…&…&a=1 (…)"


@pytest.mark.parametrize("status", [200, 410])
@pytest.mark.parametrize("begun", ["Content-Length: 10\r\n\r\nno", "Transfer-Encoding: chunked\r\n\r\n"])
@pytest.mark.parametrize("is_cut", [True, False])
async def test_a_status_counts_however_its_text_ends(status: int, begun: str, is_cut: bool) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY)
        writer.write(f"HTTP/1.1 {status} Said\r\n{begun}".encode())
        if not is_cut:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    receiver = Receiver(server.sockets[0].getsockname()[1])
    answer = await sender_to(receiver, try_seconds=30.0).post(receiver.url, {}, BODY)
    server.close()
    assert (answer.status, answer.delivered, answer.gone) == (status, status == 200, status == 410)
    assert answer.error == ("" if answer.delivered else "it answered 410: no" if "no" in begun else "it answered 410")


async def test_of_an_answer_without_end_only_the_beginning_is_read() -> None:
    head = b"HTTP/1.1 500 No\r\nContent-Length: 100000000\r\n\r\n"
    async with receiving(head + b"why " * 5_000) as receiver:
        answer = await sender_to(receiver, try_seconds=30.0).post(receiver.url, {}, BODY)
    assert answer.error == f"it answered 500: {'why ' * 50}"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("Retry-After: 120", 120.0),
        ("Retry-After: 86400", 3_600.0),
        ("Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Retry-After: Fri, 01 Jan 2100 00:00:00 GMT", 3_600.0),
        ("Retry-After: soon", 0.0),
        ("Retry-After: -5", 0.0),
        ("Retry-After: Fri, 01 Jan 99999999999999999999 00:00:00 GMT", 0.0),
        ("Retry-After: Fri, 01 Jan 2100 00:00:00 +99999999999999999999", 0.0),
    ],
)
async def test_patience_that_a_receiver_asks_for_counts_up_to_an_hour(header: str, seconds: float) -> None:
    async with receiving(answering(503, header)) as receiver:
        answer = await sender_to(receiver).post(receiver.url, {}, BODY)
    assert (answer.status, answer.after_seconds) == (503, seconds)


async def test_a_receiver_that_is_gone_says_so() -> None:
    async with receiving(answering(410)) as receiver:
        assert (await sender_to(receiver).post(receiver.url, {}, BODY)).gone


async def test_what_is_not_http_or_nobody_is_a_reason_and_no_error() -> None:
    async with receiving(b"hello\r\n\r\n") as receiver:
        sender = sender_to(receiver)
        answer = await sender.post(receiver.url, {}, BODY)
    assert answer.status is None and "not HTTP" in answer.error
    assert "no connection" in (await sender.post(receiver.url, {}, BODY)).error


async def test_an_address_is_looked_up_and_judged_at_each_try() -> None:
    """The name is fine, and leads to this machine, which nobody allowed."""
    async with receiving() as receiver:
        sender = WebhookSender(WebhookForm(WebhookSettings()), AddressRule(of_this_machine))
        answer = await sender.post("https://ci.example.com/hook", {}, BODY)
    assert answer.status is None and "not a public address" in answer.error
    assert receiver.received == []


@pytest.mark.parametrize(
    "url",
    [
        "http://ci.example.com",
        "https://me:word@ci.example.com",
        "https://ci.example.com:9000",
        "ftp://ci.example.com",
        "https://",
        "https://0x7f000001",
        "https://ci.example.com/a b",
        "nothing",
    ],
)
def test_an_address_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused):
        WebhookForm(WebhookSettings()).checked(url)


def test_only_hosts_that_are_allowed_are_reached() -> None:
    form = WebhookForm(WebhookSettings(allow=("*.example.com", "a.test:9000"), allow_private=("10.0.0.1:80",)))
    for url in ("https://ci.example.com", "https://a.test:9000/x", "http://10.0.0.1/x"):
        assert httpx.URL(str(form.checked(url))).host
    for url in ("https://example.org", "https://a.test", "http://10.0.0.2/x", "http://ci.example.com"):
        with pytest.raises(AddressRefused):
            form.checked(url)
