"""The offline model's replies: streaming, usage, limits, and behaviour without tools."""

import asyncio

import pytest

from drone.agent.ports.journal import DeltaKind
from drone.agent.ports.messages import UserMessage
from drone.agent.ports.model import NOT_DONE, Ask, Model
from drone.models.offline import OfflineModel, pieces
from tests.drone.models.offline.playing import READING, SUBAGENT, Recorded, one

PROMPT = "Write a sonnet about the harbour of Zanzibar."


async def test_without_tools_it_says_what_it_is_echoes_the_request_and_tells_how_to_configure_a_model() -> None:
    reply = await one(PROMPT)
    assert "offline model" in reply.text
    assert PROMPT in reply.text
    assert "ANTHROPIC_API_KEY" in reply.text and "mcc.toml" in reply.text
    assert reply.text.startswith("This was not done.")
    assert (reply.finish_reason, reply.tool_calls) == (NOT_DONE, ())


async def test_it_is_a_model_called_offline() -> None:
    model: Model = OfflineModel()
    assert model.name == "offline"
    assert (await one(PROMPT)).model == "offline"


async def test_what_it_says_arrives_in_pieces_of_a_few_words_that_join_to_the_reply() -> None:
    listener = Recorded()
    reply = await OfflineModel().ask(Ask("", [UserMessage(PROMPT)]), listener)
    assert listener.text("model.delta") == reply.text
    assert len(listener.deltas) > 10
    assert max(len(text.split()) for _, text in listener.deltas) <= 4


async def test_thinking_streams_before_the_text() -> None:
    listener = Recorded()
    reply = await OfflineModel().ask(Ask("", [UserMessage("Explain this repository")], (*READING, SUBAGENT)), listener)
    assert listener.text("thinking.delta") == reply.thinking != ""
    kinds = [kind for kind, _ in listener.deltas]
    assert kinds == sorted(kinds, reverse=True)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n  a", "a b c d e f g", "a\n\n\tb  c\n", "x" * 500, "ä\u2028ö \x00 \ud800 z"]
)
def test_pieces_join_to_the_text_they_were_cut_from(text: str) -> None:
    assert "".join(pieces(text)) == text


async def test_a_pace_lets_others_run_between_two_pieces() -> None:
    spoke = asyncio.Event()

    class Waking(Recorded):
        def delta(self, kind: DeltaKind, text: str, call: object = None) -> None:
            super().delta(kind, text)
            spoke.set()

    listener = Waking()
    asking = asyncio.create_task(OfflineModel(pace_seconds=3_600).ask(Ask("", [UserMessage(PROMPT)]), listener))
    await spoke.wait()
    assert not asking.done()
    assert len(listener.deltas) == 1
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_it_uses_no_tokens_and_costs_nothing() -> None:
    usage = (await one("Explain this repository", READING)).usage
    assert (usage.model_calls, usage.total_tokens, usage.cost_usd) == (1, 0, 0.0)


async def test_a_reply_beyond_its_limit_is_cut_there() -> None:
    whole = await one("Hello")
    cut = await one("Hello", max_output_tokens=10)
    assert cut.finish_reason == "length"
    assert cut.text == whole.text[:40]
    assert (await one("Hello", max_output_tokens=10_000)).finish_reason == "stop"


async def test_a_plan_that_is_cut_short_starts_nothing() -> None:
    cut = await one("Explain this repository", (*READING, SUBAGENT), max_output_tokens=5)
    assert (cut.finish_reason, cut.tool_calls) == ("length", ())


@pytest.mark.parametrize("prompt", ["", "\x00\ud800", "`" * 5_000, "\n" * 100_000, "explain " * 20_000, "(" * 50_000])
async def test_any_prompt_has_an_answer(prompt: str) -> None:
    assert (await one(prompt)).text
    assert (await one(prompt, (*READING, SUBAGENT))).text


async def test_a_greeting_starts_no_exploration() -> None:
    reply = await one("Hello there!", (*READING, SUBAGENT))
    assert not reply.tool_calls
    assert "offline model" in reply.text
