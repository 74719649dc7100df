"""A real worker process with the product's crew, a scripted model and tools that run in the sandbox.

`nap` and `nap_again` (idempotent) run for NAP seconds with a daemon beside them, and add a line to the file STARTS each
time that they are started. The prompt is the name of the tool to call.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from drone.agent.ports.history import HistoryPort
from drone.agent.ports.model import (
    Ask,
    Listener,
    Model,
    Reply,
    WantedCall,
    spoken_blocks,
)
from drone.agent.turns.toolset import ToolSet
from drone.checkpoints.recording import OrderCheckpoints
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.registry import Models
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.settings import Settings, load
from drone.tools.catalog import Toolbox
from drone.tools.environment import Detected
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.notes_port import NotesPort
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from drone.worker.app import work
from mcc.contracts.fence import unfenced
from mcc.transcript.messages import ToolResults, UserMessage
from mcc.transcript.transcript import request_in

MASTER = """---
name: master
description: Naps.
tools: [nap, nap_again]
spawns: []
result: text
---
Nap.
"""


class Sleepy:
    """Calls the tool that the prompt names once, then answers with its result."""

    name = "scripted/sleepy"

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        last = ask.messages[-1]
        if isinstance(last, ToolResults):
            return Reply(spoken_blocks(f"it brought: {unfenced(last.results[0].content)}"))
        assert isinstance(last, UserMessage)
        return Reply((WantedCall(request_in(last.text).split()[0], {}),), finish_reason="tool_calls")


class SleepyModels(Models):
    def get(self, name: str) -> Model:
        return Sleepy()

    @property
    def default(self) -> Model:
        return Sleepy()


class SleepyToolbox(Toolbox):
    def tools(
        self,
        workspace: Workspace | Path | None,
        detected: Detected | None = None,
        checkpoints: OrderCheckpoints | None = None,
        notes: NotesPort | None = None,
        history: HistoryPort | None = None,
        jobs: Jobs | None = None,
    ) -> ToolSet:
        sandbox = self.git.sandbox
        assert sandbox is not None
        return FunctionTools(naps(sandbox))


def naps(sandbox: Bubblewrap) -> list[Callable[..., object]]:
    async def napped() -> str:
        write_down(f"{os.getpid()}\n")
        seconds = os.environ["NAP"]
        script = f"(setsid setsid sleep {seconds} </dev/null >/dev/null 2>&1 &); sleep {seconds}"
        ended = await sandbox.run(("sh", "-c", script), Workspace("/usr"), Bounds(600.0))
        return f"status {ended.status}"

    @tool(seconds=600)
    async def nap(context: ToolContext) -> str:
        """Nap."""
        return await napped()

    @tool(seconds=600, idempotent=True)
    async def nap_again(context: ToolContext) -> str:
        """Nap as often as you like."""
        return await napped()

    return [nap, nap_again]


def write_down(line: str) -> None:
    with Path(os.environ["STARTS"]).open("a") as starts:
        starts.write(line)


def hired(settings: Settings) -> Crew:
    found = Toolbox.found(settings.prompts_dir)
    toolbox = SleepyToolbox(found.ripgrep, found.git, found.skills)
    groups = {"naps": ("nap", "nap_again")}
    return Crew(settings, Definitions.load(settings.prompts_dir, groups), SleepyModels(settings), toolbox)


def main() -> int:
    return work(load(), hired)


if __name__ == "__main__":
    sys.exit(main())
