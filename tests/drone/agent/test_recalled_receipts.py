"""In a continued conversation, earlier tool calls still count as evidence for the rules of a result."""

from drone.agent.agent import AgentRuntime
from drone.agent.gates.report_gate import ReportGate
from drone.agent.subagents.children import run_child
from drone.agent.turns.toolset import Output, StartedCall
from drone.agent.turns.turn import Task
from drone.models.scripted import Line, ScriptedModel, call
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.order import Rule
from mcc.contracts.record import RecordStatus
from mcc.transcript.messages import ToolSpec

READ_IT = Rule(cel='receipts.exists(r, r.ok && r.tool == "read_file" && r.path == "a.py") && size(receipts) == 1')


class Files:
    def specs(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("read_file", "Reads.", {}, "workspace_read", True),)

    async def call(self, call: StartedCall) -> Output:
        return Output("x = 1")


async def test_a_continued_child_need_not_read_again_what_it_has_read() -> None:
    done = call("submit_result", status="completed", summary="x is 1")
    model = ScriptedModel([Line(calls=(call("read_file", path="./a.py"),)), Line(calls=(done,)), Line(calls=(done,))])
    agent = AgentRuntime(AgentDefinition(name="scout"), model=model, tools=Files(), gate=ReportGate(rules=[READ_IT]))
    turn = agent.turn()
    first = await run_child(agent, Task("What is x?", "r1"), turn)
    assert first.report.status is RecordStatus.COMPLETED
    again = await run_child(agent, Task("Surely?", "r2", continues="r1", earlier=first.messages), turn)
    assert (again.report.status, again.report.rounds) == (RecordStatus.COMPLETED, 1)
