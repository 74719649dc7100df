"""Who plays in a simulated drone: the product's crew, with a scripted model and witnessed tools."""

import asyncio
import tempfile
from collections.abc import Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from drone.agent.ports.journal import Journal, RedactedJournal
from drone.agent.ports.model import Ask, Listener, Reply, WantedCall, spoken_blocks
from drone.agent.state.tree import TreeJournal
from drone.crew import Crew
from drone.definitions import Definitions
from drone.models.registry import Models
from drone.sandbox.places.paths import Workspace
from drone.settings import Settings
from drone.tools.artifacts import ArtifactTools
from drone.tools.catalog import Toolbox
from drone.tools.environment import Look
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from drone.tools.git.program import Git
from drone.tools.shell.commands import Shell
from drone.worker.journal import OrderJournal
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import SandboxState
from mcc.contracts.usage import Usage
from mcc.definitions.rights import TOOL_GROUPS
from mcc.definitions.scopes import UsableAgents
from mcc.transcript.messages import AssistantMessage, Message, UserMessage
from tests.faults.script import (
    AUDITOR,
    IDEM,
    KEEP,
    LINGER,
    MASTER,
    ONCE,
    READER,
    WORKER,
    Asked,
    Play,
    lingered,
    reply,
    wrote,
)

INPUT_TOKENS, OUTPUT_TOKENS = 200, 50
"""What each model call costs."""

_LEDGER = (ONCE, IDEM, LINGER)
_WRITING = (*_LEDGER, "workspace_write")


class Witness(Protocol):
    """Sees what really happens, and makes it take its time."""

    async def requested(self, wanted: Asked) -> None:
        """A model is asked; returns when it answers."""

    def effect(self, tool: str, path: str, context: ToolContext, journal: OrderJournal) -> None:
        """A tool does what it does."""

    async def pause(self) -> None:
        """Some time passes."""


WITNESS: ContextVar[Witness] = ContextVar("witness")
"""That of the world in whose steps a model or a tool is called; the cast itself is made once."""


class PlayedModel:
    """Says what the script of the order says."""

    @property
    def name(self) -> str:
        return "played/model"

    async def ask(self, ask: Ask, listener: Listener) -> Reply:
        wanted = which(ask.messages)
        await WITNESS.get().requested(wanted)
        step = reply(wanted)
        listener.delta("model.delta", step.text)
        calls = tuple(WantedCall(one.name, one.arguments) for one in step.calls)
        usage = Usage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, model_calls=1, cost_usd=0.01)
        finish = "tool_calls" if calls else "stop"
        return Reply(spoken_blocks(step.text, calls), finish_reason=finish, usage=usage, model=self.name)


def which(messages: Sequence[Message]) -> Asked:
    """The last message with a play says whose turn it is; the replies after it are the steps so far."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, UserMessage) and (play := Play.of(message.text)):
            return Asked(play, sum(isinstance(one, AssistantMessage) for one in messages[index:]))
    raise ValueError("a simulated model was asked without a play")


class OneModel:
    """The registry of models, with one in it."""

    def __init__(self, model: PlayedModel) -> None:
        self.default = model

    def get(self, name: str) -> PlayedModel:
        return self.default

    async def aclose(self) -> None:
        pass


class WitnessedTools:
    """The toolbox, with the test tools in it."""

    shell = Shell(None, problem="no command is run here")
    git = Git(None, problem="no git is run here")
    artifacts = ArtifactTools()

    async def sandbox(self) -> SandboxState:
        return SandboxState()

    def tools(self, workspace: Workspace | Path | None, *_: object, **__: object) -> FunctionTools:
        return _tools()

    async def look(self, *_: object) -> Look:
        return Look()


@cache
def _tools() -> FunctionTools:
    async def happen(name: str, path: str, mark: str, context: ToolContext) -> str:
        witness = WITNESS.get()
        await witness.pause()
        journal: Journal | None = context.turn.journal if context.turn else None
        while isinstance(journal, RedactedJournal | TreeJournal):
            journal = journal.journal
        assert isinstance(journal, OrderJournal)
        witness.effect(name, path, context, journal)
        await witness.pause()
        return wrote(name, mark)

    @tool(name=ONCE)
    async def ledger_once(path: str, mark: str, context: ToolContext) -> str:
        """Have an effect that must not happen twice."""
        return await happen(ONCE, path, mark, context)

    @tool(name=IDEM, idempotent=True)
    async def ledger_idem(path: str, mark: str, context: ToolContext) -> str:
        """Have an effect that may happen again."""
        return await happen(IDEM, path, mark, context)

    @tool(name=LINGER, idempotent=True, effects="none")
    async def linger(seconds: float, mark: str) -> str:
        """Take some time."""
        await asyncio.sleep(seconds)
        return lingered(mark)

    @tool(name=KEEP, group="workspace_write", idempotent=True)
    async def keep_file(path: str, mark: str) -> str:
        """Write into the workspace."""
        await WITNESS.get().pause()
        return wrote(KEEP, mark)

    return FunctionTools((ledger_once, ledger_idem, linger, keep_file))


@cache
def definitions() -> Definitions:
    """The agents of the scripts."""
    prompt = "Play your part."
    masters = (
        AgentDefinition(name=name, prompt=prompt, tools=(*tools, "delegation"), spawns=(WORKER, AUDITOR), result="text")
        for name, tools in ((MASTER, _WRITING), (READER, _LEDGER))
    )
    agents = (
        *masters,
        AgentDefinition(name=WORKER, description="Answers in text.", prompt=prompt, tools=_WRITING, result="text"),
        AgentDefinition(name=AUDITOR, description="ToolCalls in a report.", prompt=prompt, tools=_WRITING),
    )
    return Definitions(UsableAgents({agent.name: agent for agent in agents}), {**TOOL_GROUPS, "ledger": _LEDGER})


@cache
def settings() -> Settings:
    return Settings(
        data_dir=Path("/nonexistent"),
        database_url="sqlite://",
        name="simulated",
        models={},
        workspace_roots=(Path(tempfile.gettempdir()),),
    )


def crew() -> Crew:
    """The product's crew of one process, with this cast; its models and tools report to `WITNESS`."""
    models = cast("Models", OneModel(PlayedModel()))
    return Crew(settings(), definitions(), models, cast("Toolbox", WitnessedTools()))
