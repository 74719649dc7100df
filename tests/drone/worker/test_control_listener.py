import asyncio

import pytest
import redis.asyncio

from drone.worker.control_listener import ControlListener
from drone.worker.keeper import Keeper
from mcc.contracts.callers import Actor
from mcc.contracts.control import ControlKind, NewControl
from mcc.contracts.status import OrderStatus
from mcc.contracts.wire import Wake
from mcc.dispatch.broker import RedisAt
from mcc.dispatch.publisher import Publisher
from tests.drone.worker.bench_of_orders import Bench
from tests.drone.worker.real_redis import SERVER, WHY_NOT, RealRedis, own_redis

NEVER = 3_600.0


def listener(bench: Bench, url: str, poll_seconds: float) -> ControlListener:
    return ControlListener(bench.async_store, RedisAt(url), bench.trust, bench.executions, poll_seconds=poll_seconds)


async def cancelled_with(bench: Bench, control: ControlListener, url: str) -> OrderStatus:
    listening = asyncio.create_task(control.run())
    order = bench.place("sleep 60")
    working = asyncio.create_task(bench.runner.work(order.id))
    await bench.crew.began.wait()
    placed = bench.store.controls.request(order.id, ControlKind.CANCEL, NewControl(), by=Actor("test"))
    publisher = Publisher(RedisAt(url))
    while not working.done():
        publisher.wake(bench.trust.incarnation or "", Wake(order_id=order.id, control_seq=placed.number))
        await asyncio.wait({working}, timeout=0.05)
    publisher.close()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    return bench.store.orders.get(order.id).status


async def test_a_message_on_redis_brings_the_control_at_once(real_redis: RealRedis) -> None:
    async with Bench() as bench:
        control = listener(bench, real_redis.url, NEVER)
        async with asyncio.timeout(10):
            assert await cancelled_with(bench, control, real_redis.url) is OrderStatus.CANCELLED


async def test_a_control_is_found_without_redis() -> None:
    nowhere = "redis://127.0.0.1:1/0"
    async with Bench() as bench:
        control = listener(bench, nowhere, 0.02)
        async with asyncio.timeout(10):
            assert await cancelled_with(bench, control, nowhere) is OrderStatus.CANCELLED
        assert not control.connected


async def test_an_error_while_listening_does_not_stop_polling() -> None:
    class Odd(Keeper):
        def __init__(self) -> None:
            """Keeps nothing."""

        @property
        def incarnation(self) -> str | None:
            raise RuntimeError("pubsub connection not set")

    nowhere = "redis://127.0.0.1:1/0"
    async with Bench() as bench:
        control = ControlListener(bench.async_store, RedisAt(nowhere), Odd(), bench.executions, poll_seconds=0.02)
        async with asyncio.timeout(10):
            assert await cancelled_with(bench, control, nowhere) is OrderStatus.CANCELLED


@pytest.mark.skipif(SERVER is None, reason=WHY_NOT)
async def test_a_redis_that_comes_back_is_listened_to_again() -> None:
    with own_redis() as server:
        async with Bench() as bench:
            control = listener(bench, server.url, NEVER)
            listening = asyncio.create_task(control.run())
            async with asyncio.timeout(20):
                await until(lambda: control.connected)
                server.stop()
                await until(lambda: not control.connected)
                server.start()
                await until(lambda: control.connected)
                await heard_by(server, bench)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def until(condition: object) -> None:
    while not condition():  # type: ignore[operator]  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def heard_by(server: RealRedis, bench: Bench) -> None:
    async with redis.asyncio.Redis.from_url(server.url) as client:
        assert await client.publish(f"mcc:control:{bench.trust.incarnation}", b"{}") == 1
