"""What is gathered of a long conversation, of words from outside for the most part, does not hold up other orders."""

import asyncio

from drone.agent.compaction.conversation import ShownConversation
from drone.agent.state.record import RecordState
from drone.agent.state.tree import Tree
from mcc.contracts.blocks import ToolCall
from mcc.contracts.entry import Origin
from mcc.transcript.compaction.cuts import ContextWindow
from mcc.transcript.messages import AssistantMessage, ToolResult, ToolResults, UserMessage

HOSTILE = "".join(f"x{number}/y.py:3 must stay.\n" for number in range(5_000))


async def test_the_loop_goes_on_while_a_conversation_is_gathered() -> None:
    state = RecordState(Origin(record_id="r", agent="a", depth=0))
    asked = AssistantMessage.of("", [ToolCall(call_id="c", name="look", arguments={})])
    told = ToolResults((ToolResult("c", "look", HOSTILE, False),))
    for message in (UserMessage("Go."), asked, told, AssistantMessage.of("Done.")):
        state.conversation.transcript.add(message)
    turns = 0

    async def another() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(another())
    cut = await ShownConversation(Tree(), state).gathered(3, ContextWindow(200_000))
    beside.cancel()
    assert cut.gathered.kept and turns > 0
