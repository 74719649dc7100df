"""The reply cache: identical questions are answered from memory, all others are asked."""

from dataclasses import replace
from typing import Any

import pytest

from drone.agent.ports.model import Ask, ModelError
from drone.models.cache import CachedModel
from drone.models.registry import Models
from drone.models.scripted import Line, ScriptedModel
from drone.settings import ModelConfig, Settings
from mcc.transcript.messages import AssistantMessage, ToolSpec, UserMessage
from tests.parity.test_c_agents_as_tools import Silent

ASK = Ask("Help.", (UserMessage("Who?"),), tools=(ToolSpec("look", "Look.", {"type": "object"}),))


async def said(model: CachedModel, ask: Ask = ASK) -> str:
    return (await model.ask(ask, Silent())).text


@pytest.mark.parametrize(
    "change",
    [
        {"system": "Else."},
        {"messages": (UserMessage("Whom?"),)},
        {"messages": (UserMessage("Who?"), AssistantMessage.of("Me."))},
        {"tools": ()},
        {"tools": (ToolSpec("look", "Look.", {"type": "object", "properties": {}}),)},
        {"temperature": 0.5},
        {"thinking": "high"},
        {"max_output_tokens": 10},
        {"service_tier": "flex"},
    ],
)
async def test_a_change_of_anything_a_reply_depends_on_misses_the_cache(change: dict[str, Any]) -> None:
    model = CachedModel(ScriptedModel(["One.", "Two."]))
    assert [await said(model), await said(model, replace(ASK, **change)), await said(model)] == ["One.", "Two.", "One."]


async def test_agent_and_time_limit_do_not_affect_the_cache() -> None:
    model = CachedModel(ScriptedModel(["One."]))
    again = replace(ASK, cache_key="other", seconds=5.0, call_seconds=1.0, waited_seconds=3.0)
    assert [await said(model), await said(model, again)] == ["One.", "One."]


async def test_failed_and_cut_replies_are_not_cached() -> None:
    model = CachedModel(ScriptedModel([ModelError("down"), Line(text="Half", finish_reason="length"), "Whole.", "?"]))
    with pytest.raises(ModelError):
        await said(model)
    assert [await said(model) for _ in range(3)] == ["Half", "Whole.", "Whole."]


async def test_the_oldest_replies_are_forgotten() -> None:
    model = CachedModel(ScriptedModel(["One.", "Two.", "Three.", "One again."]), most_replies=2)
    asks = [replace(ASK, system=system) for system in "abc"]
    assert [await said(model, ask) for ask in asks] == ["One.", "Two.", "Three."]
    assert [await said(model, asks[1]), await said(model, asks[0])] == ["Two.", "One again."]


def test_only_a_model_whose_table_says_so_remembers() -> None:
    def table(cache_replies: bool) -> ModelConfig:
        address = "http://127.0.0.1:9/v1"
        return ModelConfig(provider="openai", base_url=address, model="m", cache_replies=cache_replies)

    models = Models(Settings(models={"kept": table(True), "asked": table(False)}))
    assert isinstance(models.get("kept"), CachedModel) and not isinstance(models.get("asked"), CachedModel)
