import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime

from drone.worker.broadcaster import MOST_CHARACTERS, Broadcaster, joined_up
from mcc.contracts.entry import Entry
from mcc.contracts.journal import AgentStep
from mcc.contracts.wire import Delta, Hint
from mcc.dispatch.publisher import Message, Packed
from tests.drone.worker.bench_of_orders import RecordingPublisher


def delta(offset: int, text: str, **fields: object) -> Delta:
    shape = {"kind": "model.delta", "order_id": "o", "epoch": 1, "record_id": "r", "round": 1, "attempt": 1}
    return Delta.model_validate({**shape, "offset": offset, "text": text, **fields})


async def test_pieces_of_one_reply_are_joined_and_published_once() -> None:
    publisher = RecordingPublisher()
    broadcaster = Broadcaster(publisher)
    for offset, letter in enumerate("hello"):
        broadcaster.delta(delta(offset, letter))
    await broadcaster.flush()
    assert [(item.offset, item.text) for item in publisher.deltas] == [(0, "hello")]


async def test_text_of_different_kinds_and_records_is_kept_apart() -> None:
    publisher = RecordingPublisher()
    broadcaster = Broadcaster(publisher)
    broadcaster.delta(delta(0, "a"))
    broadcaster.delta(delta(0, "b", kind="thinking.delta"))
    broadcaster.delta(delta(0, "c", record_id="other"))
    await broadcaster.flush()
    for call_id in ("1", "2"):
        broadcaster.delta(delta(0, "d", kind="tool.progress", call_id=call_id))
    await broadcaster.flush()
    assert sorted(item.text for item in publisher.deltas) == ["a", "b", "c", "d", "d"]


def test_a_gap_is_not_joined_over() -> None:
    assert [(item.offset, item.text) for item in joined_up([delta(0, "ab"), delta(2, "c"), delta(9, "d")])] == [
        (0, "abc"),
        (9, "d"),
    ]


async def test_text_is_published_before_the_hint_of_the_entry_that_completes_it() -> None:
    publisher = RecordingPublisher()
    broadcaster = Broadcaster(publisher)
    broadcaster.hint(Hint(order_id="o", seq=4))
    broadcaster.delta(delta(0, "last words"))
    await broadcaster.flush()
    assert [type(item) for item in publisher.published] == [Delta, Hint]


async def test_hints_of_one_order_become_one_which_keeps_the_status() -> None:
    publisher = RecordingPublisher()
    broadcaster = Broadcaster(publisher)
    broadcaster.hint(Hint(order_id="o", seq=2, status="running"))
    broadcaster.hint(Hint(order_id="o", seq=3))
    await broadcaster.flush()
    assert publisher.hints == [Hint(order_id="o", seq=3, status="running")]


async def test_text_beyond_the_bound_is_dropped() -> None:
    publisher = RecordingPublisher()
    broadcaster = Broadcaster(publisher)
    broadcaster.delta(delta(0, "x" * MOST_CHARACTERS))
    broadcaster.delta(delta(MOST_CHARACTERS, "y"))
    await broadcaster.flush()
    assert "y" not in publisher.deltas[0].text
    broadcaster.delta(delta(MOST_CHARACTERS, "z"))
    await broadcaster.flush()
    assert publisher.deltas[-1].text == "z"


async def test_a_large_waiting_entry_is_reduced_to_its_head() -> None:
    publisher = RecordingPublisher()
    broadcaster = Broadcaster(publisher)
    long = Entry(
        order_id="o", seq=7, at=datetime(2026, 1, 1, tzinfo=UTC), data=AgentStep(name="x", message="x" * 1_000_000)
    )
    broadcaster.entries([long, long.model_copy(update={"seq": 8, "data": AgentStep(name="x", message="short")})])
    await broadcaster.flush()
    (head, whole) = publisher.published
    assert isinstance(head, Packed) and isinstance(whole, Packed)
    assert len(head.payload) < 1_000 and json.loads(head.payload)["seq"] == 7
    assert (whole.order_id, json.loads(whole.payload)["data"]["message"]) == ("o", "short")


async def test_an_error_while_publishing_does_not_stop_the_broadcaster() -> None:
    class Stumbling(RecordingPublisher):
        def __init__(self) -> None:
            super().__init__()
            self.heard = asyncio.Event()
            self.stumbled = asyncio.Event()

        async def publish(self, messages: Iterable[Message]) -> bool:
            if not self.stumbled.is_set():
                self.stumbled.set()
                raise RuntimeError("no voice")
            self.heard.set()
            return await super().publish(messages)

    publisher = Stumbling()
    broadcaster = Broadcaster(publisher)
    telling = asyncio.create_task(broadcaster.run())
    async with asyncio.timeout(5):
        broadcaster.hint(Hint(order_id="o", seq=1))
        await publisher.stumbled.wait()
        broadcaster.hint(Hint(order_id="o", seq=2))
        await publisher.heard.wait()
    assert [hint.seq for hint in publisher.hints] == [2]
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)
