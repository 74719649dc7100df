"""Viewers: they watch orders over server-sent events, leave, come back, and log what they saw."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.faults.jsonlines import JsonLines

FINISHED = "order.finished"
PATIENCE_SECONDS = 15.0
"""A stream says `ping` more often than that; one that is silent for longer is given up."""


@dataclass
class Viewer:
    """Watches one order to its end, at the services in turn.

    `seed` makes it leave after a few entries, again and again; None: it stays as long as it can. It resumes by
    `Last-Event-ID`, and logs every entry it gets: `t`, `order_id`, `seq`, `kind`, `connection` (counted from 1).
    """

    name: str
    order_id: str
    urls: Sequence[str]
    token: str
    log: JsonLines
    seed: int | None = None
    connections: int = 0
    seen: int = 0
    over: bool = False
    _dice: random.Random = field(default_factory=random.Random)

    @classmethod
    def on(
        cls, directory: Path, name: str, order_id: str, urls: Sequence[str], token: str, seed: int | None
    ) -> "Viewer":
        log = JsonLines(directory / f"{name}.jsonl")
        return cls(name, order_id, urls, token, log, seed, _dice=random.Random(seed))

    async def watch(self) -> None:
        """Until the order's last entry was seen, or cancelled."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as client:
            while not self.over:
                try:
                    await self._connected(client)
                except httpx.HTTPError:
                    await asyncio.sleep(0.1)

    async def _connected(self, client: httpx.AsyncClient) -> None:
        url = self.urls[self.connections % len(self.urls)]
        self.connections += 1
        most = self._dice.randint(1, 8) if self.seed is not None else None
        resume = {"Last-Event-ID": str(self.seen)} if self.seen else {}
        async with client.stream("GET", f"{url}/api/v1/orders/{self.order_id}/events", headers=resume) as answer:
            if answer.status_code == 204:
                self.over = True
                return
            if answer.status_code != 200:
                await asyncio.sleep(0.2)
                return
            await self._read(answer, most)

    async def _read(self, answer: httpx.Response, most: int | None) -> None:
        seq, kind, got = 0, "", 0
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                seq = int(value)
            elif name == "event":
                kind = value
            elif not line:
                if seq:
                    self._take(seq, kind)
                    got += 1
                seq, kind = 0, ""
                if self.over or got == most:
                    return

    def _take(self, seq: int, kind: str) -> None:
        self.log.write(
            {"t": time.time(), "order_id": self.order_id, "seq": seq, "kind": kind, "connection": self.connections}
        )
        self.seen = seq
        self.over = kind == FINISHED
