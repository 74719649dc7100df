"""What a drone asks of a person reaches whoever watches, over a real Redis, while the database is not polled."""

import asyncio
import json

from drone.worker.broadcaster import Broadcaster
from drone.worker.journal import Writer
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.inbox_facts import QuestionAsked
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import AsyncPublisher
from mcc.feed.combined import CombinedStream
from mcc.feed.feed import Feed, Pace
from mcc.feed.frames import plain_frame
from mcc.feed.subscription import connector
from mcc.store.store import Offload
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.fake_crew import started
from tests.drone.worker.real_redis import RealRedis
from tests.waiting import eventually

NEVER = 3_600.0
ONLY_HINTS = Pace(NEVER, NEVER, NEVER)


async def inbox_told(events: "asyncio.Queue[bytes]") -> dict[str, object]:
    """The next `inbox` event."""
    while not (event := await events.get()).startswith(b"event: inbox\n"):
        pass
    told: dict[str, object] = json.loads(event.partition(b"data: ")[2])
    return told


async def test_a_question_is_in_the_inbox_of_whoever_watches_once_it_is_asked(real_redis: RealRedis) -> None:
    at, offload = RedisAt(real_redis.url), Offload(4)
    async with Bench() as bench, asyncio.timeout(60):
        publisher = AsyncPublisher(at)
        broadcaster = Broadcaster(publisher)
        writer = Writer(bench.store, bench.trust, broadcaster)
        order = bench.place("p")
        claim = bench.claim(order)
        journal = writer.open(order.id, claim.epoch, bench.fold(order.id))
        events: asyncio.Queue[bytes] = asyncio.Queue()

        async def watch(feed: Feed) -> None:
            async for chunk in CombinedStream(feed, {}).events(plain_frame("hello", {})):
                for block in chunk.split(b"\n\n"):
                    events.put_nowait(block)

        async with Feed(bench.store, offload, connector(at), ONLY_HINTS).running() as feed:
            writing, watching = asyncio.create_task(writer.run()), asyncio.create_task(watch(feed))
            assert await inbox_told(events) == {"pending": 0, "changed": []}
            await eventually(lambda: feed.connected)
            question = QuestionAsked(question_id="q1", call_id="c1", question="Which?")
            await journal.write(Origin(record_id=root_record_id(order.id), agent="master"), started("p"), question)
            await broadcaster.flush()
            told = await inbox_told(events)
            assert told["pending"] == 1
            assert [item["order_id"] for item in told["changed"]] == [order.id]  # type: ignore[attr-defined]
            for task in (writing, watching):
                task.cancel()
            await asyncio.wait({writing, watching})
        writer.close()
        await publisher.close()
    offload.close()
