"""A receiver of webhooks on this machine, which keeps what it was sent and answers as it is told."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.network import WebhookSettings
from mcc.redaction import Redactor
from mcc.store.store import Offload, Store
from mcc.webhooks.courier import Courier, Senders
from mcc.webhooks.replying import ReplySender, ReplyTables
from mcc.webhooks.sending import WebhookForm, WebhookSender

OK = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Received:
    headers: Mapping[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        return json.loads(self.body)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """`answers` are given one after the other, then `OK`; None says nothing and keeps the connection open."""

    port: int = 0
    answers: list[bytes | None] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def types(self) -> list[str]:
        return [each.said["type"] for each in self.received]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
            body = await reader.readexactly(int(headers["content-length"]))
            self.received.append(Received(headers, body))
            answer = self.answers.pop(0) if self.answers else OK
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(*answers: bytes | None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answers=list(answers))
    server = await asyncio.start_server(receiver.handle, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()


def answering(status: int, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n\r\n" + body


async def of_this_machine(host: str) -> tuple[str, ...]:
    return ("127.0.0.1",)


def sender_to(*receivers: Receiver, try_seconds: float = 15.0, hosts: tuple[str, ...] = ("*",)) -> WebhookSender:
    """A sender that may reach these receivers."""
    private = tuple(f"127.0.0.1:{receiver.port}" for receiver in receivers)
    rule = AddressRule(of_this_machine, allow_private=[Endpoint("127.0.0.1", each.port) for each in receivers])
    form = WebhookForm(WebhookSettings(allow=hosts, allow_private=private))
    return WebhookSender(form, rule, try_seconds=try_seconds)


def courier_to(
    store: Store,
    *receivers: Receiver,
    secrets: tuple[str, ...] = (),
    try_seconds: float = 15.0,
    replies: ReplyTables | None = None,
    replies_alone: bool = False,
) -> Courier:
    """A courier of a service that reaches these receivers, and replies to the hosts of these tables."""
    tables = replies or ReplyTables()
    return Courier(
        store,
        Senders(
            None if replies_alone else sender_to(*receivers, try_seconds=try_seconds),
            ReplySender(tables, AddressRule(of_this_machine, allow_private=tables.endpoints), try_seconds=try_seconds),
        ),
        Offload(2, "webhooks"),
        public_url="https://mcc.test",
        redactor=lambda: Redactor(secrets),
        chance=random.Random(1),
    )
