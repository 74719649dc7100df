"""Whoever can write in Redis sends messages that grow, and commands that are not theirs to give."""

import base64
import gzip
import json
from pathlib import Path

import pytest
import redis
from celery.worker.control import Panel

from drone.worker.components import OBEYED, handlers
from drone.worker.redis_transport import MAX_MESSAGE_BYTES, PlainMessage, UnreadableMessage
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import RUN_ORDER_TASK
from mcc.dispatch.broker import RedisAt, make_app, queue_keys
from tests.drone.worker.test_celery_worker import Site
from tests.waiting import until

MEGABYTE = 1 << 20
PIDBOX = "mcc:/0.celery.pidbox"


def message(body: bytes, **headers: str) -> bytes:
    """As kombu writes one."""
    properties = {"delivery_tag": "t", "body_encoding": "base64", "delivery_info": {}}
    told = {"task": RUN_ORDER_TASK, "id": "m", **headers}
    envelope = {"headers": told, "properties": properties, "content-type": "application/json"}
    return json.dumps({**envelope, "content-encoding": "utf-8", "body": base64.b64encode(body).decode()}).encode()


def bomb(megabytes: int, compression: str = "application/x-gzip") -> bytes:
    return message(gzip.compress(b" " * (megabytes * MEGABYTE)), compression=compression)


def peak_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


@pytest.mark.parametrize("compression", ["application/x-gzip", "gzip", "zlib", "bzip2", "lzma", "brotli", "no such"])
def test_nothing_is_decompressed(compression: str) -> None:
    with pytest.raises(UnreadableMessage, match="compressed"):
        PlainMessage(json.loads(bomb(0, compression)))


def test_messages_that_grow_are_dropped_and_counted_and_the_drone_does_not_grow(site: Site) -> None:
    worker = site.drone("d1")
    before = peak_megabytes(worker.pid)
    large = message(b" " * (MAX_MESSAGE_BYTES + 1))
    with redis.Redis.from_url(site.redis.url) as client:
        for sent in (bomb(200), large, b"[" + b"[]," * 8_000_000 + b"[]]"):
            client.lpush(queue_keys("default")[5], sent)
        until(lambda: site.refused() == 3, "each of them is counted")
        for sent in (bomb(200), large, b"{" * 8_000_000):
            client.publish(PIDBOX, sent)
        until(lambda: site.refused() == 6, "those for all drones as well")
        site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
        assert client.hlen("mcc:unacked") == 0
    assert peak_megabytes(worker.pid) - before < 120, "24 MB arrived; 200 would have come out"
    assert worker.poll() is None


HOSTILE = {
    "shutdown": {},
    "rate_limit": {"task_name": RUN_ORDER_TASK, "rate_limit": "1/h"},
    "time_limit": {"task_name": RUN_ORDER_TASK, "hard": 1},
    "cancel_consumer": {"queue": "default"},
    "add_consumer": {"queue": "stolen"},
    "pool_shrink": {"n": 100},
    "pool_grow": {"n": 10_000},
    "pool_restart": {"reload": True},
    "autoscale": {"max": 1, "min": 0},
    "disable_events": {},
    "election": {"id": "1", "topic": "task", "action": "x"},
    "hello": {"from_node": "evil@host", "revoked": {"a": 1}},
    "heartbeat": {},
    "memdump": {},
    "memsample": {},
    "objgraph": {"num": 10},
    "report": {},
    "revoke": {"task_id": "01900000-0000-7000-8000-000000000000"},
    "revoke_by_stamped_headers": {"headers": {"a": ["b"]}},
    "terminate": {"signal": "KILL", "task_id": "01900000-0000-7000-8000-000000000000"},
}


def test_a_drone_answers_strangers_commands_with_a_sentence_and_goes_on(site: Site) -> None:
    worker = site.drone("d1")
    app = make_app(RedisAt(site.redis.url), ["default"])
    running = site.place("sleep 60")
    site.wait(running, OrderStatus.RUNNING)
    for command, given in HOSTILE.items():
        (answer,) = app.control.broadcast(command, arguments=given, reply=True, timeout=20, limit=1)
        assert "does not obey" in next(iter(answer.values()))["error"], command
    seen = app.control.inspect(timeout=20, limit=1)
    (queues,) = (seen.active_queues() or {}).values()
    assert [queue["name"] for queue in queues if not queue["name"].startswith("canary")] == ["default"]
    site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
    assert site.get(running).status is OrderStatus.RUNNING and worker.poll() is None
    app.close()


def test_what_flower_and_the_doctor_ask_is_answered(site: Site) -> None:
    site.drone("d1")
    app = make_app(RedisAt(site.redis.url), ["default"])
    for question in (
        "ping",
        "stats",
        "active",
        "active_queues",
        "registered",
        "scheduled",
        "reserved",
        "revoked",
        "conf",
    ):
        (answer,) = (getattr(app.control.inspect(timeout=20, limit=1), question)() or {}).values()
        assert not (isinstance(answer, dict) and "error" in answer), question
    app.close()


def test_every_command_of_celery_is_decided_on() -> None:
    """One that a later version brings is not obeyed before somebody has looked at it."""
    ours = handlers()
    assert set(ours) == set(Panel.data) and set(Panel.data) >= OBEYED
    assert {name for name, handler in ours.items() if handler is Panel.data[name]} == OBEYED - {"stats"}
    assert not set(HOSTILE) & OBEYED
