"""A `SubagentRunner` in this process: runs single agents, several concurrently, or a chain, each in its own turn."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from drone.agent import agent
from drone.agent.budget import Budget
from drone.agent.definitions import Definitions
from drone.agent.journal import MemoryJournal
from drone.agent.model import Model
from drone.agent.report import Report, describe_or_raise
from drone.agent.subagents.assignments import PREVIOUS
from drone.agent.subagents.children import CannotHire, CannotSpawn, Wanted, check_depth, run_child
from drone.agent.subagents.runner import Fork, ForkResult
from drone.agent.toolset import ToolSet
from drone.agent.turn import Task, Turn, title_of
from drone.hiring import Hiring, Parent, Place
from drone.library import Tool, toolset
from drone.models.guards import ModelSource
from drone.models.registry import UnknownModel
from drone.sandbox.paths import PathDenied, PathError, Workspace
from drone.tools.artifacts import ArtifactTools
from drone.tools.catalog import Toolbox, UnknownToolName, expand
from drone.tools.jobs import Jobs
from drone.tools.tool import FunctionTools, Joined
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import fenced
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.definitions.scopes import Agents

AT_ONCE = 4
"""Forks of one `run_parallel` that run concurrently by default."""


class InProcessRunner:
    """Runs agents in this process, each in a turn of its own within `limits`, any number at the same time.

    `models`: by name, the first is the default. `definitions` None: the shipped agents. `tools` are added to those of
    the `workspace`. A tool that an agent's definition forbids stays forbidden even if a call names it.
    """

    def __init__(
        self,
        models: ModelSource | Mapping[str, Model],
        *,
        definitions: Definitions | Iterable[AgentDefinition] | None = None,
        workspace: Path | str | None = None,
        tools: ToolSet | Iterable[Tool] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._definitions = definitions if isinstance(definitions, Definitions) else _known(definitions)
        self._models = _Named(models) if isinstance(models, Mapping) else models
        self._workspace = None if workspace is None else Path(workspace).resolve()
        self._tools = toolset(tools)
        self._artifacts = ArtifactTools()
        self._limits = limits or Limits()

    async def run_isolated(
        self,
        agent_name: str,
        task: str,
        system_prompt: str | None = None,
        model: str | None = None,
        tools: Sequence[str] | None = None,
        cwd: str | Path | None = None,
        depth: int = 0,
    ) -> ForkResult:
        """As `SubagentRunner.run_isolated`. With a `system_prompt`, a name without a definition is allowed."""
        fork = Fork(agent_name, task, system_prompt, model, tools, cwd, depth)
        journal = MemoryJournal(fresh_id())
        turn = Turn.begun(journal, Budget(self._limits))
        if depth < 0:
            return ForkResult(error=f"The depth must be 0 or more, and is {depth}.")
        try:
            check_depth(turn, depth + 1)
            jobs = Jobs()
            agent = await self._hired(fork, turn, jobs)
        except (CannotSpawn, CannotHire, UnknownToolName, UnknownModel, PathError) as error:
            return ForkResult(error=str(error))
        except BaseException as error:
            return ForkResult(error=f"The agent could not be made: {describe_or_raise(error)}.")
        where = Task(task, root_record_id(journal.order_id), title_of(task), depth=depth + 1)
        async with jobs:
            report = (await run_child(agent, where, turn)).report
        return ForkResult(
            text=report.text,
            usage=journal.fold.usage,
            turns=report.rounds,
            model=report.model,
            error=_why(report),
            result=report.result,
            record=journal.fold.record(),
        )

    async def run_parallel(
        self, forks: Iterable[Fork | tuple[str, str]], at_once: int = AT_ONCE
    ) -> tuple[ForkResult, ...]:
        """Run all of them, `at_once` at a time; the next starts as soon as one has ended. Results in their order.

        Raises ValueError when `at_once` is less than 1.
        """
        if at_once < 1:
            raise ValueError(f"at_once must be 1 or more, and is {at_once}")
        width = asyncio.Semaphore(at_once)

        async def one(fork: Fork) -> ForkResult:
            async with width:
                return await self.run_isolated(*fork)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(Fork(*fork))) for fork in forks]
        return tuple(task.result() for task in tasks)

    async def run_chain(self, forks: Iterable[Fork | tuple[str, str]]) -> tuple[ForkResult, ...]:
        """Run one after the other. `{previous}` in a task becomes the previous text, empty in the first; an error ends
        the chain."""
        results: list[ForkResult] = []
        previous, over = "", ""
        for fork in (Fork(*fork) for fork in forks):
            if over:
                results.append(ForkResult(error=over))
                continue
            result = await self.run_isolated(*fork._replace(task=fork.task.replace(PREVIOUS, previous)))
            results.append(result)
            previous = fenced(result.text, fork.task)
            if result.error is not None:
                over = f"Not run, because {fork.agent_name} before it stopped short: {result.error}"
        return tuple(results)

    async def _hired(self, fork: Fork, turn: Turn, jobs: Jobs) -> agent.Agent:
        workspace = await turn.threads.tool(self._opened, fork.cwd)
        roots = () if workspace is None else workspace.spellings
        hiring = Hiring(self._overridden(fork), self._models, turn, place=Place(roots=roots))
        await turn.threads.gate(hiring.make_gates)
        tools = Joined(await turn.threads.tool(self._own, workspace, jobs), self._artifacts, self._tools)
        if fork.tools is not None:
            expand(fork.tools, [spec.name for spec in tools.specs()])
        wanted = Wanted(fork.agent_name, fork.depth + 1, model=fork.model)
        return hiring.child(wanted, Parent(self._models.default, tools))

    def _own(self, workspace: Workspace | None, jobs: Jobs) -> ToolSet:
        """The tools of the workspace. Blocks."""
        return FunctionTools([]) if workspace is None else self._toolbox.tools(workspace, jobs=jobs)

    def _overridden(self, fork: Fork) -> Definitions:
        """The definitions, with the fork's overrides applied to its agent. Raises `CannotHire`."""
        if fork.system_prompt is not None and fork.agent_name not in self._definitions.agents:
            definition = AgentDefinition(name=fork.agent_name, result="text")
        else:
            try:
                definition = self._definitions.get(fork.agent_name)
            except LookupError as error:
                raise CannotHire(str(error.args[0])) from error
        changes: dict[str, object] = {"tools": None if fork.tools is None else tuple(fork.tools)}
        if fork.system_prompt is not None:
            changes |= {"prompt": fork.system_prompt, "guidelines": ()}
        known = self._definitions.known
        agents = {**known.usable, fork.agent_name: definition.model_copy(update=changes)}
        return replace(self._definitions, known=replace(known, usable=agents))

    def _opened(self, cwd: str | Path | None) -> Workspace | None:
        """The directory to work in, None without a workspace. Blocks. Raises `PathError`."""
        if cwd is not None and self._workspace is None:
            raise PathDenied("This runner has no workspace, so that there is no directory to work in: leave cwd out.")
        if self._workspace is None:
            return None
        workspace = Workspace(self._workspace)
        return workspace if cwd is None else workspace.inner(str(cwd))

    @cached_property
    def _toolbox(self) -> Toolbox:
        return Toolbox.found()


def _why(report: Report) -> str | None:
    """The report's error, or that the agent itself reports to be blocked or to have failed; None when it completed."""
    if report.error is None and not report.completed:
        return f"The agent reports that it {'is blocked' if report.status is RecordStatus.BLOCKED else 'has failed'}."
    return report.error


class _Named:
    """The `ModelSource` of a mapping by name; the first model is the default."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = dict(models)

    @property
    def default(self) -> Model:
        if not self._models:
            raise UnknownModel("This runner has no model: give it one.")
        return next(iter(self._models.values()))

    def get(self, name: str) -> Model:
        if name not in self._models:
            raise UnknownModel(f"There is no model {name!r}. There are {', '.join(self._models)}.")
        return self._models[name]


def _known(definitions: Iterable[AgentDefinition] | None) -> Definitions:
    if definitions is None:
        return Definitions.load()
    return Definitions(Agents({definition.name: definition for definition in definitions}))
