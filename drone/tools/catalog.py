"""The tools of this package: made once per process, bound to each order's workspace, registered, given out by group."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from drone.agent.definitions import shipped_prompts
from drone.agent.messages import SHELL_READ, ToolSpec
from drone.agent.remembered import Remembered
from drone.agent.threads import OwnThreads
from drone.agent.toolset import ToolSet
from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.contained import KIND as CONTAINER
from drone.sandbox.contained import Contained
from drone.sandbox.custody import Custody
from drone.sandbox.guard import FIXED
from drone.sandbox.limits import Limits
from drone.sandbox.paths import Workspace
from drone.sandbox.protected import Protected
from drone.sandbox.walls import state_of
from drone.tools.artifacts import ArtifactTools
from drone.tools.asking import ASKING_TOOLS
from drone.tools.environment import Detected, EnvironmentGate, Look, Survey, detection_tool, first_look
from drone.tools.files import find_files, list_files
from drone.tools.git import GitTools
from drone.tools.git_program import Git
from drone.tools.git_writing import GitWriteTools
from drone.tools.jobs import Jobs
from drone.tools.notes import NOTE_TOOLS
from drone.tools.notes_port import Notes
from drone.tools.offered import capability
from drone.tools.outline import outline
from drone.tools.own import NO_OWN, OwnTools
from drone.tools.reading import read_file
from drone.tools.ripgrep import Ripgrep
from drone.tools.rules_and_skills import RULE_TOOLS, SkillTools
from drone.tools.search import search_tool
from drone.tools.shell import NO_SHELL, Shell, ShellTools
from drone.tools.symbols import problem as outline_problem
from drone.tools.tool import FunctionTool, FunctionTools
from drone.tools.web import NO_WEB, WebTools
from drone.tools.wrappers import only_reading
from drone.tools.writing import WritingTools
from mcc.configuration.network import Sandbox
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import Capability, SandboxState
from mcc.contracts.journal import AgentStep
from mcc.definitions.front_matter import suggestion
from mcc.definitions.rights import TOOL_GROUPS, expanded, known_names, of_server
from mcc.rules.errors import alike
from mcc.rules.globs import fits

_Made = tuple[FunctionTool, ...]

DEFAULTS = Sandbox()


@dataclass(frozen=True)
class Toolbox:
    """The tools, with what they need of this machine and this installation: found and made once, for all orders."""

    ripgrep: Ripgrep | None
    git: Git
    skills: tuple[Path, ...]
    outline_problem: str | None = None
    """Why there is no tool `outline`."""
    own: OwnTools = NO_OWN
    web: WebTools = NO_WEB
    protected: Protected = field(default_factory=Protected)
    """What no tool changes."""
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
        """Looks for programs and tries the sandbox, which takes some 20 ms; skills are the shipped ones and these."""
        operators = () if prompts_dir is None else (Path(prompts_dir).expanduser(),)
        skills = tuple(prompts / "skills" for prompts in (*operators, shipped_prompts()))
        sandbox = Bubblewrap.found(limits=Limits.of(sandboxing), protected=protected)
        custody = sandbox.custody if sandbox else Custody()
        ripgrep = Ripgrep.found(custody=custody)
        contained = Contained(custody, limits=Limits.of(sandboxing), protected=protected)
        shell = Shell.found(contained if sandboxing.kind == CONTAINER else sandbox)
        return cls(ripgrep, Git.found(sandbox), skills, outline_problem(), own, web, protected, shell)

    def tools(
        self,
        workspace: Workspace | Path | None,
        detected: Detected | None = None,
        checkpoints: OrderCheckpoints | None = None,
        notes: Notes | None = None,
        jobs: Jobs | None = None,
    ) -> ToolSet:
        """The tools of one order. A path is opened by its name, which raises `PathError` when it is no directory.

        Without a workspace there are skills and the operator's own tools; the shell's tools, git's and `outline` are
        left out where they cannot be used. `detected` is what a resumed order already knows. `checkpoints`: where what
        the order changes is kept first, without which no tool changes a file; `notes` are those of its project, without
        which there are no tools for them; `jobs` are its background jobs.
        """
        web = tuple(tool for tool, problem in self._web if problem is None)
        own = (*self._asking, *(self._notes if notes else ()), *web, *(tool for tool, _ in self.own.tools))
        if workspace is None:
            return FunctionTools((*self._skills, *own), notes=notes)
        git = () if self.git.problem else self._git
        opened = Workspace(workspace) if isinstance(workspace, Path) else workspace
        outlines = () if self.outline_problem else self._outline
        shell = () if self.shell.problem else self._shell
        writing = self._writing if checkpoints is not None else ()
        functions = (*self._files, *outlines, *writing, *git, *shell, *self._skills, *self._rules, *own)
        tools = FunctionTools(functions, workspace=opened, checkpoints=checkpoints, notes=notes, jobs=jobs)
        return EnvironmentGate(tools, detected or Detected())

    async def look(self, survey: Survey | None, workspace: Workspace, threads: OwnThreads) -> Look:
        """What agents are told of an order's workspace before they begin; `survey` is of it."""
        return await first_look(survey, workspace, self.git, threads)

    def capabilities(self) -> tuple[Capability, ...]:
        """Every tool as a drone registers it; those that cannot be used here with their problem."""
        files = (*_capabilities(self._files), *_capabilities(self._writing))
        there = (*files, *_capabilities(self._outline, self.outline_problem))
        shipped = (*there, *_capabilities((*self._skills, *self._rules, *self._asking)))
        programs = (*_capabilities(self._git, self.git.problem), *_capabilities(self._shell, self.shell.problem))
        more = (*programs, *map(capability, self.artifacts.specs()), *_capabilities(self._notes))
        web = tuple(one for tool, problem in self._web for one in _capabilities((tool,), problem))
        return (*shipped, *more, *web, *self.own.capabilities())

    @property
    def custody(self) -> Custody | None:
        """Who looks after the programs that tools run; None where none are run."""
        if self.git.sandbox is not None:
            return self.git.sandbox.custody
        if self.shell.sandbox is not None:
            return self.shell.sandbox.custody
        return self.ripgrep.custody if self.ripgrep else None

    async def sandbox(self) -> SandboxState:
        """The sandbox, each of its walls tried; or why there is none."""
        return await state_of(self.shell.sandbox or self.git.sandbox, self.git.problem or "")

    @cached_property
    def _files(self) -> _Made:
        """In the order of their groups, in which models have always been shown them."""
        tools = _made(detection_tool(self.git.problem), list_files, find_files, read_file, search_tool(self.ripgrep))
        order = [*TOOL_GROUPS["environment_read"], *TOOL_GROUPS["workspace_read"]]
        return tuple(sorted(tools, key=lambda tool: order.index(tool.spec.name)))

    @cached_property
    def _asking(self) -> _Made:
        return _made(*ASKING_TOOLS)

    @cached_property
    def _outline(self) -> _Made:
        return _made(outline)

    @cached_property
    def _writing(self) -> _Made:
        return _made(*WritingTools(self.protected).tools())

    @cached_property
    def _git(self) -> _Made:
        return _made(*GitTools(self.git).tools(), *GitWriteTools(self.git).tools())

    @cached_property
    def _web(self) -> tuple[tuple[FunctionTool, str | None], ...]:
        """Each with why it is not there."""
        fetch, search = _made(self.web.web_fetch, self.web.web_search)
        return ((fetch, self.web.fetch_problem), (search, self.web.search_problem))

    @cached_property
    def _shell(self) -> _Made:
        return ShellTools(self.shell).tools()

    @cached_property
    def _skills(self) -> _Made:
        return _made(*SkillTools(self.skills).tools())

    @cached_property
    def _rules(self) -> _Made:
        return _made(*RULE_TOOLS)

    @cached_property
    def artifacts(self) -> ArtifactTools:
        """What reads on in a text that was cut; it needs no workspace."""
        return ArtifactTools()

    @cached_property
    def _notes(self) -> _Made:
        return _made(*NOTE_TOOLS)


def _made(*functions: Callable[..., object]) -> _Made:
    return tuple(FunctionTool(function) for function in functions)


def _capabilities(tools: _Made, problem: str | None = None) -> tuple[Capability, ...]:
    return tuple(capability(tool.spec, problem) for tool in tools)


PROVISIONED = "provisioned"
UNKNOWN_GROUP = "unknown_tool_group"

SHELL_WRITE = "shell_write"
DELEGATION_AND_SHELL_WRITES = frozenset({"delegation", SHELL_WRITE})
"""Groups that an agent whose caller chose its groups never has."""

FINISH = "finish"
MCP = "mcp"
"""The group of what MCP servers have; most installations have none, and nobody misses it then."""


class UnknownToolName(LookupError):
    """Neither a tool nor a group has this name; the message names the nearest."""

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
            raise UnknownToolName(_unknown(name, known))
        found.update(dict.fromkeys(TOOL_GROUPS.get(name, (name,))))
    return tuple(found)


def chosen(specs: Iterable[ToolSpec], names: Iterable[str]) -> tuple[str, ...]:
    """Those of `specs` that `names` stand for, by their own name or by the group they declare."""
    there, wanted = list(specs), set(names)
    globs = {name for name in wanted if of_server(name)}
    tools = set(expand(wanted - globs, (spec.name for spec in there)))
    return tuple(
        spec.name
        for spec in there
        if spec.name in tools or spec.group in wanted or any(fits(spec.name, glob) for glob in globs)
    )


def _unknown(name: str, known: frozenset[str]) -> str:
    near = alike(name, sorted(known), n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"The groups are {', '.join(TOOL_GROUPS)}."
    return f"There is no tool or tool group {name!r}. {hint}"


@dataclass(frozen=True, slots=True)
class Provision:
    """`names` of the tools that the agent gets, in their order; `missing` are names that its file or caller asked for.

    `notes` say what was wrong with the groups that its caller chose. `refused`, where none of them gives a tool: why,
    group by group. `only_reading`: it has the tools by `OnlyReading`.
    """

    names: tuple[str, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[AgentStep, ...] = ()
    refused: str = ""
    only_reading: bool = False

    def steps(self, all_names: Sequence[str]) -> tuple[AgentStep, ...]:
        """The steps that the agent's record begins with; `all_names` are the tools it has in the end."""
        count = f"{len(all_names)} tool{'' if len(all_names) == 1 else 's'}"
        listed = f": {', '.join(all_names)}" if all_names else ""
        lacking = f"; not available here: {', '.join(self.missing)}" if self.missing else ""
        said = f"provisioned {count}{listed}{lacking}"
        return (*self.notes, AgentStep(name=PROVISIONED, message=said))


def provision(
    there: Sequence[ToolSpec],
    definition: AgentDefinition,
    groups: Sequence[str] | None = None,
    *,
    shell_writes: bool = True,
) -> Provision:
    """What the definition lets its agent have of `there`; `groups` (None = not chosen) leave less of it.

    Groups never give an agent what its file does not, nor delegation and shell writes. Where none of them gives it a
    tool, it is not to be hired: with none it could do nothing, and with all it would have what nobody chose. Without
    `shell_writes`, where its file does not name that group, and below one whose commands change no workspace, its own
    change none.
    """
    if groups is None:
        return _provided(definition, shell_writes, *there)
    there = [only_reading(spec) for spec in there]
    own = _by_definition(there, definition)
    allowed = [spec for spec in own if spec.group not in DELEGATION_AND_SHELL_WRITES]
    known = [group for group in groups if group in TOOL_GROUPS]
    notes = [_unknown_group(group) for group in groups if group not in TOOL_GROUPS]
    wanted = set(chosen(allowed, [group for group in known if group != SHELL_WRITE]))
    found = [spec for spec in allowed if spec.name in wanted]
    missing = [group for group in known if group != FINISH and not _brought(found, group)]
    if not found and set(known) != {FINISH}:
        there_are = dict.fromkeys(spec.group for spec in allowed if spec.group)
        return Provision((), refused=_refused(definition.name, [note.message for note in notes], missing, there_are))
    names = tuple(spec.name for spec in found)
    return Provision(names, tuple(dict.fromkeys(missing)), tuple(notes), only_reading=True)


@Remembered
def _provided(definition: AgentDefinition, shell_writes: bool, *there: ToolSpec) -> Provision:
    """As `provision` where no groups were chosen."""
    above = any(spec.reads_as for spec in there)
    reads = not (above and shell_writes and _writes_by_shell(definition))
    had = [only_reading(spec) for spec in there] if reads else there
    own = _by_definition(had, definition)
    return Provision(tuple(spec.name for spec in own), _missing(had, own, definition), only_reading=reads)


def _writes_by_shell(definition: AgentDefinition) -> bool:
    """Whether commands of the agent may change the workspace: its file names the group, or no tools at all."""
    named = definition.tools is None or SHELL_WRITE in definition.tools
    return named and SHELL_WRITE not in definition.disallowed_tools


def _brought(found: Sequence[ToolSpec], name: str) -> bool:
    """Whether one of these is there by this name or group; that commands run is not yet that they write."""
    return any(spec.group == name for spec in found) if name == SHELL_WRITE else bool(chosen(found, [name]))


def passed_on(there: Sequence[ToolSpec], definition: AgentDefinition) -> tuple[str, ...]:
    """Tools of `there` that agents hired by this one may have although it has not got them itself."""
    return _passed_on(definition, *there)


@Remembered
def _passed_on(definition: AgentDefinition, *there: ToolSpec) -> tuple[str, ...]:
    refused = set(chosen(there, definition.disallowed_tools))
    return tuple(name for name in chosen(there, definition.passes_on) if name not in refused)


def _refused(name: str, unknown: Sequence[str], empty: Sequence[str], there: Iterable[str]) -> str:
    dead = [f"{name} has no tool of {' and '.join(dict.fromkeys(empty))} here"] if empty else []
    listed = ", ".join(there)
    choose = f"Choose of {listed}, or leave" if listed else "Leave"
    return f"No tool is left for {name}: {'; '.join((*unknown, *dead))}. {choose} allowed_tool_groups out."


def _by_definition(there: Sequence[ToolSpec], definition: AgentDefinition) -> list[ToolSpec]:
    names = [spec.name for spec in there]
    wanted = set(names if definition.tools is None else chosen(there, definition.tools))
    refused = set(chosen(there, _disallowed(definition)))
    return [spec for spec in there if spec.name in wanted - refused]


def _disallowed(definition: AgentDefinition) -> list[str]:
    """What its file forbids; without writing by the shell, reading by it is left where the file names that too."""
    spared = {SHELL_WRITE} if SHELL_READ in (definition.tools or ()) else set()
    return [name for name in definition.disallowed_tools if name not in spared]


def _missing(there: Sequence[ToolSpec], own: Sequence[ToolSpec], definition: AgentDefinition) -> tuple[str, ...]:
    """Names in the file's `tools` that brought nothing: a group of which nothing is there, a tool that is not."""
    refused = set(chosen(there, _disallowed(definition)))
    named = definition.tools or ()
    in_groups = expanded(name for name in named if name in TOOL_GROUPS)
    spared = {FINISH, MCP, *definition.disallowed_tools, *in_groups}
    asked = [name for name in named if name not in spared]
    return tuple(name for name in asked if not _brought(own, name) and not refused.intersection(chosen(there, [name])))


def _unknown_group(group: str) -> AgentStep:
    near = suggestion(group, TOOL_GROUPS)
    return AgentStep(name=UNKNOWN_GROUP, message=f"there is no tool group {group[:100]!r}{near}")
