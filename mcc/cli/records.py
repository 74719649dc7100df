"""All chat records as JSON lines, for programs that keep or analyse them."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from mcc.cli.command import print_json

if TYPE_CHECKING:
    from mcc.cli.archive import ArchiveReader
    from mcc.contracts.order import WorkOrder

ORDERS = 200
"""Orders per page of the list."""


def print_records(reader: "ArchiveReader", since: datetime | None) -> None:
    """A line for each ended order that has a record, newest order first: the record, with its `order` beside it.

    `since`: only of orders that ended at that time or later. Whoever asks again with the time of the last call misses
    none, which a filter by the time of placing could not promise.
    """
    from mcc.client.errors import NotFound
    from mcc.contracts.shape import to_json

    for order in _ended(reader):
        if order.finished_at is None or (since is not None and order.finished_at < since):
            continue
        try:
            record = reader.orders.record(order.id)
        except NotFound:
            continue  # no agent of it ever began
        told = {name: getattr(order, name) for name in ("id", "status", "reason", "created_at", "finished_at")}
        print_json({"order": told, **json.loads(to_json(record))})


def _ended(reader: "ArchiveReader") -> "Iterator[WorkOrder]":
    cursor = None
    while True:
        page = reader.orders.list(limit=ORDERS, cursor=cursor)
        yield from page.items
        if (cursor := page.next_cursor) is None:
            return
