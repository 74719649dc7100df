"""Retries and fallbacks, with a clock that moves only during sleeps."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from drone.agent.ports.model import (
    Ask,
    AskLater,
    BadReply,
    Listener,
    Model,
    ModelError,
    Reply,
)
from drone.models.retry import COOLDOWN_SECONDS, Fallback, Retrying, RetryPolicy
from drone.models.scripted import Line, Said, ScriptedModel, call
from mcc.contracts.usage import Usage

BUSY = ModelError("It is busy.", retryable=True, status=529)
WRONG = ModelError("It is wrong.", status=400)


@dataclass
class Clock:
    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class DelayedModel:
    """Delays every reply of the wrapped model."""

    model: ScriptedModel
    clock: Clock
    seconds: float

    @property
    def name(self) -> str:
        return self.model.name

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        self.clock.now += self.seconds
        return await self.model.ask(ask, listener)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def retrying(model: Model, clock: Clock, **more: Any) -> Retrying:
    return Retrying(model, clock=clock, sleep=clock.sleep, jitter=lambda: 1.0, **more)


def scripted(*script: Said) -> ScriptedModel:
    return ScriptedModel(script)


async def test_a_good_reply_is_given_at_once(bench: Any, clock: Clock) -> None:
    assert (await retrying(scripted("Hi"), clock).ask(bench.asking(), bench.listener)).text == "Hi"
    assert clock.slept == [] and bench.listener.retries == []


async def test_the_listener_hears_of_every_failed_try_and_its_wait(bench: Any, clock: Clock) -> None:
    reply = await retrying(scripted(BUSY, BUSY, BUSY, "Hi"), clock).ask(bench.asking(), bench.listener)
    assert reply.text == "Hi"
    assert bench.listener.retries == [("It is busy.", 0.5), ("It is busy.", 1.0), ("It is busy.", 2.0)]
    assert clock.slept == [0.5, 1.0, 2.0]


async def test_a_busy_provider_is_retried_for_five_minutes_and_then_put_off(bench: Any, clock: Clock) -> None:
    model = scripted(*[BUSY] * 30)
    error = await bench.refused(retrying(model, clock))
    assert isinstance(error, AskLater) and not error.named
    assert (error.status, error.seconds) == (529, 60.0)
    assert 270.0 < sum(clock.slept) <= 300.0 and len(model.asks) == 15
    assert str(error) == "It is busy. (tried 15 times) It is asked again in about 60 s."
    assert str(error.as_final("")) == "It is busy. (tried 15 times)"


async def test_the_time_of_the_tries_counts_and_runs_from_the_first_failure(bench: Any, clock: Clock) -> None:
    model = DelayedModel(scripted(*[BUSY] * 30), clock, 100.0)
    await bench.refused(retrying(model, clock))
    assert len(model.model.asks) == 4


async def test_after_a_pause_a_question_is_retried_for_half_a_minute(bench: Any, clock: Clock) -> None:
    model = scripted(*[BUSY] * 30)
    error = await bench.refused(retrying(model, clock), bench.asking(waited_seconds=60.0))
    assert isinstance(error, AskLater) and error.seconds == 120.0
    assert sum(clock.slept) <= 30.0 and len(model.asks) == 6


def test_pauses_double_up_to_a_quarter_of_an_hour_and_jitter_only_shortens_them(bench: Any) -> None:
    patience = RetryPolicy()
    pauses = [patience.pause(bench.asking(waited_seconds=waited), 1.0) for waited in (0.0, 60.0, 400.0, 800.0)]
    assert pauses == [60.0, 120.0, 800.0, 900.0]
    assert patience.pause(bench.asking(), 0.0) == 45.0


async def test_bad_replies_are_retried_up_to_four_times(bench: Any, clock: Clock) -> None:
    model = scripted(*[BadReply("It goes round in circles.")] * 10)
    error = await bench.refused(retrying(model, clock))
    assert str(error) == "It goes round in circles. (tried 4 times)"
    assert (isinstance(error, AskLater), len(model.asks)) == (False, 4)


async def test_an_error_that_is_no_models_comes_as_it_is_and_is_not_retried(bench: Any, clock: Clock) -> None:
    def broken(ask: Ask) -> Said:
        raise LookupError("a fault of ours")

    model = ScriptedModel(broken)
    with pytest.raises(LookupError, match="a fault of ours"):
        await retrying(model, clock).ask(bench.asking(), bench.listener)
    assert (clock.slept, len(model.asks)) == ([], 1)


async def test_a_permanent_error_is_not_retried(bench: Any, clock: Clock) -> None:
    model = scripted(WRONG, "never said")
    assert await bench.refused(retrying(model, clock)) is not None
    assert len(model.asks) == 1 and clock.slept == []


def test_waits_double_up_to_their_cap_and_jitter_only_shortens_them() -> None:
    patience = RetryPolicy()
    waits = [patience.wait(tried, BUSY, 1.0) for tried in range(1, 2_000)]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == 30.0
    assert patience.wait(3, BUSY, 0.0) == 1.0


@pytest.mark.parametrize(("seconds", "waited"), [(0.0, 0.0), (3.0, 3.3), (120.0, 125.0)])
async def test_the_provider_s_own_wait_is_kept_and_spread(
    bench: Any, clock: Clock, seconds: float, waited: float
) -> None:
    limited = ModelError("Slow down.", retryable=True, status=429, retry_after=seconds)
    await retrying(scripted(limited, "Hi"), clock).ask(bench.asking(seconds=600.0), bench.listener)
    assert clock.slept == [waited]


async def test_a_provider_that_says_at_once_for_ever_is_not_asked_without_a_pause(bench: Any, clock: Clock) -> None:
    model = scripted(*[ModelError("Now.", retryable=True, status=429, retry_after=0.0)] * 30)
    error = await bench.refused(retrying(model, clock))
    assert isinstance(error, AskLater) and (error.named, error.seconds) == (True, 60.0)
    assert len(model.asks) < 20


async def test_a_wait_of_more_than_five_minutes_is_not_waited_for_here(bench: Any, clock: Clock) -> None:
    limited = ModelError("Tomorrow.", retryable=True, status=429, retry_after=86_400.0)
    error = await bench.refused(retrying(scripted(limited, "Hi"), clock), bench.asking(seconds=100_000.0))
    assert (error.retry_after, error.retryable, clock.slept) == (86_400.0, True, [])
    assert isinstance(error, AskLater) and (error.named, error.seconds) == (True, 86_400.0)
    assert str(error) == "Tomorrow. It wants to be asked again in 86400 s."


async def test_no_wait_reaches_past_the_deadline(bench: Any, clock: Clock) -> None:
    limited = ModelError("Slow down.", retryable=True, retry_after=60.0)
    error = await bench.refused(retrying(scripted(limited, "Hi"), clock), bench.asking(seconds=59.0))
    assert clock.slept == [] and isinstance(error, AskLater)


async def test_a_permanent_error_is_not_put_off_even_with_a_retry_time(bench: Any, clock: Clock) -> None:
    wrong = ModelError("No.", status=400, retry_after=3600.0)
    assert await bench.refused(retrying(scripted(wrong), clock)) is wrong


async def test_every_try_gets_the_remaining_time(bench: Any, clock: Clock) -> None:
    model = scripted(BUSY, BUSY, "Hi")
    await retrying(DelayedModel(model, clock, 10.0), clock).ask(bench.asking(seconds=60.0), bench.listener)
    assert [ask.seconds for ask in model.asks] == [60.0, 49.5, 38.5]


async def test_no_try_begins_after_the_deadline(bench: Any, clock: Clock) -> None:
    model = scripted(*[BUSY] * 4)
    await bench.refused(retrying(DelayedModel(model, clock, 25.0), clock), bench.asking(seconds=60.0))
    assert len(model.asks) == 3


async def test_a_cancelled_wait_ends_at_once(bench: Any, clock: Clock) -> None:
    async def cancelled(seconds: float) -> None:
        raise asyncio.CancelledError

    model = scripted(BUSY, "Hi")
    with pytest.raises(asyncio.CancelledError):
        await Retrying(model, clock=clock, sleep=cancelled).ask(bench.asking(), bench.listener)
    assert len(model.asks) == 1


def cut_off(tokens: int = 100) -> Line:
    return Line(finish_reason="length", usage=Usage(input_tokens=10, output_tokens=tokens, model_calls=1))


async def test_a_reply_that_ran_out_before_its_first_word_is_retried_with_twice_the_room(
    bench: Any, clock: Clock
) -> None:
    model = scripted(cut_off(), Line("Hi", usage=Usage(input_tokens=10, output_tokens=5, model_calls=1)))
    reply = await retrying(model, clock).ask(bench.asking(max_output_tokens=3000), bench.listener)
    assert (reply.text, model.asks[1].max_output_tokens) == ("Hi", 6000)
    usage = bench.listener.bill.with_reply(reply.usage)
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (20, 105, 2)
    assert len(bench.listener.retries) == 1


@pytest.mark.parametrize("second", [cut_off(), WRONG])
async def test_twice_the_room_is_given_once(bench: Any, clock: Clock, second: Said) -> None:
    model = scripted(cut_off(), second, "never said")
    reply = await retrying(model, clock).ask(bench.asking(), bench.listener)
    assert (reply.text, reply.finish_reason, len(model.asks)) == ("", "length", 2)


@pytest.mark.parametrize(
    "line",
    [Line("half a", finish_reason="length"), Line(calls=(call("read"),), finish_reason="length"), Line("")],
    ids=["text", "a call", "not cut off"],
)
async def test_a_reply_that_said_something_stands(bench: Any, clock: Clock, line: Line) -> None:
    model = scripted(line)
    await retrying(model, clock).ask(bench.asking(), bench.listener)
    assert len(model.asks) == 1


def pair(clock: Clock, first: Iterable[Said], second: Iterable[Said]) -> tuple[Fallback, ScriptedModel, ScriptedModel]:
    one, two = ScriptedModel(first, name="a/one"), ScriptedModel(second, name="b/two")
    return Fallback([one, two], clock=clock), one, two


async def test_the_next_model_is_asked_when_the_first_fails(bench: Any, clock: Clock) -> None:
    model, _, _ = pair(clock, [WRONG], ["Hi"])
    reply = await model.ask(bench.asking(), bench.listener)
    assert (reply.text, reply.model, model.name) == ("Hi", "b/two", "a/one")
    assert bench.listener.fallbacks == [("a/one", "b/two", "It is wrong.")]


async def test_the_error_of_the_last_model_stands(bench: Any, clock: Clock) -> None:
    model, _, _ = pair(clock, [WRONG], [BUSY])
    assert await bench.refused(model) is BUSY


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (AskLater("In an hour.", 3600), WRONG),
        (AskLater("Tomorrow.", 86_400), AskLater("In an hour.", 3600)),
        (WRONG, AskLater("In an hour.", 3600)),
    ],
)
async def test_the_soonest_retry_time_of_all_models_is_raised(
    bench: Any, clock: Clock, first: Said, second: Said
) -> None:
    model, _, _ = pair(clock, [first], [second])
    assert str(await bench.refused(model)) == "In an hour."


async def test_a_fallback_answers_for_a_model_that_wants_to_be_asked_later(bench: Any, clock: Clock) -> None:
    model, _, _ = pair(clock, [AskLater("In an hour.", 3600)], ["Hi"])
    assert (await model.ask(bench.asking(), bench.listener)).text == "Hi"


async def test_the_reason_for_a_fallback_leaves_out_the_retry_time(bench: Any, clock: Clock) -> None:
    later = AskLater("It is busy.", 60.0, named=False, when="It is asked again in about 60 s.")
    model, _, _ = pair(clock, [later], ["Hi", "Hi"])
    for _ in range(2):
        await model.ask(bench.asking(), bench.listener)
    assert bench.listener.fallbacks == [("a/one", "b/two", "It is busy.")] * 2


async def test_a_failed_model_is_skipped_for_a_while(bench: Any, clock: Clock) -> None:
    model, one, two = pair(clock, [BUSY, "One"], ["Two", "Two"])
    for _ in range(2):
        assert (await model.ask(bench.asking(), bench.listener)).text == "Two"
    assert (len(one.asks), len(two.asks), len(bench.listener.fallbacks)) == (1, 2, 2)
    clock.now += COOLDOWN_SECONDS
    assert (await model.ask(bench.asking(), bench.listener)).text == "One"


async def test_a_refused_request_says_nothing_about_the_next_one(bench: Any, clock: Clock) -> None:
    model, _, _ = pair(clock, [WRONG, "One"], ["Two"])
    assert (await model.ask(bench.asking(), bench.listener)).text == "Two"
    assert (await model.ask(bench.asking(), bench.listener)).text == "One"


async def test_the_fallback_gets_the_remaining_time(bench: Any, clock: Clock) -> None:
    two = ScriptedModel(["Hi"], name="b/two")
    slow = DelayedModel(ScriptedModel([BUSY], name="a/one"), clock, 40.0)
    await Fallback([slow, two], clock=clock).ask(bench.asking(seconds=60.0), bench.listener)
    assert two.asks[0].seconds == pytest.approx(20.0)


async def test_no_fallback_begins_when_the_time_is_over(bench: Any, clock: Clock) -> None:
    two = ScriptedModel(["Hi"], name="b/two")
    slow = DelayedModel(ScriptedModel([BUSY], name="a/one"), clock, 59.5)
    assert await bench.refused(Fallback([slow, two], clock=clock), bench.asking(seconds=60.0)) is BUSY
    assert two.asks == [] and bench.listener.fallbacks == []
