"""The common setup of gate tests: an agent with a gate, a reading tool and a script."""

from collections.abc import Mapping, Sequence

from drone.agent.agent import AgentRuntime
from drone.agent.gates.gate import Gate
from drone.agent.gates.report_gate import ReportGate
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import WantedCall
from drone.agent.ports.report import Report
from drone.agent.spending.budget import Budget
from drone.agent.turns.turn import Task, Turn
from drone.models.scripted import Line, Said, ScriptedModel, call
from drone.tools.frame.tool import FunctionTools, ToolFailed, tool
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.entry import Origin
from mcc.contracts.fact import Fact
from mcc.contracts.ids import root_record_id
from mcc.contracts.journal import GateChecked, ToolFinished
from mcc.contracts.limits import Limits

ORDER = "order-1"
GOOD: Mapping[str, object] = {"status": "completed", "summary": "All is well."}


@tool(group="workspace_read", idempotent=True)
def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: which one.
    """
    if path.startswith("no"):
        raise ToolFailed(f"There is no file {path}.")
    return f"text of {path}"


class Commits(MemoryJournal):
    """A journal that records which entry kinds were committed together."""

    def __init__(self) -> None:
        super().__init__(ORDER)
        self.groups: list[list[str]] = []

    def defer(self, origin: Origin, *facts: Fact) -> None:
        self.groups.append([fact.kind for fact in facts])
        super().defer(origin, *facts)


class Bench:
    def __init__(
        self, lines: Sequence[Said], gate: Gate | None = None, *, task: str = "Go.", limits: Limits | None = None
    ) -> None:
        self.model = ScriptedModel(lines)
        self.journal = Commits()
        self.turn = Turn.begun(self.journal, Budget(limits or Limits()))
        self.task = Task(task, root_record_id(ORDER))
        self.agent = AgentRuntime(
            AgentDefinition(name="master", prompt="You look."),
            model=self.model,
            tools=FunctionTools([read_file]),
            gate=gate or ReportGate(),
        )

    async def run(self) -> Report:
        return await self.agent.run(self.task, self.turn)

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.journal.entries]

    def checks(self) -> list[GateChecked]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, GateChecked)]

    def told(self) -> list[str]:
        return [entry.data.content for entry in self.journal.entries if isinstance(entry.data, ToolFinished)]


def submit(result: Mapping[str, object] = GOOD, **more: object) -> Line:
    return Line(calls=(WantedCall("submit_result", {**result, **more}),))


def check(result: Mapping[str, object] = GOOD, **more: object) -> Line:
    return submit(result, **more, check_only=True)


def read(*paths: str) -> Line:
    return Line(calls=tuple(call("read_file", path=path) for path in paths))
