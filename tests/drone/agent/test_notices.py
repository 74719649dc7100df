"""The runtime's notices are appended to the preceding tool results, where every wire format accepts them."""

import json
from typing import Any

import pytest

from drone.agent.ports.model import Ask
from drone.agent.ports.report import LimitReached
from drone.agent.spending.allowance import landing
from drone.agent.state.record import RecordState
from drone.models.dialects.forms import formats
from drone.models.remote import ModelEndpoint
from drone.models.scripted import Line, call
from drone.tools.frame.tool import FunctionTools, tool
from mcc.configuration.providers import PROVIDERS
from mcc.contracts.blocks import ToolCall
from mcc.contracts.compaction import Clipped
from mcc.contracts.entry import Origin
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import AgentStep, BudgetWarned
from mcc.contracts.limits import Limits
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from mcc.transcript.previews import preview, where_to_read
from mcc.transcript.transcript import NUDGE, Transcript, length
from tests.drone.agent.lone import ORDER, Lone

SAID = "<notice>\nGo another way.\n</notice>"
CALL = ToolCall(call_id="call-1", name="look", arguments={"at": 1})
RESULTS = ToolResults((ToolResult("call-1", "look", "1 is green", False),))


@tool(idempotent=True)
async def look(at: int) -> str:
    """Look.

    Args:
        at: where.
    """
    return f"{at} is green"


def transcript(*messages: Message) -> Transcript:
    told = Transcript()
    told.open([UserMessage("Look.")])
    for message in messages:
        told.add(message)
    return told


def test_a_notice_joins_the_results_before_it_and_counts_as_long_as_it_is_told() -> None:
    told = transcript(AssistantMessage.of("", [CALL]), RESULTS)
    before = told.characters_said
    told.add_text("Go another way.", in_results=True)
    (results,) = told.said[1:]
    assert isinstance(results, ToolResults)
    assert [one.content for one in results.as_shown] == [f"1 is green\n\n{SAID}"]
    assert told.characters_said == sum(map(length, told.said)) == before + len(SAID) + 2


def test_where_there_are_no_results_a_notice_is_a_message() -> None:
    for message in (AssistantMessage.of("Done."), UserMessage("Faster."), ToolResults(())):
        told = transcript(message)
        told.add_text("Go another way.", in_results=True)
        assert told.said == [message, UserMessage("Go another way.")]


@pytest.mark.parametrize(
    "fact",
    [
        AgentStep(name=NUDGE, message="Go another way."),
        BudgetWarned(limit="rounds", used=7, allowed=10, message="Go another way."),
    ],
)
def test_what_older_journals_tell_stays_a_message_of_its_own(fact: AgentStep | BudgetWarned) -> None:
    for now in (False, True):
        state = RecordState(Origin(record_id=root_record_id(ORDER)))
        state.conversation.transcript.add(RESULTS)
        state.apply(fact.model_copy(update={"in_results": now}))
        said = [RESULTS.noting(SAID)] if now else [RESULTS, UserMessage("Go another way.")]
        assert state.conversation.transcript.said == said


def test_a_result_that_is_shortened_keeps_its_notice() -> None:
    long = ToolResults((ToolResult("call-1", "look", "green " * 1_000, False),))
    told = transcript(AssistantMessage.of("", [CALL]), long)
    told.add_text("Go another way.", in_results=True)
    told.clip([Clipped(call_id="call-1", kept=400, characters=6_000, artifact="a" * 64)])
    (results,) = told.said[1:]
    assert isinstance(results, ToolResults) and results.notices == (SAID,)
    short = preview("green " * 1_000, 400, where_to_read("a" * 64, False), 6_000)
    assert results.as_shown[0].content == f"{short}\n\n{SAID}"


@pytest.mark.parametrize("row", list(PROVIDERS), ids=lambda row: row.name)
def test_no_form_sends_a_notice_as_a_message_of_a_person(row: Any) -> None:
    address = row.base_url or "https://mine.openai.azure.com/openai/v1"
    endpoint = ModelEndpoint(name=f"{row.name}/m", model="m", base_url=address, provider=row.name, stream=False)
    messages = (UserMessage("Look."), AssistantMessage.of("", [CALL]), RESULTS.noting(SAID))
    body = json.loads(b"".join(formats[row.form_at(address)](endpoint).body(Ask("", messages), frozenset())))
    turns = body.get("messages") or body.get("contents") or body["input"]
    assert len(turns) == 3
    assert "Go another way." in json.dumps(turns[-1]) and "1 is green" in json.dumps(turns[-1])


async def test_a_warning_and_a_nudge_reach_the_model_with_the_results_of_its_tools() -> None:
    again = Line(calls=(call("look", at=1),))
    lone = Lone([*[again] * 3, "Done."], FunctionTools([look]), Limits(rounds=4))
    assert (await lone.run()).completed
    assert not any(isinstance(one, UserMessage) for ask in lone.scripted.asks for one in ask.messages[1:])
    heard = "\n".join(lone.heard())
    assert "the same output 3 times" in heard and "Finish now" in heard


def test_the_word_of_a_last_reply_stands_there_too() -> None:
    assert landing(LimitReached("rounds", 3), None).in_results
