"""A `SubagentRunner` in this process: runs single agents, several concurrently, or a chain, each in its own turn."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from drone.agent import agent
from drone.agent.gates.result_class import typed
from drone.agent.gates.verifier import VERIFY
from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.model import Model
from drone.agent.ports.report import Report, describe_or_raise
from drone.agent.spending.budget import Budget
from drone.agent.subagents.assignments import PREVIOUS
from drone.agent.subagents.children import CannotHire, CannotSpawn, Wanted, check_depth, run_child
from drone.agent.subagents.runner import Fork, ForkResult
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Task, Turn, title_of
from drone.checkpoints.recording import OrderCheckpoints
from drone.definitions import Definitions
from drone.hiring import Hiring, Parent, Place
from drone.library import Tool, toolset
from drone.models.guards import ModelSource, NamedModels, UnknownModel
from drone.sandbox.places.paths import PathDenied, PathError, Workspace
from drone.tools.artifacts import ArtifactTools
from drone.tools.catalog import SHELL_WRITE, Toolbox, UnknownToolName, chosen, provision, selects_any
from drone.tools.environment import Detected
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.tool import FunctionTools, Joined
from drone.tools.frame.wrappers import Only, OnlyReading, only_reading
from drone.tools.rules_and_skills import with_agents_of
from drone.worktrees.isolation import IN_A_WORKSPACE
from mcc.configuration.trust import AgentConsent
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.fence import fenced
from mcc.contracts.ids import fresh_id, root_record_id
from mcc.contracts.limits import Limits
from mcc.contracts.record import RecordStatus
from mcc.contracts.similar import hints_keywords
from mcc.contracts.tool_groups import TOOL_GROUPS, group_of
from mcc.definitions.scopes import UsableAgents, place_of
from mcc.transcript.messages import WRITING_GROUPS, ToolSpec

AT_ONCE = 4
"""Forks of one `run_parallel` that run concurrently by default."""


@hints_keywords
class InProcessRunner:
    """Runs agents in this process, each in a turn of its own within `limits`, any number at the same time.

    `models`: by name, the first is the default. `definitions` None: the shipped agents. Those of the workspace's
    `.mcc/agents` are added, with no more rights than the definitions allow; a file there that takes another agent's
    name is not used. `tools` are added to those of the `workspace`. `checkpoints`: a directory outside of the workspace
    that keeps what files were before agents change them; None = no tool of the workspace changes anything. Raises
    ValueError for checkpoints without a workspace or inside of it.
    """

    def __init__(
        self,
        models: ModelSource | Mapping[str, Model],
        *,
        definitions: Definitions | Iterable[AgentDefinition] | None = None,
        workspace: Path | str | None = None,
        tools: ToolSet | Iterable[Tool] | None = None,
        limits: Limits | None = None,
        checkpoints: Path | str | None = None,
    ) -> None:
        self._definitions = definitions if isinstance(definitions, Definitions) else _known(definitions)
        self._models = NamedModels(models) if isinstance(models, Mapping) else models
        self._workspace = None if workspace is None else Path(workspace).resolve()
        self._tools = toolset(tools)
        self._artifacts = ArtifactTools()
        self._limits = limits or Limits()
        self._checkpoints = None if checkpoints is None else _outside(Path(checkpoints).resolve(), self._workspace)

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
        if tools is not None and (isinstance(tools, str) or not all(isinstance(name, str) for name in tools)):
            return ForkResult(error=f"tools= is a list of names of tools and groups, and is {tools!r}.")
        if depth < 0:
            return ForkResult(error=f"The depth must be 0 or more, and is {depth}.")
        try:
            check_depth(turn, depth + 1)
            jobs = Jobs()
            agent = await self._hired(fork, turn, jobs, journal.order_id)
        except (CannotSpawn, CannotHire, UnknownToolName, UnknownModel, PathError) as error:
            return ForkResult(error=str(error))
        except BaseException as error:
            return ForkResult(error=f"The agent could not be made: {describe_or_raise(error)}.")
        where = Task(task, root_record_id(journal.order_id), title_of(task), depth=depth + 1)
        async with jobs:
            report = typed((await run_child(agent, where, turn)).report, agent.gate)
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

    async def _hired(self, fork: Fork, turn: Turn, jobs: Jobs, run_id: str) -> agent.AgentRuntime:
        workspace = await turn.threads.tool(self._opened, fork.cwd)
        roots = () if workspace is None else workspace.spellings
        known = await turn.threads.tool(self._agents)
        tools = Joined(await turn.threads.tool(self._own, workspace, run_id, jobs), self._artifacts, self._tools)
        definition = self._definition(fork, known)
        definition = definition.model_copy(update={"tools": self._chosen(fork, definition, tools.specs())})
        self._refuse_worktree(definition, tools.specs())
        agents = {**known.agents, fork.agent_name: definition}
        known = replace(known, known=replace(known.known, usable=agents))
        hiring = Hiring(known, self._models, turn, place=Place(roots=roots))
        await turn.threads.gate(hiring.make_gates)
        wanted = Wanted(fork.agent_name, fork.depth + 1, model=fork.model)
        parent = Parent(self._models.default, tools, alone=self._checkpoints is not None)
        return hiring.child(wanted, parent, hiring.warnings)

    def _agents(self) -> Definitions:
        """The runner's definitions and those of its workspace's files. Blocks."""
        if self._workspace is None:
            return self._definitions
        return with_agents_of(Workspace(self._workspace), self._definitions, AgentConsent(self._workspace))

    def _own(self, workspace: Workspace | None, run_id: str, jobs: Jobs) -> ToolSet:
        """The tools of the workspace; without checkpoints those that change nothing in it. Blocks."""
        if workspace is None:
            return FunctionTools([])
        # An agent may have commands without the tool that they would else have to wait for.
        detected = Detected(already=True)
        if self._checkpoints is not None:
            checkpoints = OrderCheckpoints(workspace, self._checkpoints, run_id)
            return self._toolbox.tools(workspace, detected, checkpoints, jobs=jobs)
        reading = OnlyReading(self._toolbox.tools(workspace, detected, jobs=jobs))
        return Only(reading, [spec.name for spec in reading.specs() if not spec.may_write])

    def _definition(self, fork: Fork, known: Definitions) -> AgentDefinition:
        """The definition of the fork's agent, with the fork's own prompt. Raises `CannotHire`."""
        if fork.system_prompt is not None and fork.agent_name not in known.agents:
            return AgentDefinition(name=fork.agent_name, result="text", prompt=fork.system_prompt)
        try:
            definition = known.get(fork.agent_name)
        except LookupError as error:
            path = place_of(fork.agent_name)
            refused = "".join(
                f" {str(problem).rstrip('.')}." for problem in known.known.refused if problem.source == path
            )
            raise CannotHire(f"{error.args[0]}{'.' * bool(refused)}{refused}") from error
        if fork.system_prompt is None and not definition.prompt.strip():
            raise CannotHire(f"{fork.agent_name} has no prompt: write what the agent is to do.")
        changes = {"prompt": fork.system_prompt, "guidelines": ()}
        return definition if fork.system_prompt is None else definition.model_copy(update=changes)

    def _chosen(self, fork: Fork, definition: AgentDefinition, specs: Sequence[ToolSpec]) -> tuple[str, ...] | None:
        """The names by which the agent gets its tools: those of the fork, else of its definition, None = all.

        The fork's can only be fewer than the definition's. Raises `CannotHire` and `UnknownToolName` for one that
        cannot be given.
        """
        provided = provision(specs, definition, shell_writes=self._checkpoints is not None)
        if fork.tools is None:
            for name in provided.missing:
                self._refuse_if_never(name, definition)
            return definition.tools
        held = [only_reading(spec) if provided.only_reading else spec for spec in specs]
        allowed = [spec for spec in held if spec.name in provided.names]
        for name in fork.tools:
            if not (exists := selects_any(specs, name)) or not _selects_of(allowed, name, specs):
                self._refuse_if_never(name, definition)
                raise CannotHire(_not_to_be_had(name, definition, exists=exists))
        if definition.tools is None:
            return tuple(fork.tools)
        names = [spec.name for spec in allowed if spec.name in chosen(specs, fork.tools)]
        return (*names, *(SHELL_WRITE for name in fork.tools if name == SHELL_WRITE))

    def _refuse_if_never(self, name: str, definition: AgentDefinition) -> None:
        """Raises `CannotHire` for a tool or group that this runner never gives, whatever the machine offers."""
        group = name if name in TOOL_GROUPS else group_of(name)
        if self._workspace is None and group in IN_A_WORKSPACE:
            lacks = f"works on files with {name}, and this runner has no workspace: give it one with workspace=DIR"
        elif self._checkpoints is None and group in WRITING_GROUPS:
            lacks = f"changes files with {name}, and this runner only reads: make it with checkpoints=DIR"
        else:
            return
        raise CannotHire(f"{definition.name} {lacks}, or run it with tools=[…] that leave {name} out.")

    def _refuse_worktree(self, definition: AgentDefinition, specs: Sequence[ToolSpec]) -> None:
        """Raises `CannotHire` for an agent that would write outside of the worktree that its definition demands."""
        names = provision(specs, definition, shell_writes=self._checkpoints is not None).names
        if definition.isolation == "worktree" and any(spec.may_write for spec in specs if spec.name in names):
            raise CannotHire(
                f"{definition.name} has isolation: worktree, which only orders know: leave it out, or run it with "
                "tools=[…] that write nothing."
            )

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


def _known(definitions: Iterable[AgentDefinition] | None) -> Definitions:
    """The given definitions, or the shipped ones. The agent that verifies by a rubric is always among them."""
    shipped = Definitions.load()
    if definitions is None:
        return shipped
    given = {definition.name: definition for definition in definitions}
    return Definitions(UsableAgents({VERIFY: shipped.get(VERIFY), **given}))


def _outside(checkpoints: Path, workspace: Path | None) -> Path:
    """The directory of the checkpoints. Raises ValueError where agents could reach it."""
    if workspace is None:
        raise ValueError("checkpoints= keeps what files of a workspace were: give workspace= as well.")
    if checkpoints.is_relative_to(workspace):
        raise ValueError(
            f"{checkpoints} lies in the workspace, where agents could change it: choose another directory."
        )
    return checkpoints


def _selects_of(allowed: Sequence[ToolSpec], name: str, specs: Sequence[ToolSpec]) -> bool:
    """Whether a name or group that selects some of the `specs` selects one of those `allowed`."""
    if name == SHELL_WRITE:
        return selects_any(allowed, name)
    return not {spec.name for spec in allowed}.isdisjoint(chosen(specs, [name]))


def _not_to_be_had(name: str, definition: AgentDefinition, *, exists: bool) -> str:
    if not exists:
        return f"There is no tool of {name!r} here for {definition.name}: leave it out of tools=[…]."
    named = "names no tools" if definition.tools == () else f"names {', '.join(definition.tools or ('all of them',))}"
    refused = f" and forbids {', '.join(definition.disallowed_tools)}" if definition.disallowed_tools else ""
    return f"{definition.name} may not have {name}: its definition {named}{refused}, and tools=[…] can only be fewer."
