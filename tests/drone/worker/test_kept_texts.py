"""Texts that an order's journal keeps are read back through it."""

from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.test_journal_writer import opened


async def test_a_kept_text_is_read_back_and_one_that_was_never_kept_is_none() -> None:
    async with Bench() as bench:
        journal = opened(bench)
        digest = await journal.keep("half a pair \ud83d and NUL \x00")
        assert await journal.kept(digest) == "half a pair \ud83d and NUL \x00"
        assert await journal.kept("f" * 64) is None
