"""The tools of this package: made once per process, bound to the workspace of each order, named for registration."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from drone.agent.definitions import shipped_prompts
from drone.agent.toolset import ToolSet
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.custody import Custody
from drone.sandbox.paths import Workspace
from drone.tools.artifact_tools import read_artifact
from drone.tools.environment import detection_tool
from drone.tools.environment_gate import Detected, EnvironmentGate
from drone.tools.files import FILE_TOOLS
from drone.tools.git import GitTools
from drone.tools.git_program import Git
from drone.tools.ripgrep import Ripgrep
from drone.tools.rules_and_skills import RULE_TOOLS, SkillTools
from drone.tools.search import search_tool
from drone.tools.tool import FunctionTool, FunctionTools
from mcc.contracts.drones import Capability
from mcc.definitions.rights import TOOL_GROUPS

_Made = tuple[FunctionTool, ...]


@dataclass(frozen=True)
class Toolbox:
    """The tools, with what they need of this machine and this installation: found and made once, for all orders."""

    ripgrep: Ripgrep | None
    git: Git
    skills: tuple[Path, ...]

    @classmethod
    def found(cls, prompts_dir: Path | str | None = None) -> "Toolbox":
        """Looks for programs and tries the sandbox, which takes some 20 ms; skills are the shipped ones and these."""
        own = () if prompts_dir is None else (Path(prompts_dir).expanduser(),)
        skills = tuple(prompts / "skills" for prompts in (*own, shipped_prompts()))
        sandbox = Bubblewrap.found()
        return cls(Ripgrep.found(custody=sandbox.custody if sandbox else None), Git.found(sandbox), skills)

    def tools(self, workspace: Workspace | Path | None, detected: Detected | None = None) -> ToolSet:
        """The tools of one order. A path is opened by its name, which raises `PathError` when it is no directory.

        Without a workspace there are skills alone; where git cannot be used, its tools are left out. `detected` is what
        a resumed order already knows.
        """
        if workspace is None:
            return FunctionTools(self._skills)
        git = () if self.git.problem else self._git
        opened = Workspace(workspace) if isinstance(workspace, Path) else workspace
        tools = FunctionTools((*self._files, *git, *self._skills, *self._rules), workspace=opened)
        return EnvironmentGate(tools, detected or Detected())

    def capabilities(self) -> tuple[Capability, ...]:
        """Every tool of this package, as a drone registers it; those that cannot be used here with their problem."""
        there = _capabilities((*self._files, *self._skills, *self._rules))
        return (*there, *_capabilities(self._git, self.git.problem), *_capabilities(_made(read_artifact)))

    @property
    def custody(self) -> Custody | None:
        """Who looks after the programs that tools run; None where none are run."""
        if self.git.sandbox is not None:
            return self.git.sandbox.custody
        return self.ripgrep.custody if self.ripgrep else None

    @property
    def sandbox(self) -> str:
        """The sandbox in a few words, for people."""
        return f"off: {self.git.problem}" if self.git.problem else "bubblewrap"

    @cached_property
    def _files(self) -> _Made:
        """In the order of their groups, in which models have always been shown them."""
        tools = _made(detection_tool(self.git.problem), *FILE_TOOLS, search_tool(self.ripgrep))
        order = [*TOOL_GROUPS["environment_read"], *TOOL_GROUPS["workspace_read"]]
        return tuple(sorted(tools, key=lambda tool: order.index(tool.spec.name)))

    @cached_property
    def _git(self) -> _Made:
        return _made(*GitTools(self.git).tools())

    @cached_property
    def _skills(self) -> _Made:
        return _made(*SkillTools(self.skills).tools())

    @cached_property
    def _rules(self) -> _Made:
        return _made(*RULE_TOOLS)


def _made(*functions: Callable[..., object]) -> _Made:
    return tuple(FunctionTool(function) for function in functions)


def _capabilities(tools: _Made, problem: str | None = None) -> tuple[Capability, ...]:
    """The first paragraph of each description says what the tool is for."""
    return tuple(
        Capability(name=tool.spec.name, description=tool.spec.description.partition("\n\n")[0], problem=problem)
        for tool in tools
    )
