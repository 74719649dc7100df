"""Retries, waits and fallbacks as recorded in the journal of a real run."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.ports.report import Cause, Report
from drone.models.prices import TokenPrices
from drone.models.retry import Fallback, Retrying, RetryPolicy
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import fresh_id
from mcc.contracts.limits import Limits
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried, ModelStarted
from mcc.contracts.record import RecordStatus

BUSY = {"error": {"type": "overloaded_error", "message": "Too many of you."}}
PRICE = TokenPrices(input=1.0, output=10.0)


class Clock:
    """A clock that moves only during sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def patient(model: Model, clock: Clock, seconds: float = 300.0) -> Retrying:
    return Retrying(model, policy=RetryPolicy(seconds), clock=clock, sleep=clock.sleep, jitter=lambda: 1.0)


def answer(status: int, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=BUSY, headers={name.replace("_", "-"): value for name, value in headers.items()})


async def run(model: Model, *, seconds: float = 600.0) -> tuple[Report, MemoryJournal]:
    journal = MemoryJournal(fresh_id())
    limits = Limits(wall_seconds=seconds)
    agent = AgentRuntime(AgentDefinition(name="worker", prompt="Work."), model=model, limits=limits)
    return await agent.run("Say hello.", agent.turn(journal)), journal


def ladder(journal: MemoryJournal) -> Sequence[tuple[object, ...]]:
    """The journal entries about the single model call, in brief."""
    told: list[tuple[object, ...]] = []
    for entry in journal.entries:
        match entry.data:
            case ModelStarted(attempt=attempt, model=model):
                told.append(("started", attempt, model))
            case ModelRetried(attempt=attempt, model=model, wait_seconds=wait):
                told.append(("retried", attempt, model, wait))
            case ModelFellBack(source=source, target=target):
                told.append(("fell back", source, target))
            case ModelReplied(attempt=attempt, model=model):
                told.append(("replied", attempt, model))
    return told


def hello(bench: Any) -> httpx.Response:
    usage = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}
    response: httpx.Response = bench.streamed(bench.sse(bench.chunk(content="Hello"), bench.chunk("stop"), usage))
    return response


async def test_every_try_and_every_wait_is_in_the_journal(bench: Any, clock: Clock) -> None:
    model = bench.openai(bench.Provider(answer(529), answer(500), answer(429), hello(bench)))
    report, journal = await run(patient(model, clock))
    assert (report.status, report.text) == (RecordStatus.COMPLETED, "Hello")
    assert ladder(journal) == [
        ("started", 1, "openai/m"),
        ("retried", 1, "openai/m", 0.5),
        ("started", 2, "openai/m"),
        ("retried", 2, "openai/m", 1.0),
        ("started", 3, "openai/m"),
        ("retried", 3, "openai/m", 2.0),
        ("started", 4, "openai/m"),
        ("replied", 4, "openai/m"),
    ]
    assert clock.slept == [0.5, 1.0, 2.0]
    record = journal.fold.record()
    assert record is not None
    assert [step.name for step in record.steps if step.kind == "note"] == ["model.retried"] * 3


async def test_a_wait_that_the_provider_names_is_kept_up_to_five_minutes(bench: Any, clock: Clock) -> None:
    model = bench.openai(bench.Provider(answer(429, retry_after="290"), hello(bench)))
    _, journal = await run(patient(model, clock))
    assert ("retried", 1, "openai/m", 295.0) in ladder(journal)

    model = bench.openai(bench.Provider(answer(429, retry_after="300"), hello(bench)))
    report, journal = await run(patient(model, clock))
    assert (report.cause, ladder(journal)) == (Cause.MODEL, [("started", 1, "openai/m")])


async def test_after_its_time_the_next_model_answers_and_is_the_effective_one(bench: Any, clock: Clock) -> None:
    first = patient(bench.openai(bench.Provider(answer(529)), name="a/one"), clock, 10.0)
    second = patient(bench.openai(bench.Provider(hello(bench)), name="b/two"), clock)
    report, journal = await run(Fallback([first, second], clock=clock))
    assert report.completed
    assert ladder(journal)[-5:] == [
        ("retried", 4, "a/one", 4.0),
        ("started", 5, "a/one"),
        ("fell back", "a/one", "b/two"),
        ("started", 6, "b/two"),
        ("replied", 6, "b/two"),
    ]
    record = journal.fold.record()
    assert record is not None and record.model is not None
    assert (record.model.requested, record.model.effective) == ("a/one", "b/two")


async def test_models_are_asked_in_order_and_the_last_error_is_raised(bench: Any, clock: Clock) -> None:
    names = ["a/one", "b/two", "c/three"]
    models = [patient(bench.openai(bench.Provider(answer(400)), name=name), clock) for name in names]
    report, journal = await run(Fallback(models, clock=clock))
    assert report.cause is Cause.MODEL and "c/three" in str(report.error)
    assert [told[2] for told in ladder(journal) if told[0] == "started"] == names


async def test_no_try_begins_after_the_time_of_the_agent(bench: Any, clock: Clock) -> None:
    provider = bench.Provider(answer(429, retry_after="8"))
    report, _ = await run(patient(bench.openai(provider), clock), seconds=20.0)
    assert report.cause is Cause.MODEL
    assert (len(provider.requests), clock.slept) == (3, [8.8, 8.8])


async def test_a_reply_cut_off_before_its_first_word_is_retried_with_twice_the_room(bench: Any, clock: Clock) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 2000}}
    silent = bench.streamed(bench.sse(bench.chunk(reasoning="Hm"), bench.chunk("length"), usage))
    provider = bench.Provider(silent, hello(bench))
    report, journal = await run(patient(bench.openai(provider, price=PRICE), clock))
    assert provider.body["max_tokens"] == 4000
    assert ladder(journal) == [
        ("started", 1, "openai/m"),
        ("retried", 1, "openai/m", 0.0),
        ("started", 2, "openai/m"),
        ("replied", 2, "openai/m"),
    ]
    assert (report.usage.input_tokens, report.usage.output_tokens, report.usage.model_calls) == (200, 2010, 2)


def half_a_message(bench: Any) -> httpx.Response:
    usage = {"input_tokens": 50, "cache_read_input_tokens": 30, "output_tokens": 1}
    start = {"type": "message_start", "message": {"content": [], "usage": usage}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hel"}}
    response: httpx.Response = bench.streamed(bench.named_sse(start, block), error=httpx.ReadError("gone"))
    return response


def whole_message(bench: Any) -> httpx.Response:
    usage = {"input_tokens": 80, "output_tokens": 4}
    return httpx.Response(
        200,
        json={"content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn", "usage": usage},
    )


async def test_the_cost_of_a_broken_reply_is_charged_with_the_next_one(bench: Any, clock: Clock) -> None:
    provider = bench.Provider(half_a_message(bench), whole_message(bench))
    report, journal = await run(patient(bench.anthropic(provider, price=PRICE), clock))
    usage = report.usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.model_calls) == (160, 30, 5, 2)
    assert usage.cost_usd == pytest.approx((160 * 1.0 + 5 * 10.0) / 1e6)
    record = journal.fold.record()
    assert record is not None and record.usage == usage


async def test_the_cost_of_a_broken_reply_is_charged_across_a_fallback(bench: Any, clock: Clock) -> None:
    broken = bench.anthropic(bench.Provider(half_a_message(bench)), name="a/one")
    report, _ = await run(Fallback([broken, bench.openai(bench.Provider(hello(bench)), name="b/two")], clock=clock))
    assert (report.usage.input_tokens, report.usage.output_tokens, report.usage.model_calls) == (180, 11, 2)


async def test_the_listener_hears_the_cost_of_all_tries(bench: Any, clock: Clock) -> None:
    answers = [half_a_message(bench) for _ in range(4)]
    await bench.refused(patient(bench.anthropic(bench.Provider(*answers)), clock, 5.0))
    assert (bench.listener.bill.usage.input_tokens, bench.listener.bill.usage.model_calls) == (320, 4)


async def test_a_try_without_any_output_costs_nothing(bench: Any, clock: Clock) -> None:
    cut = bench.streamed(b": ping\n\n", error=httpx.ReadError("gone"))
    report, _ = await run(patient(bench.openai(bench.Provider(cut, hello(bench))), clock))
    assert (report.usage.input_tokens, report.usage.model_calls) == (100, 1)


async def test_output_before_a_stream_broke_is_charged_by_its_length(bench: Any, clock: Clock) -> None:
    cut = bench.streamed(bench.sse(bench.chunk(content="word " * 800)), error=httpx.ReadError("gone"))
    report, _ = await run(patient(bench.openai(bench.Provider(cut, hello(bench))), clock))
    assert (report.usage.output_tokens, report.usage.model_calls) == (1_000 + 10, 2)
    assert report.usage.input_tokens > 100


async def test_tokens_reported_at_the_beginning_of_a_broken_stream_are_not_its_total(bench: Any) -> None:
    start = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 50, "output_tokens": 1}}}
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "word " * 800}}
    broken = bench.streamed(bench.named_sse(start, block), error=httpx.ReadError("gone"))
    await bench.refused(bench.anthropic(bench.Provider(broken)))
    usage = bench.listener.bill.usage
    assert (usage.input_tokens, usage.output_tokens) == (50, 1_000)
