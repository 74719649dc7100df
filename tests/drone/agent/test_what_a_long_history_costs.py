"""A request covers the whole history: one function call per message would cost more with every round."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from drone.agent.ports.model import Ask
from drone.models.body import with_readable_pictures
from mcc.contracts.blocks import ToolCall
from mcc.transcript.messages import AssistantMessage, Message, ToolResult, ToolResults, UserMessage
from mcc.transcript.pictures import NO_PICTURES, has_pictures


def history(rounds: int) -> list[Message]:
    messages: list[Message] = [UserMessage("Look it all up.")]
    for number in range(rounds):
        call = ToolCall(call_id=f"call-{number}", name="lookup", arguments={"q": str(number)})
        messages.append(AssistantMessage.of("", tool_calls=(call,)))
        messages.append(ToolResults((ToolResult(call.call_id, "lookup", "a fact", False),)))
    return messages


def calls_of_functions(work: Callable[[], object]) -> int:
    """The number of Python function calls, generator resumptions included."""
    counted = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal counted
        counted += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(has_pictures, id="pictures"),
        pytest.param(lambda messages: with_readable_pictures(Ask("", messages, ()), "one", NO_PICTURES), id="as-seen"),
    ],
)
def test_looking_for_pictures_calls_as_much_in_a_long_history_as_in_a_short_one(
    look: Callable[[list[Message]], object],
) -> None:
    short, long = history(10), history(400)
    assert calls_of_functions(lambda: look(short)) == calls_of_functions(lambda: look(long))
