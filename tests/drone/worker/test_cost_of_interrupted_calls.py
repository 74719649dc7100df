"""A model call that is interrupted is charged for the part received, however the order leaves its drone."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx

from drone.agent.state.tree import Tree
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.dialects.anthropic import anthropic_model
from drone.models.prices import TokenPrices
from drone.models.remote import ModelEndpoint
from drone.models.retry import Fallback, Retrying, RetryPolicy
from drone.settings import Settings
from drone.worker.executions import Stop
from mcc.contracts.order import WorkOrder
from mcc.contracts.status import OrderStatus
from mcc.contracts.usage import Usage
from tests.drone.models.conftest import Provider, named_sse
from tests.drone.models.loopback import Loopback
from tests.drone.worker.bench_of_orders import Bench
from tests.parity.world import OneModel

BEGUN = named_sse(
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 50, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "word " * 40}},
)
WHOLE = named_sse(
    {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 60, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Done."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)
ONE = Usage(input_tokens=50, output_tokens=50, model_calls=1, cost_usd=0.0006)
"""Tokens of a reply of 200 characters that was cut off, by the provider's count and by its length."""


class Endless(httpx.AsyncByteStream):
    """Begins a reply and never ends it; sets `began` once all of it has been read."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.began = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        self.began.set()
        await asyncio.Event().wait()


def stream(body: Endless | bytes) -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    return (
        httpx.Response(200, headers=headers, content=body)
        if isinstance(body, bytes)
        else httpx.Response(200, headers=headers, stream=body)
    )


def asked(*answers: httpx.Response) -> Any:
    endpoint = ModelEndpoint("a/m", "m", "https://models.test", key="k" * 12, price=TokenPrices(2.0, 10.0))
    return anthropic_model(endpoint, Loopback(Provider(*answers)))


def drone_with(model: Any) -> Bench:
    settings = Settings()
    models: Any = OneModel(model)
    return Bench(crew=Crew(settings, Definitions.load(settings.prompts_dir), models))


def spent(bench: Bench, order: WorkOrder) -> Usage:
    fold = bench.fold(order.id)
    record = fold.record()
    assert record is not None and record.usage_total == fold.spent
    return fold.spent


async def test_an_order_cancelled_during_a_reply_is_charged_for_the_part_received() -> None:
    body = Endless(BEGUN)
    async with drone_with(asked(stream(body))) as bench:
        order = bench.place("go")
        working = asyncio.create_task(bench.runner.work(order.id))
        await body.began.wait()
        for run in bench.executions:
            run.halt(Stop.CANCEL)
        await working
        ended = bench.store.orders.get(order.id)
        assert (ended.status, ended.usage) == (OrderStatus.CANCELLED, ONE)
        assert spent(bench, order) == ONE


async def test_an_order_that_ran_out_of_time_is_charged_for_the_part_received() -> None:
    body = Endless(BEGUN)
    async with drone_with(asked(stream(body))) as bench:
        order = bench.place("go", limits={"wall_seconds": 1})
        await bench.runner.work(order.id)
        assert spent(bench, order) == ONE == bench.store.orders.get(order.id).usage


async def test_earlier_tries_and_a_fallback_count_too() -> None:
    body = Endless(BEGUN)
    broken = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=BEGUN)
    first = Retrying(asked(broken), policy=RetryPolicy(retry_seconds=0.0))
    model = Fallback([first, asked(stream(body))])
    async with drone_with(model) as bench:
        order = bench.place("go")
        working = asyncio.create_task(bench.runner.work(order.id))
        await body.began.wait()
        for run in bench.executions:
            run.halt(Stop.CANCEL)
        await working
        assert spent(bench, order) == ONE.plus(ONE)


async def test_a_call_without_any_reply_is_not_charged() -> None:
    body = Endless(b": ping\n\n")
    async with drone_with(asked(stream(body))) as bench:
        order = bench.place("go")
        working = asyncio.create_task(bench.runner.work(order.id))
        await body.began.wait()
        for run in bench.executions:
            run.halt(Stop.CANCEL)
        await working
        assert spent(bench, order) == Usage()


async def test_a_drone_that_resumes_a_handed_back_order_knows_what_was_spent() -> None:
    body = Endless(BEGUN)
    async with drone_with(asked(stream(body), stream(WHOLE))) as bench:
        order = bench.place("go")
        working = asyncio.create_task(bench.runner.work(order.id))
        await body.began.wait()
        for run in bench.executions:
            run.halt(Stop.HAND_BACK)
        await working
        held = [(claim.order.id, claim.epoch) for claim in bench.executions.to_hand_back()]
        bench.store.claims.hand_back(held, drone="d1", message="bye")
        assert bench.fold(order.id).spent == Tree.of(bench.journal(order.id)).spent == ONE
        await bench.runner.work(order.id)
        ended = bench.store.orders.get(order.id)
        assert ended.status is OrderStatus.SUCCEEDED
        assert ended.usage == ONE.plus(Usage(input_tokens=60, output_tokens=4, model_calls=1, cost_usd=0.00016))


async def test_a_drone_that_lost_the_order_writes_nothing() -> None:
    body = Endless(BEGUN)
    async with drone_with(asked(stream(body))) as bench:
        order = bench.place("go")
        working = asyncio.create_task(bench.runner.work(order.id))
        await body.began.wait()
        before = bench.kinds(order.id)
        for run in bench.executions:
            run.halt(Stop.FENCED)
        await working
        assert bench.kinds(order.id) == before
