"""Texts that an order's journal keeps are read back through it."""

import asyncio
from typing import cast

from drone.worker.journal import Committer, OrderJournal
from mcc.contracts.fold import Fold
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.test_journal_writer import opened


async def test_a_kept_text_is_read_back_and_one_that_was_never_kept_is_none() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        digest = await journal.keep("half a pair \ud83d and NUL \x00")
        assert await journal.kept(digest) == "half a pair \ud83d and NUL \x00"
        assert await journal.kept("f" * 64) is None


class Keeping:
    """A committer that keeps as slowly as the test likes, and knows how many texts it keeps at once."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.now = self.most = 0

    async def keep(self, text: str) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go_on.wait()
        self.now -= 1
        return text


async def test_an_order_keeps_one_text_at_a_time() -> None:
    committer = Keeping()
    one, other = (OrderJournal(cast(Committer, committer), name, 1, Fold(name)) for name in ("one", "other"))
    keeping = [asyncio.create_task(journal.keep(text)) for journal in (one, other) for text in ("a", "b", "c")]
    for _ in range(10):
        await asyncio.sleep(0)
    assert committer.most == 2
    committer.go_on.set()
    assert await asyncio.gather(*keeping) == ["a", "b", "c"] * 2
    assert committer.most == 2
