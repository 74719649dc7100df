"""The scripted model: gives the replies of its script, in any process and any order of asks."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.model import ModelError, WantedCall
from drone.models.scripted import Line, ScriptedModel, ScriptProblem, by_prompt, call, load
from mcc.transcript.messages import AssistantMessage, ToolResult, ToolResults, UserMessage


async def test_lines_are_said_in_order_and_the_asks_are_kept(bench: Any) -> None:
    model = ScriptedModel([Line("Look", (call("read", path="a"),)), "Done"])
    first = await model.ask(bench.asking(), bench.listener)
    second = await model.ask(bench.asking(UserMessage("More")), bench.listener)
    assert (first.tool_calls, first.finish_reason) == ((WantedCall("read", {"path": "a"}),), "tool_calls")
    assert (second.text, second.finish_reason, second.usage.cost_usd) == ("Done", "stop", 0.0)
    assert [ask.messages for ask in model.asks] == [(UserMessage("Hello"),), (UserMessage("More"),)]


async def test_text_is_streamed_in_pieces_that_make_it_up(bench: Any) -> None:
    await ScriptedModel([Line(" a  b\nc ", thinking="Hm")]).ask(bench.asking(), bench.listener)
    assert bench.listener.heard() == " a  b\nc "
    assert bench.listener.deltas[0] == ("thinking.delta", "Hm")
    assert len(bench.listener.deltas) == 5


async def test_a_script_that_has_ended_is_an_error(bench: Any) -> None:
    assert "has ended" in str(await bench.refused(ScriptedModel([])))


async def test_errors_are_raised_after_the_pieces(bench: Any) -> None:
    line = Line(pieces=("half",), error=ModelError("Cut.", retryable=True))
    assert (await bench.refused(ScriptedModel([line]))).retryable
    assert bench.listener.heard() == "half"


async def test_a_gate_holds_the_reply_until_the_test_opens_it(bench: Any) -> None:
    gate = asyncio.Event()
    asked = asyncio.create_task(ScriptedModel([Line("Hi", gate=gate)]).ask(bench.asking(), bench.listener))
    await asyncio.sleep(0)
    assert not asked.done()
    gate.set()
    assert (await asked).text == "Hi"


async def test_a_gate_that_stays_shut_ends_with_the_deadline(bench: Any) -> None:
    model = ScriptedModel([Line("Hi", gate=asyncio.Event())])
    assert (await bench.refused(model, bench.asking(seconds=0.01))).retryable


async def test_replies_by_prompt_are_the_same_in_every_order(bench: Any) -> None:
    model = ScriptedModel(by_prompt(lambda prompt, replies: f"{prompt} {replies}"))
    later = bench.asking(UserMessage("b"), AssistantMessage.of("x"), UserMessage("c"))
    assert (await model.ask(later, bench.listener)).text == "b 1"
    assert (await model.ask(bench.asking(UserMessage("a")), bench.listener)).text == "a 0"


def written(tmp_path: Path, script: object) -> Path:
    path = tmp_path / "script.json"
    path.write_text(script if isinstance(script, str) else json.dumps(script))
    return path


RULES = {
    "rules": [
        {
            "match": "master",
            "replies": [
                {"text": "I delegate.", "tool_calls": [{"name": "subagent", "arguments": {"prompt": "child 1"}}]},
                {"text": "All done.", "thinking": "Hm"},
            ],
        },
        {"match": r"child \d", "replies": [{"text": "Found it."}]},
        {"match": "broken", "replies": [{"error": {"message": "No.", "status": 503, "retryable": True}}]},
        {"match": "raw", "replies": [{"tool_calls": [{"name": "read", "arguments": "{not json"}]}]},
        {"match": "gruff system", "replies": [{"text": "By the system prompt."}]},
    ]
}


@pytest.fixture
def on_file(tmp_path: Path) -> ScriptedModel:
    return ScriptedModel(load(written(tmp_path, RULES)))


async def test_a_script_on_file_replies_by_rule_and_by_how_often_it_has_replied(
    bench: Any, on_file: ScriptedModel
) -> None:
    prompt = UserMessage("the master's task")
    first = await on_file.ask(bench.asking(prompt), bench.listener)
    assert first.tool_calls == (WantedCall("subagent", {"prompt": "child 1"}),)
    results = ToolResults((ToolResult("c", "subagent", "Found it.", False),))
    going_on = (prompt, AssistantMessage.of(first.text), results)
    for _ in range(2):
        assert (await on_file.ask(bench.asking(*going_on), bench.listener)).text == "All done."
    assert (await on_file.ask(bench.asking(UserMessage("child 7")), bench.listener)).text == "Found it."


async def test_a_second_turn_begins_its_rule_anew_and_a_steer_goes_on_with_the_first(
    bench: Any, on_file: ScriptedModel
) -> None:
    history = (UserMessage("master"), AssistantMessage.of("x"), AssistantMessage.of("All done."))
    again = await on_file.ask(bench.asking(*history, UserMessage("master again")), bench.listener)
    assert again.text == "I delegate."
    steered = bench.asking(UserMessage("master"), AssistantMessage.of("x"), UserMessage("hurry"))
    assert (await on_file.ask(steered, bench.listener)).text == "All done."


async def test_rules_on_the_system_prompt_errors_and_raw_arguments(bench: Any, on_file: ScriptedModel) -> None:
    assert (await on_file.ask(bench.asking(system="a gruff system"), bench.listener)).text == "By the system prompt."
    error = await bench.refused(on_file, bench.asking(UserMessage("broken")))
    assert (str(error), error.status, error.retryable) == ("No.", 503, True)
    raw = await on_file.ask(bench.asking(UserMessage("raw")), bench.listener)
    assert raw.tool_calls[0].arguments == "{not json"
    spent = bench.asking(UserMessage("raw"), AssistantMessage.of("x"))
    assert "has ended" in str(await bench.refused(on_file, spent))
    assert "No rule" in str(await bench.refused(on_file, bench.asking(UserMessage("other"))))


@pytest.mark.parametrize(
    "script", ["{", "[]", {"rules": []}, {"rules": [{"match": "x", "replies": []}]}, {"rules": [{"mach": "x"}]}]
)
def test_a_script_that_cannot_be_used_says_why(tmp_path: Path, script: object) -> None:
    with pytest.raises(ScriptProblem, match=r"script\.json is not usable"):
        load(written(tmp_path, script))


def test_a_script_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScriptProblem, match="cannot be read"):
        load(tmp_path / "nothing.json")
