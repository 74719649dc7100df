"""Real Celery workers in processes of their own, on a real Redis and an SQLite file, with a crew of fakes."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import redis

from mcc.contracts.callers import Actor
from mcc.contracts.drones import DroneStatus
from mcc.contracts.order import NewOrder, WorkOrder
from mcc.contracts.order_facts import OrderClaimed, OrderHandedBack
from mcc.contracts.shape import to_json
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import OrdersWait, control_channel
from mcc.dispatch.broker import RedisAt, make_app, queue_keys
from mcc.dispatch.nudge import Nudger
from mcc.store.store import Store, open_store
from mcc.testing.store import migrated_copy
from tests.drone.worker.forked import FAKE, Running, forked
from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis, own_redis
from tests.forking.zygote import TELL_SIGNAL
from tests.waiting import until

pytestmark = pytest.mark.skipif(SERVER is None, reason=WHY_NOT)
ROOT = Path(__file__).parents[3]
QUICK = {"DRONE_POLL_SECONDS": "60", "DRONE_LEASE_SECONDS": "2", "DRONE_RENEW_SECONDS": "0.2"}
NO_CLOCK: dict[str, Any] = {"DRONE_POLL_SECONDS": "3600", "DRONE_SWEEP_SECONDS": "3600"}


class Site:
    """A database, a Redis, and the drones that use them."""

    def __init__(self, folder: Path, server: RealRedis, stack: ExitStack) -> None:
        self.folder = folder
        self.redis = server
        self.database_url = f"sqlite:///{migrated_copy(folder / 'mcc.db')}"
        self.store: Store = open_store(self.database_url)
        self.nudger = Nudger(RedisAt(server.url), ["default"])
        self._stack = stack
        stack.callback(self.store.close)
        stack.callback(self.nudger.close)

    def drone(self, name: str, *command: str, program: str = FAKE, ready: bool = True, **more: str) -> Running:
        """Start a drone of this program, unless `command` starts another."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("MCC_", "DRONE_"))},
            **QUICK,
            "MCC_DATABASE_URL": self.database_url,
            "MCC_REDIS_URL": self.redis.url,
            "MCC_DATA_DIR": str(self.folder),
            "DRONE_NAME": name,
            **more,
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            process: Running = (
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
                if command
                else forked(program, environment, Path(log.name))
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        if ready:
            self.until_ready(name, process)
        return process

    def until_ready(self, name: str, process: Running) -> None:
        try:
            until(lambda: " ready." in self.log(name) or process.poll() is not None, f"{name} is ready")
        except AssertionError:
            process.send_signal(TELL_SIGNAL)
            until(lambda: "thread" in self.log(name), f"{name} tells where it is")
            raise AssertionError(f"{name} stands still: {self.log(name)}") from None
        assert process.poll() is None, f"{name} ended with {process.poll()}: {self.log(name)}"

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def place(self, prompt: str) -> str:
        order = self.store.orders.place(NewOrder(prompt=prompt), by=Actor("test")).order
        self.nudger.nudge(order.id)
        return order.id

    def get(self, order_id: str) -> WorkOrder:
        return self.store.orders.get(order_id)

    def wait(self, order_id: str, status: OrderStatus) -> WorkOrder:
        until(lambda: self.get(order_id).status is status, f"{order_id} is {status.value}")
        return self.get(order_id)

    def refused(self) -> int:
        """The refused messages that the drones reported with their last heartbeats."""
        return sum(drone.refused_messages for drone in self.store.leases.drones())

    def kinds(self, order_id: str) -> list[str]:
        return [entry.kind for entry in self.store.journal.read(order_id)]

    def claimed_by(self, order_id: str) -> list[str]:
        facts = [entry.data for entry in self.store.journal.read(order_id)]
        return [fact.drone for fact in facts if isinstance(fact, OrderClaimed)]


@pytest.fixture
def site(tmp_path: Path, real_redis: RealRedis) -> Iterator[Site]:
    with redis.Redis.from_url(real_redis.url) as client:
        client.flushall()
    with ExitStack() as stack:
        yield Site(tmp_path, real_redis, stack)


def test_a_queued_order_gets_done_and_the_worker_ends_with_code_0(site: Site) -> None:
    worker = site.drone("d1", sys.executable, "-m", "tests.drone.worker.fake_drone")
    order = site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
    assert order.answer == "did hello"
    assert site.claimed_by(order.id) == ["d1"]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(10) == 0
    assert list(site.store.leases.drones()) == []


def test_a_backlog_announced_once_is_worked_off_without_polling_by_the_clock(site: Site) -> None:
    orders = [site.store.orders.place(NewOrder(prompt=f"p{n}"), by=Actor("test")).order.id for n in range(12)]
    site.drone("d1", DRONE_SLOTS="2", **NO_CLOCK)
    (drone,) = site.store.leases.drones()
    with redis.Redis.from_url(site.redis.url) as client:
        until(lambda: client.publish(control_channel(drone.incarnation), to_json(OrdersWait())), "the drone is told")
    for order in orders:
        site.wait(order, OrderStatus.SUCCEEDED)


def test_orders_announced_to_a_full_drone_are_started_by_it_later(site: Site) -> None:
    long = site.store.orders.place(NewOrder(prompt="sleep 2"), by=Actor("test")).order.id
    site.drone("d1", DRONE_SLOTS="1", **NO_CLOCK)
    (drone,) = site.store.leases.drones()
    with redis.Redis.from_url(site.redis.url) as client:
        # Started by a poll, so that Celery's pool thread is free to take messages for which there is no slot.
        until(lambda: client.publish(control_channel(drone.incarnation), to_json(OrdersWait())), "the drone is told")
        site.wait(long, OrderStatus.RUNNING)
        orders = [site.place(f"p{n}") for n in range(12)]
        until(lambda: not any(map(client.llen, queue_keys("default"))), "Celery has taken all messages")
    for order in orders:
        site.wait(order, OrderStatus.SUCCEEDED)


def test_a_full_drone_calls_other_drones_for_the_orders_announced_to_it(site: Site) -> None:
    def silent(prompt: str) -> str:
        return site.store.orders.place(NewOrder(prompt=prompt), by=Actor("test")).order.id

    def told(name: str) -> None:
        (drone,) = (drone for drone in site.store.leases.drones() if drone.name == name)
        until(lambda: client.publish(control_channel(drone.incarnation), to_json(OrdersWait())), f"{name} is told")

    with redis.Redis.from_url(site.redis.url) as client:
        long = silent("sleep 600")
        site.drone("d1", DRONE_SLOTS="1", **NO_CLOCK)
        told("d1")
        site.wait(long, OrderStatus.RUNNING)
        site.drone("d2", DRONE_SLOTS="1", **NO_CLOCK)
        first = silent("d2 has looked")
        told("d2")
        site.wait(first, OrderStatus.SUCCEEDED)
        # No message announces these: the second drone finds them when the first one calls it.
        orders = [silent(f"p{n}") for n in range(3)]

        def done() -> bool:
            site.place("for either of them")
            return all(site.get(order).status is OrderStatus.SUCCEEDED for order in orders)

        until(done, "all are done")
        assert site.get(long).status is OrderStatus.RUNNING


@pytest.mark.parametrize("signals", [["SIGTERM"], ["SIGTERM", "SIGTERM", "SIGQUIT"], ["SIGINT"], ["SIGQUIT"]])
def test_a_signal_hands_a_running_order_back_within_eight_seconds(site: Site, signals: list[str]) -> None:
    worker = site.drone("d1", DRONE_DRAIN_CANCEL_SECONDS="0.5", DRONE_DRAIN_HAND_BACK_SECONDS="3")
    order = site.place("sleep 60")
    site.wait(order, OrderStatus.RUNNING)
    began = time.monotonic()
    for name in signals:
        worker.send_signal(getattr(signal, name))
        threading.Event().wait(0.1)
    assert worker.wait(15) == 0, site.log("d1")
    assert time.monotonic() - began < 8
    assert site.get(order).status is OrderStatus.QUEUED
    assert isinstance(list(site.store.journal.read(order))[-1].data, OrderHandedBack)


def test_an_order_of_a_killed_drone_is_finished_by_another(site: Site) -> None:
    drones = {"d1": site.drone("d1"), "d2": site.drone("d2")}
    order = site.place("sleep 1.5")
    until(lambda: "agent.started" in site.kinds(order), "the agent started")
    (first,) = site.claimed_by(order)
    (second,) = set(drones) - {first}
    drones[first].kill()
    done = site.wait(order, OrderStatus.SUCCEEDED)
    assert site.claimed_by(order) == [first, second]
    assert done.attempt == 2
    kinds = site.kinds(order)
    assert kinds.count("order.finished") == 1
    assert kinds.count("agent.started") == kinds.count("agent.finished") == 1


def test_two_idle_drones_share_what_waits_and_none_takes_more_than_it_has_slots_for(site: Site) -> None:
    for name in ("d1", "d2"):
        site.drone(name, DRONE_SLOTS="10")
    orders = [site.place("sleep 60") for _ in range(20)]
    until(lambda: all("agent.started" in site.kinds(order) for order in orders), "every order runs")
    claimed = [site.claimed_by(order) for order in orders]
    assert all(len(drones) == 1 for drones in claimed)
    assert Counter(drones[0] for drones in claimed) == {"d1": 10, "d2": 10}


def test_forty_orders_and_three_drones_that_sweep_are_hardly_more_than_forty_nudges(site: Site) -> None:
    for name in ("d1", "d2", "d3"):
        site.drone(name, DRONE_CANARY_SECONDS="3600")
    with redis.Redis.from_url(site.redis.url) as client:
        client.config_resetstat()
        for order in [site.place("sleep 0.05") for _ in range(40)]:
            site.wait(order, OrderStatus.SUCCEEDED)
        sent = client.info("commandstats")["cmdstat_lpush"]["calls"]
    print(f"nudges of 40 orders with three drones: {sent}")
    assert 1 <= sent <= 44


@pytest.mark.parametrize("road", ["nudged", "polled"])
def test_terminating_the_task_as_flower_does_cancels_the_order(site: Site, road: str) -> None:
    worker = site.drone("d1", DRONE_POLL_SECONDS="60" if road == "nudged" else "0.05", DRONE_SWEEP_SECONDS="60")
    placed = site.store.orders.place(NewOrder(prompt="sleep 60"), by=Actor("test")).order.id
    if road == "nudged":
        site.nudger.nudge(placed)
    site.wait(placed, OrderStatus.RUNNING)
    app = make_app(RedisAt(site.redis.url), ["default"])
    app.control.revoke(placed, terminate=True)
    site.wait(placed, OrderStatus.CANCELLED)
    assert site.store.controls.of_order(placed)[0].applied_seq is not None
    site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
    assert worker.poll() is None
    app.close()


def test_a_forged_message_harms_nobody(site: Site) -> None:
    site.drone("d1")
    app = make_app(RedisAt(site.redis.url), ["default"])
    for arguments in (["no such order"], [{"a": 1}], [], ["x" * 5_000_000], [None, None]):
        app.send_task("mcc.orders.run", args=arguments, queue="default")
    app.send_task("no.such.task", args=["x"], queue="default")
    app.send_task("mcc.orders.run", args=["x"], queue="default", serializer="pickle")
    order = site.place("hello")
    for _ in range(50):
        app.send_task("mcc.orders.run", args=[order], queue="default")
    site.wait(order, OrderStatus.SUCCEEDED)
    with redis.Redis.from_url(site.redis.url) as client:
        until(lambda: client.llen(queue_keys("default")[5]) == 0, "all of it was read")
    assert site.claimed_by(order) == ["d1"]
    following = site.place("again")
    site.wait(following, OrderStatus.SUCCEEDED)
    until(lambda: site.refused() >= 7, "what nobody can use is counted")
    assert site.refused() == 7, "and nothing else is"
    app.close()


def test_a_message_for_an_unknown_order_counts_as_refused_but_not_one_for_an_ended_order(site: Site) -> None:
    site.drone("d1")
    order = site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
    for order_id in (order.id, "01900000-0000-7000-8000-000000000000", order.id):
        site.nudger.nudge(order_id)
    until(lambda: site.refused() > 0, "it is counted")
    site.wait(site.place("again"), OrderStatus.SUCCEEDED)
    assert site.refused() == 1
    assert "a message names no order of this database" in site.log("d1")


def unreadable() -> Iterator[bytes]:
    """Messages that anybody who can reach Redis might put in a queue or publish on a channel."""
    yield from (b"hello{", b"\xff\xfe\x00", b"", b"null", b"[]", b"5", b"{}", b"[" * 100_000)
    properties = {"delivery_tag": "t", "body_encoding": "base64", "delivery_info": {}}
    headers = {"task": "mcc.orders.run", "id": "m", "eta": None}
    message = {"body": "", "headers": headers, "properties": properties, "content-type": "application/json"}
    changes: tuple[dict[str, object], ...] = (
        {},
        {"body": "!!!"},
        {"body": base64.b64encode(b"{{{").decode()},
        {"body": base64.b64encode(b"5").decode()},
        {"body": base64.b64encode(b'{"args": []}').decode()},
        {"body": base64.b64encode(b"{}").decode()},
        {"body": base64.b64encode(b"[1, {}, {}]").decode()},
        {"headers": []},
        {"headers": {"task": {"a": 1}}},
        {"headers": {**headers, "eta": "garbage"}},
        {"headers": {**headers, "expires": "garbage"}},
        {"properties": [1]},
        {"properties": {**properties, "delivery_tag": {"a": [1]}}},
    )
    for changed in changes:
        yield json.dumps({**message, **changed}).encode()


def test_a_message_that_cannot_be_read_is_dropped_and_ends_no_worker(site: Site) -> None:
    worker = site.drone("d1")
    with redis.Redis.from_url(site.redis.url) as client:
        for message in unreadable():
            client.lpush(queue_keys("default")[0], message)
        until(lambda: site.refused() == len(list(unreadable())), "each of them is counted once")
        for message in unreadable():
            client.publish("mcc:/0.celery.pidbox", message)
        until(lambda: client.llen(queue_keys("default")[0]) == 0, "the queue is empty")
        order = site.wait(site.place("hello"), OrderStatus.SUCCEEDED)
        until(lambda: client.hlen("mcc:unacked") == 0, "nothing is kept for later")
    assert site.claimed_by(order.id) == ["d1"]
    assert worker.poll() is None
    assert "Unrecoverable" not in site.log("d1")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0, site.log("d1")


def test_a_redis_that_refuses_commands_ends_no_worker(site: Site) -> None:
    """As after Redis became a replica, or with a full disk."""
    worker = site.drone("d1", DRONE_POLL_SECONDS="0.2")
    queue = queue_keys("default")[0]
    with redis.Redis.from_url(site.redis.url) as client:
        client.set(queue, "a string is no list")
        until(lambda: "Frequent restarts" in site.log("d1"), "the consumer was refused")
        site.wait(site.store.orders.place(NewOrder(prompt="hello"), by=Actor("test")).order.id, OrderStatus.SUCCEEDED)
        client.delete(queue)
        site.wait(site.place("again"), OrderStatus.SUCCEEDED)
    assert worker.poll() is None
    assert "Unrecoverable" not in site.log("d1")


def test_every_nudge_can_be_lost(site: Site) -> None:
    """Redis is flushed after the order was placed: a sweep nudges again."""
    order = site.store.orders.place(NewOrder(prompt="hello"), by=Actor("test")).order
    site.drone("d1")
    site.wait(order.id, OrderStatus.SUCCEEDED)


def test_canaries_come_back_and_leave_no_queue_behind(site: Site) -> None:
    site.drone("d1", DRONE_CANARY_SECONDS="0.2", DRONE_CANARY_PATIENCE_SECONDS="3", DRONE_LOG_LEVEL="debug")
    with redis.Redis.from_url(site.redis.url) as client, client.pubsub() as heard:
        heard.psubscribe("*celeryev*")
        with client.monitor() as monitor:
            for command in monitor.listen():
                if "canary." in command["command"] and command["command"].startswith("BRPOP"):
                    break
        order = site.place("hello")
        told = list(takewhile(lambda event: event != ("task-succeeded", order), told_to_monitors(heard)))
    assert [event for event in told if event[0].startswith("task")] == [
        ("task-received", order),
        ("task-started", order),
    ], "Flower hears of the order alone"
    assert "does not consume" not in site.log("d1")


def told_to_monitors(heard: redis.client.PubSub) -> Iterator[tuple[str, str]]:
    """Type and task of each event."""
    for message in heard.listen():
        if message["type"] == "pmessage":
            body = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
            for event in body if isinstance(body, list) else [body]:
                yield event["type"], event.get("uuid", "")


def test_a_drone_that_does_not_consume_reconnects_and_then_ends_for_its_supervisor(site: Site) -> None:
    worker = site.drone("d1", DRONE_CANARY_SECONDS="3", DRONE_CANARY_PATIENCE_SECONDS="0.000001")
    assert worker.wait(90) == 1
    log = site.log("d1")
    assert log.count("Connected to") >= 2, log
    assert log.index("the consumer is restarted") < log.index("it drains and ends") < log.index("drained")


def test_redis_may_be_unreachable_at_the_start(tmp_path: Path) -> None:
    with own_redis() as server, ExitStack() as stack:
        server.stop()
        server.socket.unlink(missing_ok=True)
        site = Site(tmp_path, server, stack)
        site.drone("d1", ready=False, DRONE_POLL_SECONDS="0.2")
        order = site.store.orders.place(NewOrder(prompt="hello"), by=Actor("test")).order
        site.wait(order.id, OrderStatus.SUCCEEDED)
        server.start()
        until(lambda: " ready." in site.log("d1"), "the worker found Redis")
        site.wait(site.place("again"), OrderStatus.SUCCEEDED)


def test_a_worker_stops_in_time_while_redis_is_away(tmp_path: Path) -> None:
    with own_redis() as server, ExitStack() as stack:
        site = Site(tmp_path, server, stack)
        worker = site.drone("d1", DRONE_DRAIN_CANCEL_SECONDS="0.2", DRONE_DRAIN_HAND_BACK_SECONDS="2")
        order = site.place("sleep 60")
        site.wait(order, OrderStatus.RUNNING)
        server.stop()
        worker.send_signal(signal.SIGTERM)
        worker.wait(15)
        assert site.get(order).status is OrderStatus.QUEUED


def test_a_database_without_a_schema_is_exit_code_3_and_a_sentence(site: Site, tmp_path: Path) -> None:
    worker = site.drone("d1", ready=False, MCC_DATABASE_URL=f"sqlite:///{tmp_path / 'empty.db'}")
    assert worker.wait(60) == 3
    assert "mcc db upgrade" in site.log("d1")
    assert "Traceback" not in site.log("d1")


def test_the_command_lines_of_celery_find_the_app(site: Site) -> None:
    celery = Path(sys.executable).parent / "celery"
    worker = site.drone("d1", str(celery), "-A", "drone.worker.app", "worker", "-c", "3", "-n", "other@here")
    (drone,) = site.store.leases.drones()
    assert (drone.status, drone.slots, drone.queues) == (DroneStatus.UP, 3, ("default",))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(15) == 0, site.log("d1")


def test_importing_the_app_reads_no_settings_and_opens_nothing() -> None:
    code = "import sys, drone.worker.app; print('sqlalchemy' in sys.modules, drone.worker.app.app.configured)"
    environment = {**os.environ, "MCC_CONFIG": "/there/is/no/such/file.toml"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["False", "False"], "")


def test_each_step_of_priority_has_a_list_of_its_own(site: Site) -> None:
    for priority in range(10):
        order = site.store.orders.place(NewOrder(prompt="p", priority=priority), by=Actor("test")).order
        site.nudger.nudge(order.id, priority=priority)
    with redis.Redis.from_url(site.redis.url) as client:
        assert [client.llen(key) for key in queue_keys("default")] == [1] * 10
    assert site.nudger.lengths() == {"default": 10}
