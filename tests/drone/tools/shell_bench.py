"""A shell for the tests: the tools of one order in one workspace, its journal, and the output that viewers saw."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import MemoryJournal, TextDelta
from drone.agent.spending.budget import Budget
from drone.agent.turns.toolset import Output, StartedCall, ToolSet
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.egress.egress import Egress
from drone.sandbox.places.paths import Workspace
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.tool import FunctionTools
from drone.tools.frame.wrappers import OnlyReading
from drone.tools.shell.commands import ShellTools
from mcc.contracts.entry import Origin
from mcc.contracts.limits import Limits
from mcc.redaction import Redactor
from tests.drone.sandbox.machine import found_shell

WHO = Origin(record_id="record-1", agent="general")


class StreamingJournal(MemoryJournal):
    """A journal that also keeps the deltas sent to viewers."""

    def __init__(self) -> None:
        super().__init__("order")
        self.deltas: list[TextDelta] = []

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        assert origin == WHO
        self.deltas.append(delta)


class ShellBench:
    """Use as a context: its jobs end with it."""

    def __init__(self, folder: Path, *secrets: str, known: tuple[str, ...] = (), egress: Egress | None = None) -> None:
        self.root = folder / "workspace"
        self.root.mkdir(exist_ok=True)
        self.journal = StreamingJournal()
        self.turn = Turn.begun(self.journal, Budget(Limits()), redactor=Redactor(secrets))
        self.jobs = Jobs(known)
        self._calls = 0
        workspace = Workspace(self.root)
        self.tools: ToolSet = FunctionTools(
            ShellTools(replace(found_shell(), egress=egress)).tools(),
            workspace=workspace,
            checkpoints=OrderCheckpoints(workspace, folder / "checkpoints", "order"),
            jobs=self.jobs,
        )

    async def __aenter__(self) -> "ShellBench":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.jobs.end()

    async def call(
        self, name: str, *, read_only: bool = False, reaching: Sequence[Sequence[str]] = (), **arguments: object
    ) -> Output:
        self._calls += 1
        call = StartedCall(f"call-{self._calls}", name, arguments, WHO, self.turn, reaching)
        return await (OnlyReading(self.tools) if read_only else self.tools).call(call)

    async def run(self, command: str, **arguments: Any) -> Mapping[str, Any]:
        """The result of a command that must not be refused."""
        output = await self.call("run_shell", command=command, **arguments)
        assert not output.is_error, output.content
        answer: Mapping[str, Any] = json.loads(output.content)
        return answer

    async def ask_jobs(self, **arguments: Any) -> Mapping[str, Any]:
        output = await self.call("shell_jobs", **arguments)
        assert not output.is_error, output.content
        answer: Mapping[str, Any] = json.loads(output.content)
        return answer

    async def artifact(self, handle: str) -> str:
        """The text of an artifact, as `read_artifact` finds it."""
        found = await self.turn.artifacts.read(handle)
        assert found is not None
        return found

    @property
    def live_output(self) -> str:
        return "".join(delta.text for delta in self.journal.deltas)
