"""Readers of a huge record: nobody is sent, or held, much of it at a time."""

import json
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import pytest

from mcc.api.app import build_app
from mcc.contracts.fold import Fold
from mcc.contracts.shape import to_json
from mcc.settings import ServiceSettings
from mcc.store.database.migrate import upgrade
from mcc.store.store import Store, open_store
from mcc.testing import FakeClock
from mcc.testing.served import TOKEN
from tests.conformance.store.scene import Held, Scene, called, ended, replied, returned, started

FILES, FILE_BYTES = 40, 190_000
MOST_AT_ONCE = 1_000_000
MOST_OF_A_PAGE = 6_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'mcc.db'}"
    upgrade(url)
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def huge(store: Store) -> Held:
    """An order that has read many files, and ended."""
    held = Scene(store, FakeClock(), "sqlite").running()
    record_id = held.origin.record_id or ""
    held.write(started())
    for number in range(1, FILES + 1):
        content = f"{number} ".ljust(FILE_BYTES, "x")
        held.write(
            replied("", round_number=number), called(record_id, number), returned(record_id, number, content=content)
        )
    held.write(ended())
    held.finish()
    return held


class Asked:
    """One request as ASGI has it: the status and the pieces of the answer's body."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._settings = ServiceSettings(data_dir=folder / "data")
        self.status = 0
        self.pieces: list[bytes] = []

    async def get(self, path: str, query: bytes = b"") -> bytes:
        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query,
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8420),
        }
        self.pieces = []
        app = build_app(self._settings, self._store, token=TOKEN)
        async with app.router.lifespan_context(app):
            await app(scope, self._receive, self._send)
        return b"".join(self.pieces)

    async def _receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.pieces.append(message.get("body", b""))


async def test_a_huge_record_is_sent_in_small_pieces(store: Store, huge: Held, tmp_path: Path) -> None:
    asked = Asked(store, tmp_path)
    answer = await asked.get(f"/api/v1/orders/{huge.order_id}/record")
    assert asked.status == 200 and len(answer) > FILES * FILE_BYTES
    assert max(map(len, asked.pieces)) < MOST_AT_ONCE
    folded = Fold.of(huge.order_id, store.journal.read(huge.order_id)).record()
    assert (answer == to_json(folded)) is True


async def test_a_page_of_a_huge_journal_ends_with_its_bytes(store: Store, huge: Held, tmp_path: Path) -> None:
    asked, seen, after = Asked(store, tmp_path), list[int](), "0"
    while after is not None:
        page = json.loads(await asked.get(f"/api/v1/orders/{huge.order_id}/journal", f"after={after}".encode()))
        assert sum(map(len, asked.pieces)) < MOST_OF_A_PAGE
        seen += [entry["seq"] for entry in page["items"]]
        after = page["next_cursor"]
    assert seen == list(range(1, len(seen) + 1)) and len(seen) == store.orders.get(huge.order_id).last_seq
