"""Permission without a service: a definition's rules, the approver function, and agents used as tools."""

import asyncio
from typing import Any

import pytest

import drone
from drone.agent.control.approver import Asking
from drone.agent.ports.journal import MemoryJournal
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Turn
from drone.models.scripted import Line, ScriptedModel, call
from mcc.contracts.ids import fresh_id
from mcc.contracts.inbox_facts import ApprovalDecided
from mcc.contracts.journal import ToolFinished
from mcc.contracts.limits import Limits


def sender(sent: list[str], effects: Any = "irreversible") -> Any:
    @drone.tool(effects=effects)
    async def send(to: str) -> str:
        """Send it."""
        sent.append(to)
        return "sent"

    return send


def agent(name: str, lines: list[Any], tools: list[Any], **permission: Any) -> drone.Agent:
    definition = drone.AgentDefinition.model_validate(
        {"name": name, "prompt": "Help.", "result": "text", "permission": permission}
    )
    return drone.Agent(definition, model=ScriptedModel(lines), tools=tools)


SEND = Line(calls=(call("send", to="ann"),))


async def test_what_cannot_be_undone_does_not_run_where_nobody_can_be_asked() -> None:
    sent: list[str] = []
    report = await agent("clerk", [SEND, "done"], [sender(sent)]).run("go")
    assert report.completed and not sent


@pytest.mark.parametrize(("answer", "sent"), [(True, ["ann"]), (False, [])])
async def test_an_approver_decides_over_each_call(answer: bool, sent: list[str]) -> None:
    done: list[str] = []
    asked: list[Any] = []

    def approver(item: Any) -> bool:
        asked.append((item.tool, dict(item.arguments), item.why.layer, item.would_save.when))
        return answer

    await agent("clerk", [SEND, "done"], [sender(done)]).run("go", approver=approver)
    assert done == sent and asked == [("send", {"to": "ann"}, "default", 'args.to == "ann"')]


async def test_what_nobody_decides_in_time_does_not_run_and_its_model_is_told() -> None:
    sent: list[str] = []
    asking = Asking(lambda item: asyncio.get_running_loop().create_future(), expire_seconds=0.01)
    journal = MemoryJournal(fresh_id())
    turn = Turn.begun(journal, Budget(Limits()), people=asking)
    report = await agent("clerk", [SEND, "done"], [sender(sent)]).run("go", turn)
    [end] = [entry.data for entry in journal.entries if isinstance(entry.data, ToolFinished)]
    assert report.completed and not sent and end.outcome == "denied" and "nobody decided in time" in end.content
    [decided] = [entry.data for entry in journal.entries if isinstance(entry.data, ApprovalDecided)]
    assert decided.decision == "expired"


async def test_the_definition_may_allow_and_deny() -> None:
    allowed: list[str] = []
    denied: list[str] = []
    await agent("clerk", [SEND, "done"], [sender(allowed)], send="allow").run("go")
    await agent("clerk", [SEND, "done"], [sender(denied, "read")], send="deny").run("go")
    assert (allowed, denied) == (["ann"], [])


async def test_an_agent_that_is_a_tool_may_do_no_more_than_the_one_that_calls_it() -> None:
    sent: list[str] = []
    below = agent("helper", [SEND, "done"], [sender(sent)], send="allow")
    above = agent(
        "lead", [Line(calls=(call("helper", input="send it"),)), "done"], [drone.SubAgent(below)], send="deny"
    )
    report = await above.run("go")
    assert report.completed and not sent
    alone: list[str] = []
    await agent("helper", [SEND, "done"], [sender(alone)], send="allow").run("go")
    assert alone == ["ann"]
