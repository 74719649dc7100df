"""Replies that repeat themselves endlessly are cut off while streaming and retried."""

import random
import string
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from drone.agent.agent import AgentRuntime
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import ModelError
from drone.agent.ports.report import Cause
from drone.models.guards import CHECK_EVERY, FEWEST_TIMES, LONGEST_UNIT, SHORTEST_STRETCH, LoopGuard, repeated
from drone.models.registry import Models
from drone.models.retry import Fallback, Retrying, RetryPolicy
from drone.models.scripted import Line, ScriptedModel
from drone.settings import ModelConfig, Settings
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.ids import fresh_id
from mcc.contracts.model_facts import ModelFellBack, ModelReplied, ModelRetried
from tests.drone.models.loopback import Loopback

WAIT = "Wait, let me check that again. "


def prose(characters: int, seed: int = 1) -> str:
    """Words without repetition."""
    chance = random.Random(seed)
    words = ("".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9))) for _ in range(characters))
    return " ".join(words)[:characters]


def pieces(text: str, size: int = 7) -> tuple[str, ...]:
    return tuple(text[start : start + size] for start in range(0, len(text), size))


def looping(bench: Any, unit: str = WAIT, kind: str = "content") -> httpx.Response:
    """A stream that never ends by itself."""
    endless = (bench.sse(bench.chunk(**{kind: unit})) for _ in range(100_000))
    body = bench.Pieces(endless)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=body)


def answered(bench: Any, text: str) -> httpx.Response:
    response: httpx.Response = bench.streamed(bench.sse(bench.chunk(content=text), bench.chunk("stop"), "[DONE]"))
    return response


@given(
    st.text(min_size=1, max_size=LONGEST_UNIT), st.integers(0, LONGEST_UNIT), st.text(max_size=50), st.integers(0, 300)
)
def test_text_that_ends_in_a_repeated_unit_is_found(unit: str, part: int, before: str, more: int) -> None:
    times = max(FEWEST_TIMES, SHORTEST_STRETCH // len(unit)) + 2 + more // len(unit)
    found = repeated(before + unit * times + unit[:part])
    assert 0 < found <= len(unit)


@given(st.text(min_size=1, max_size=LONGEST_UNIT))
def test_the_same_fewer_times_is_not(unit: str) -> None:
    text = prose(SHORTEST_STRETCH) + "¶" + unit * ((SHORTEST_STRETCH - LONGEST_UNIT) // len(unit))
    assert repeated(text) == 0


@pytest.mark.parametrize("seed", range(5))
def test_prose_lists_tables_and_rules_are_not_repetition(seed: int) -> None:
    text = prose(20_000, seed)
    numbered = "".join(f"{number}. The same words every time.\n" for number in range(1_000))
    assert [repeated(one) for one in (text, numbered, text + "-" * 3_000, text + "| 0 | 0 |\n" * 300)] == [0] * 4


@pytest.mark.parametrize("kind", ["text", "thinking"])
async def test_a_guarded_model_stops_soon_after_the_circle_is_long_enough(bench: Any, kind: str) -> None:
    text = prose(5_000) + WAIT * 5_000
    line = Line(pieces=pieces(text)) if kind == "text" else Line(thinking=text)
    error = await bench.refused(LoopGuard(ScriptedModel([line])))
    assert error.retryable
    assert str(error) == "scripted/model said the same 31 characters over and over; it was cut off."
    if kind == "text":
        assert len(bench.listener.heard()) < 5_000 + SHORTEST_STRETCH + LONGEST_UNIT + 2 * CHECK_EVERY


async def test_a_long_reply_passes_untouched_and_so_does_its_listener(bench: Any) -> None:
    text = prose(50_000)
    reply = await LoopGuard(ScriptedModel([Line(text, pieces=pieces(text))])).ask(bench.asking(), bench.listener)
    assert reply.text == bench.listener.heard() == text


async def test_text_and_thinking_are_watched_apart_and_every_ask_begins_anew(bench: Any) -> None:
    half = WAIT * (SHORTEST_STRETCH // len(WAIT) - 20)
    lines = [Line(half, thinking=half, pieces=pieces(half)) for _ in range(3)]
    model = LoopGuard(ScriptedModel(lines))
    for _ in range(3):
        assert (await model.ask(bench.asking(), bench.listener)).text == half


@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
async def test_an_endless_stream_is_cut_off_and_the_journal_says_that_it_was_asked_for_again(
    bench: Any, kind: str
) -> None:
    provider = bench.Provider(looping(bench, kind=kind), answered(bench, "Hello."))
    config = ModelConfig(provider="openai", model="m", base_url="https://models.test/v1", api_key_env="KEY")
    models = Models(Settings(models={"fast": config}, keys={"KEY": SecretStr("x")}), wire=Loopback(provider))
    journal = MemoryJournal(fresh_id())
    agent = AgentRuntime(AgentDefinition(name="worker", prompt="Work."), model=models.get("fast"))
    report = await agent.run("Say hello.", agent.turn(journal))
    assert report.text == "Hello."
    (retried,) = [entry.data for entry in journal.entries if isinstance(entry.data, ModelRetried)]
    assert (retried.attempt, "over and over" in retried.error) == (1, True)
    (replied,) = [entry.data for entry in journal.entries if isinstance(entry.data, ModelReplied)]
    assert (replied.attempt, replied.text) == (2, "Hello.")
    assert len(provider.requests) == 2


async def _at_once(_: float) -> None:
    return None


async def test_a_model_that_never_stops_repeating_itself_gives_way_to_the_next(bench: Any) -> None:
    looped = LoopGuard(bench.openai(bench.Provider(looping(bench), looping(bench))))
    first = Retrying(looped, policy=RetryPolicy(replies=2), sleep=_at_once)
    agent = AgentRuntime(
        AgentDefinition(name="worker", prompt="Work."), model=Fallback([first, ScriptedModel(["Hello."])])
    )
    journal = MemoryJournal(fresh_id())
    report = await agent.run("Say hello.", agent.turn(journal))
    assert report.text == "Hello."
    (fell_back,) = [entry.data for entry in journal.entries if isinstance(entry.data, ModelFellBack)]
    assert "over and over" in fell_back.error


async def test_without_another_model_the_run_fails_with_the_reason(bench: Any) -> None:
    model = Retrying(
        LoopGuard(bench.openai(bench.Provider(looping(bench)))), policy=RetryPolicy(replies=1), sleep=_at_once
    )
    agent = AgentRuntime(AgentDefinition(name="worker", prompt="Work."), model=model)
    report = await agent.run("Say hello.")
    assert report.cause is Cause.MODEL and "over and over" in (report.error or "")


async def test_a_whole_body_that_repeats_itself_is_refused_like_a_stream(bench: Any) -> None:
    body = {"choices": [{"message": {"content": WAIT * 1_000}, "finish_reason": "stop"}]}
    model = LoopGuard(bench.openai(bench.Provider(httpx.Response(200, json=body)), stream=False))
    with pytest.raises(ModelError, match="over and over"):
        await model.ask(bench.asking(), bench.listener)
