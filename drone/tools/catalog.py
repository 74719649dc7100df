"""The tools of this package: built once per process, bound to each order's workspace, and provisioned by group."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from drone.agent.ports.history import HistoryPort
from drone.agent.ports.identity_cache import IdentityCache
from drone.agent.turns.toolset import ToolSet
from drone.checkpoints.recording import OrderCheckpoints
from drone.definitions import shipped_prompts
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.contained import KIND as CONTAINER
from drone.sandbox.contained import Contained
from drone.sandbox.custody import Custody
from drone.sandbox.limits import ProgramLimits
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.guard import FIXED
from drone.sandbox.protection.protected import Protected
from drone.sandbox.walls import state_of
from drone.threads import OwnThreads
from drone.tools.artifacts import ArtifactTools
from drone.tools.asking import ASKING_TOOLS
from drone.tools.environment import Detected, EnvironmentGate, Look, WorkspaceSurvey, detection_tool, first_look
from drone.tools.files.listing import find_files, list_files
from drone.tools.files.outline import outline
from drone.tools.files.reading import read_file
from drone.tools.files.ripgrep import Ripgrep
from drone.tools.files.search import search_tool
from drone.tools.files.symbols import problem as outline_problem
from drone.tools.files.writing import WritingTools
from drone.tools.frame.capabilities import capability
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.notes_port import NotesPort
from drone.tools.frame.own import NO_OWN, OwnTools
from drone.tools.frame.tool import FunctionTool, FunctionTools
from drone.tools.frame.wrappers import only_reading
from drone.tools.git.program import Git
from drone.tools.git.reading import GitTools
from drone.tools.git.writing import GitWriteTools
from drone.tools.history import HISTORY_TOOLS
from drone.tools.notes import NOTE_TOOLS
from drone.tools.rules_and_skills import RULE_TOOLS, SkillTools
from drone.tools.shell.commands import NO_SHELL, Shell, ShellTools
from drone.tools.web.reading import NO_WEB, WebTools
from mcc.configuration.network import Sandbox
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import Capability, SandboxState
from mcc.contracts.journal import AgentStep
from mcc.contracts.similar import close_matches
from mcc.definitions.front_matter import suggestion
from mcc.definitions.rights import TOOL_GROUPS, expanded, known_names, of_server
from mcc.rules.patterns import matches_glob
from mcc.transcript.messages import SHELL_READ, ToolSpec

_Tools = tuple[FunctionTool, ...]

DEFAULTS = Sandbox()


@dataclass(frozen=True)
class Toolbox:
    """The tools and the programs and settings they need on this machine; built once, shared by all orders."""

    ripgrep: Ripgrep | None
    git: Git
    skills: tuple[Path, ...]
    outline_problem: str | None = None
    """Why the tool `outline` cannot be used, None if it can."""
    own: OwnTools = NO_OWN
    web: WebTools = NO_WEB
    protected: Protected = field(default_factory=Protected)
    """Paths that no tool changes."""
    shell: Shell = NO_SHELL

    @classmethod
    def found(
        cls,
        prompts_dir: Path | str | None = None,
        own: OwnTools = NO_OWN,
        sandboxing: Sandbox = DEFAULTS,
        web: WebTools = NO_WEB,
        protected: Protected = FIXED,
    ) -> "Toolbox":
        """Find the programs and try the sandbox, which takes some 20 ms.

        Skills are the shipped ones and those under `prompts_dir`.
        """
        operators = () if prompts_dir is None else (Path(prompts_dir).expanduser(),)
        skills = tuple(prompts / "skills" for prompts in (*operators, shipped_prompts()))
        sandbox = Bubblewrap.found(limits=ProgramLimits.of(sandboxing), protected=protected)
        custody = sandbox.custody if sandbox else Custody()
        ripgrep = Ripgrep.found(custody=custody)
        contained = Contained(custody, limits=ProgramLimits.of(sandboxing), protected=protected)
        shell = Shell.found(contained if sandboxing.kind == CONTAINER else sandbox)
        return cls(ripgrep, Git.found(sandbox), skills, outline_problem(), own, web, protected, shell)

    def tools(
        self,
        workspace: Workspace | Path | None,
        detected: Detected | None = None,
        checkpoints: OrderCheckpoints | None = None,
        notes: NotesPort | None = None,
        history: HistoryPort | None = None,
        jobs: Jobs | None = None,
    ) -> ToolSet:
        """The tools of one order. Raises `PathError` when `workspace` is a path and no directory.

        Without a workspace there are skills, questions to people, notes, web tools and the operator's own tools; shell,
        git and `outline` are left out where they cannot be used. `detected` is the environment that a resumed order has
        already detected. `checkpoints` save files before the order changes them; without them there are no tools that
        write files. `notes` are those of the order's project; without them there are no note tools. `history` is
        that of the order's session, likewise; `jobs` are the order's background jobs.
        """
        web = tuple(tool for tool, problem in self._web if problem is None)
        kept = (*(self._notes if notes else ()), *(map(FunctionTool.of, HISTORY_TOOLS) if history else ()))
        own_tools = (*self._asking, *kept, *web, *(tool for tool, _ in self.own.tools))
        if workspace is None:
            return FunctionTools((*self._skills, *own_tools), notes=notes)
        git = () if self.git.problem else self._git
        opened = Workspace(workspace) if isinstance(workspace, Path) else workspace
        outlines = () if self.outline_problem else self._outline
        shell = () if self.shell.problem else self._shell
        writing = self._writing if checkpoints is not None else ()
        functions = (*self._files, *outlines, *writing, *git, *shell, *self._skills, *self._rules, *own_tools)
        tools = FunctionTools(functions, workspace=opened, checkpoints=checkpoints, notes=notes, jobs=jobs)
        return EnvironmentGate(tools, detected or Detected())

    async def look(self, survey: WorkspaceSurvey | None, workspace: Workspace, threads: OwnThreads) -> Look:
        """What agents see of an order's workspace before they begin; `survey` describes that workspace."""
        return await first_look(survey, workspace, self.git, threads)

    def capabilities(self) -> tuple[Capability, ...]:
        """Every tool as a drone registers it; tools that cannot be used here carry their problem."""
        return (
            *_capabilities((*self._files, *self._writing)),
            *_capabilities(self._outline, self.outline_problem),
            *_capabilities((*self._skills, *self._rules, *self._asking)),
            *_capabilities(self._git, self.git.problem),
            *_capabilities(self._shell, self.shell.problem),
            *map(capability, self.artifacts.specs()),
            *_capabilities((*self._notes, *_tools(*HISTORY_TOOLS))),
            *(capability(tool.spec, problem) for tool, problem in self._web),
            *self.own.capabilities(),
        )

    @property
    def custody(self) -> Custody | None:
        """The custody of the programs that tools run; None where tools run no programs."""
        if self.git.sandbox is not None:
            return self.git.sandbox.custody
        if self.shell.sandbox is not None:
            return self.shell.sandbox.custody
        return self.ripgrep.custody if self.ripgrep else None

    async def sandbox(self) -> SandboxState:
        """The state of the sandbox with each of its walls tried, or why there is none."""
        return await state_of(self.shell.sandbox or self.git.sandbox, self.git.problem or "")

    @cached_property
    def _files(self) -> _Tools:
        """In the order of their groups, which is the order in which models see them."""
        tools = _tools(detection_tool(self.git.problem), list_files, find_files, read_file, search_tool(self.ripgrep))
        order = [*TOOL_GROUPS["environment_read"], *TOOL_GROUPS["workspace_read"]]
        return tuple(sorted(tools, key=lambda tool: order.index(tool.spec.name)))

    @cached_property
    def _asking(self) -> _Tools:
        return _tools(*ASKING_TOOLS)

    @cached_property
    def _outline(self) -> _Tools:
        return _tools(outline)

    @cached_property
    def _writing(self) -> _Tools:
        return _tools(*WritingTools(self.protected).tools())

    @cached_property
    def _git(self) -> _Tools:
        return _tools(*GitTools(self.git).tools(), *GitWriteTools(self.git).tools())

    @cached_property
    def _web(self) -> tuple[tuple[FunctionTool, str | None], ...]:
        """Each tool with the reason why it cannot be used, or None."""
        fetch, search = _tools(self.web.web_fetch, self.web.web_search)
        return ((fetch, self.web.fetch_problem), (search, self.web.search_problem))

    @cached_property
    def _shell(self) -> _Tools:
        return ShellTools(self.shell).tools()

    @cached_property
    def _skills(self) -> _Tools:
        return _tools(*SkillTools(self.skills).tools())

    @cached_property
    def _rules(self) -> _Tools:
        return _tools(*RULE_TOOLS)

    @cached_property
    def artifacts(self) -> ArtifactTools:
        """The tool that reads further in cut texts; it needs no workspace."""
        return ArtifactTools()

    @cached_property
    def _notes(self) -> _Tools:
        return _tools(*NOTE_TOOLS)


def _tools(*functions: Callable[..., object]) -> _Tools:
    return tuple(FunctionTool(function) for function in functions)


def _capabilities(tools: _Tools, problem: str | None = None) -> tuple[Capability, ...]:
    return tuple(capability(tool.spec, problem) for tool in tools)


PROVISIONED = "provisioned"
UNKNOWN_GROUP = "unknown_tool_group"

SHELL_WRITE = "shell_write"
DELEGATION_AND_SHELL_WRITES = frozenset({"delegation", SHELL_WRITE})
"""Groups that an agent never gets when its caller chose its groups."""

FINISH = "finish"
MCP = "mcp"
"""The group of the tools of MCP servers; most installations have none, so it is never reported as missing."""


class UnknownToolName(LookupError):
    """No tool and no group has this name; the message names the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


def expand(names: Iterable[str], also: Iterable[str] = ()) -> tuple[str, ...]:
    """The tool names that groups and tool names stand for, each once, in order. `also`: further tools that exist.

    Raises `UnknownToolName`.
    """
    known = known_names(TOOL_GROUPS) | frozenset(also)
    found: dict[str, None] = {}
    for name in names:
        if name not in known:
            near = close_matches(name, sorted(known), n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"The groups are {', '.join(TOOL_GROUPS)}."
            raise UnknownToolName(f"There is no tool or tool group {name!r}. {hint}")
        found.update(dict.fromkeys(TOOL_GROUPS.get(name, (name,))))
    return tuple(found)


def chosen(specs: Iterable[ToolSpec], names: Iterable[str]) -> tuple[str, ...]:
    """The names of those `specs` that `names` select: by tool name, by group, or by a glob for an MCP server's tools.

    Raises `UnknownToolName`.
    """
    available, wanted = list(specs), set(names)
    globs = {name for name in wanted if of_server(name)}
    tools = set(expand(wanted - globs, (spec.name for spec in available)))
    return tuple(
        spec.name
        for spec in available
        if spec.name in tools or spec.group in wanted or any(matches_glob(spec.name, glob) for glob in globs)
    )


@dataclass(frozen=True, slots=True)
class Provision:
    """`names` of the tools that the agent gets, in order; `missing`: names in its file or groups chosen without a tool.

    `notes` report unknown groups that the caller chose. `refused`: why the agent cannot be hired, if none of the chosen
    groups gives it a tool. `only_reading`: its tools are wrapped in `OnlyReading`.
    """

    names: tuple[str, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[AgentStep, ...] = ()
    refused: str = ""
    only_reading: bool = False

    def steps(self, all_names: Sequence[str]) -> tuple[AgentStep, ...]:
        """The first steps of the agent's record; `all_names` are all tools it got."""
        count = f"{len(all_names)} tool{'' if len(all_names) == 1 else 's'}"
        listed = f": {', '.join(all_names)}" if all_names else ""
        lacking = f"; not available here: {', '.join(self.missing)}" if self.missing else ""
        return (*self.notes, AgentStep(name=PROVISIONED, message=f"provisioned {count}{listed}{lacking}"))


def provision(
    available: Sequence[ToolSpec],
    definition: AgentDefinition,
    groups: Sequence[str] | None = None,
    *,
    shell_writes: bool = True,
) -> Provision:
    """The tools out of `available` that the definition allows its agent; `groups` (None = not chosen) narrow them.

    Groups never add tools that the agent's file does not allow, and never allow delegation and shell writes. If none of
    them gives it a tool, the agent is refused: it could do nothing with none, and must not get tools that nobody chose.
    Its commands may change the workspace only if its file allows `shell_write`, `shell_writes` is True, and its parent
    was allowed as much.
    """
    if groups is None:
        return _provision_by_file(definition, shell_writes, *available)
    available = [only_reading(spec) for spec in available]
    allowed_names = _allowed_by_file(available, definition)
    allowed = [spec for spec in allowed_names if spec.group not in DELEGATION_AND_SHELL_WRITES]
    known = [group for group in groups if group in TOOL_GROUPS]
    notes = [
        AgentStep(name=UNKNOWN_GROUP, message=f"there is no tool group {group[:100]!r}{suggestion(group, TOOL_GROUPS)}")
        for group in groups
        if group not in TOOL_GROUPS
    ]
    wanted = set(chosen(allowed, [group for group in known if group != SHELL_WRITE]))
    found = [spec for spec in allowed if spec.name in wanted]
    missing = [group for group in known if group != FINISH and not selects_any(found, group)]
    if not found and set(known) != {FINISH}:
        choices = dict.fromkeys(spec.group for spec in allowed if spec.group)
        return Provision((), refused=_refusal(definition.name, [note.message for note in notes], missing, choices))
    names = tuple(spec.name for spec in found)
    return Provision(names, tuple(dict.fromkeys(missing)), tuple(notes), only_reading=True)


@IdentityCache
def _provision_by_file(definition: AgentDefinition, shell_writes: bool, *available: ToolSpec) -> Provision:
    """As `provision` where no groups were chosen."""
    parent_writes = any(spec.reads_as for spec in available)
    reads = not (parent_writes and shell_writes and _allows_shell_writes(definition))
    usable = [only_reading(spec) for spec in available] if reads else available
    own = _allowed_by_file(usable, definition)
    return Provision(tuple(spec.name for spec in own), _missing(usable, own, definition), only_reading=reads)


def _allows_shell_writes(definition: AgentDefinition) -> bool:
    """Whether the agent's file lets its commands change the workspace: it names the group, or no tools at all."""
    named = definition.tools is None or SHELL_WRITE in definition.tools
    return named and SHELL_WRITE not in definition.disallowed_tools


def selects_any(found: Sequence[ToolSpec], name: str) -> bool:
    """Whether this name or group selects one of the tools. Raises `UnknownToolName`.

    The shell's tools belong to `shell_write` only where commands may write, so for it only the spec's own group counts.
    """
    return any(spec.group == name for spec in found) if name == SHELL_WRITE else bool(chosen(found, [name]))


def passed_on(available: Sequence[ToolSpec], definition: AgentDefinition) -> tuple[str, ...]:
    """The `available` tools that agents hired by this one may have although it does not have them itself."""
    return _passed_on(definition, *available)


@IdentityCache
def _passed_on(definition: AgentDefinition, *available: ToolSpec) -> tuple[str, ...]:
    refused = set(chosen(available, definition.disallowed_tools))
    return tuple(name for name in chosen(available, definition.passes_on) if name not in refused)


def _refusal(name: str, unknown: Sequence[str], empty: Sequence[str], choices: Iterable[str]) -> str:
    dead = [f"{name} has no tool of {' and '.join(dict.fromkeys(empty))} here"] if empty else []
    listed = ", ".join(choices)
    choose = f"Choose from {listed}, or leave" if listed else "Leave"
    return f"No tool is left for {name}: {'; '.join((*unknown, *dead))}. {choose} allowed_tool_groups out."


def _allowed_by_file(available: Sequence[ToolSpec], definition: AgentDefinition) -> list[ToolSpec]:
    names = [spec.name for spec in available]
    wanted = set(names if definition.tools is None else chosen(available, definition.tools))
    refused = set(chosen(available, _disallowed(definition)))
    return [spec for spec in available if spec.name in wanted - refused]


def _disallowed(definition: AgentDefinition) -> list[str]:
    """The names that the agent's file disallows.

    `shell_write` is not among them where the file names `shell_read` as a tool: the agent keeps the shell, read-only.
    """
    spared = {SHELL_WRITE} if SHELL_READ in (definition.tools or ()) else set()
    return [name for name in definition.disallowed_tools if name not in spared]


def _missing(available: Sequence[ToolSpec], own: Sequence[ToolSpec], definition: AgentDefinition) -> tuple[str, ...]:
    """The names in the file's `tools` that gave the agent no tool: groups without any tool here, tools not available.

    Names that the file also disallows do not count.
    """
    refused = set(chosen(available, _disallowed(definition)))
    named = definition.tools or ()
    in_groups = expanded(name for name in named if name in TOOL_GROUPS)
    spared = {FINISH, MCP, *definition.disallowed_tools, *in_groups}
    return tuple(
        name
        for name in named
        if name not in spared and not selects_any(own, name) and not refused.intersection(chosen(available, [name]))
    )
