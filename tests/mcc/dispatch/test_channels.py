"""The documented channels: entries, heads of large entries, heartbeats, and the subscriber from the documentation."""

import json
import subprocess
import sys

import redis

from mcc.contracts.callers import Actor
from mcc.contracts.entry import ORDER, Draft, Entry
from mcc.contracts.order import NewOrder
from mcc.contracts.order_facts import OrderResumed
from mcc.contracts.shape import now
from mcc.contracts.wire import LARGEST_ENTRY_BYTES, DroneBeat, entry_message
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import Publisher, newest_entries, payloads
from mcc.testing import temporary_store
from scripts.reference.channels import SUBSCRIBER


def queued(prompt: str) -> Entry:
    store = temporary_store()
    order = store.orders.place(NewOrder(prompt=prompt), by=Actor("t")).order
    (entry,) = newest_entries(store, order)
    return entry


def test_an_entry_goes_out_whole_with_kind_record_and_number() -> None:
    entry = queued("hello")
    ((channel, payload),) = payloads([entry])
    assert channel == f"mcc:order:{entry.order_id}"
    told = json.loads(payload)
    assert told.pop("type") == "entry"
    assert told == entry.model_dump(mode="json")


def test_of_a_large_entry_the_head_goes_out() -> None:
    small, large = (
        Draft(at=now(), origin=ORDER, data=OrderResumed(message="x" * size)).numbered("o", 3)
        for size in (LARGEST_ENTRY_BYTES // 2, LARGEST_ENTRY_BYTES)
    )
    told = json.loads(entry_message(large))
    assert (told["type"], told["seq"], told["kind"], told["whole"]) == ("entry", 3, "order.resumed", False)
    assert "data" not in told
    assert json.loads(entry_message(small))["data"] == small.data.model_dump(mode="json")


def test_a_heartbeat_goes_out_under_the_drone_s_name() -> None:
    beat = DroneBeat(drone="d1", incarnation="i", at=now(), slots=4, active=1)
    ((channel, payload),) = payloads([beat])
    assert channel == "mcc:drone:d1"
    assert json.loads(payload)["active"] == 1


def test_the_subscriber_of_the_page_prints_what_is_committed(redis_url: str) -> None:
    entry = queued("hello")
    program = SUBSCRIBER.replace("redis://127.0.0.1:6379/0", redis_url).replace("order.finished", "order.queued")
    publisher = Publisher(RedisAt(redis_url))
    with subprocess.Popen(
        [sys.executable, "-c", program, entry.order_id], stdout=subprocess.PIPE, text=True
    ) as running:
        with redis.Redis.from_url(redis_url) as client:
            while not client.pubsub_numsub(f"mcc:order:{entry.order_id}")[0][1]:
                assert running.poll() is None
        assert publisher.publish([entry])
        out, _ = running.communicate(timeout=30)
    assert out.split() == ["1", "order.queued"]
    publisher.close()
