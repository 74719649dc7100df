"""How long a webhook takes to arrive, while 1,000 other receivers say nothing.

    python -m benchmarks.webhooks [--silent 1000] [--orders 200]

The silent receivers take a connection and never answer, so that each try of theirs lasts until it is cut off after 15
seconds. Orders that end meanwhile are told to an endpoint that answers at once; measured is the time from before an
order is placed until its message has arrived. All names lead to one server on this machine.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from tempfile import TemporaryDirectory

from benchmarks.summary import Promise
from benchmarks.workload import table
from mcc.addresses import AddressRule, Endpoint
from mcc.configuration.network import WebhookSettings
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.order import NewOrder
from mcc.contracts.token_text import new_webhook_secret
from mcc.contracts.webhooks import NewWebhook, WebhookFilters
from mcc.store.database.migrate import upgrade
from mcc.store.store import Offload, Store, open_store
from mcc.webhooks.courier import Courier, Senders
from mcc.webhooks.replying import ReplySender, ReplyTables
from mcc.webhooks.sending import WebhookForm, WebhookSender

SILENT, ORDERS, PAUSE_SECONDS = 1_000, 200, 0.1
TARGET_SECONDS = 1.0
HEAD = ("silent receivers", "messages", "p50 s", "p99 s", "slowest s")
BY = Actor("benchmark")


class Arrivals:
    """A server that says nothing to silent hosts, and notes when the messages for the endpoint `well.test` arrive."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.news = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if "host: well.test" not in head.lower():
                await reader.read()
                return
            length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
            body = (await reader.readexactly(length)).decode()
            order_id = body.partition('"order":{"id":"')[2][:36]
            self.at.setdefault(order_id, time.monotonic())
            self.news.set()
            writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


async def this_machine(host: str) -> tuple[str, ...]:
    return ("127.0.0.1",)


async def measured(store: Store, silent: int, orders: int) -> Sequence[float]:
    """Seconds until each message arrived, sorted."""
    arrivals = Arrivals()
    server = await asyncio.start_server(arrivals.handle, "127.0.0.1", 0, backlog=512)
    port = server.sockets[0].getsockname()[1]
    hosts = ["well.test", *(f"silent-{number}.test" for number in range(silent))]
    rule = AddressRule(this_machine, allow_private=[Endpoint(host, port) for host in hosts])
    # Without validation: a table of mcc.toml has room for a hundred names.
    form = WebhookForm(
        WebhookSettings.model_construct(allow=("*",), allow_private=tuple(f"{host}:{port}" for host in hosts))
    )
    senders = Senders(WebhookSender(form, rule), ReplySender(ReplyTables(), rule))
    courier = Courier(store, senders, Offload(4, "webhooks"), public_url="http://mcc.test")
    for host in hosts[1:]:
        placed = store.orders.place(NewOrder(prompt="x", webhook_url=f"http://{host}:{port}/"), by=BY).order
        store.controls.request(placed.id, ControlKind.CANCEL, NewControl(), by=BY)
    # Orders that were placed before are noted already, and it would hear of their ends too.
    well = NewWebhook(name="well", url=f"http://well.test:{port}/", filters=WebhookFilters(labels=("told",)))
    store.webhooks.endpoints.make(well, new_webhook_secret(), by=BY)
    running = asyncio.create_task(courier.run())
    began: dict[str, float] = {}
    for _ in range(orders):
        at = time.monotonic()
        order = await asyncio.to_thread(store.orders.place, NewOrder(prompt="x", labels=("told",)), by=BY)
        began[order.order.id] = at
        await asyncio.sleep(PAUSE_SECONDS)
    while len(arrivals.at) < orders:
        arrivals.news.clear()
        await asyncio.wait_for(arrivals.news.wait(), 60)
    running.cancel()
    await asyncio.wait({running})
    server.close()
    return sorted(arrivals.at[order_id] - at for order_id, at in began.items())


def main(arguments: Sequence[str] | None = None) -> list[Promise]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--silent", type=int, default=SILENT)
    parser.add_argument("--orders", type=int, default=ORDERS)
    chosen = parser.parse_args(arguments)
    rows, last = [], 0.0
    for silent in (0, chosen.silent):
        with TemporaryDirectory() as directory:
            url = f"sqlite:///{directory}/mcc.db"
            upgrade(url)
            store = open_store(url)
            seconds = asyncio.run(measured(store, silent, chosen.orders))
            store.close()
        last = seconds[int(len(seconds) * 0.99) - 1]
        figures = (f"{each:.2f}" for each in (seconds[len(seconds) // 2], last, seconds[-1]))
        rows.append((f"{silent:,}", f"{len(seconds):,}", *figures))
    table("From before an order is placed until its message has arrived", HEAD, rows)
    what = f"p99 of a webhook while {chosen.silent:,} receivers say nothing"
    return [Promise(what, last, TARGET_SECONDS, "s")]


if __name__ == "__main__":
    main()
