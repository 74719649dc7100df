"""This room is for the catalog: the tools of this package, assembled for one order, and named for registration."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drone.agent.definitions import shipped_prompts
from drone.agent.ports import ToolSet
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.custody import Custody
from drone.sandbox.paths import Workspace
from drone.tools.artifacts import read_artifact
from drone.tools.detected import Detected, EnvironmentGate
from drone.tools.environment import detection_tool
from drone.tools.files import find_files, list_files, read_file
from drone.tools.git import GitTools
from drone.tools.git_program import Git
from drone.tools.ripgrep import Ripgrep
from drone.tools.rules import rules_list, rules_read
from drone.tools.search import search_tool
from drone.tools.skills import SkillTools
from drone.tools.tool import FunctionTools
from mcc.contracts.drones import Capability

_Functions = tuple[Callable[..., object], ...]


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What tools need of this machine and this installation: found once, used for every order."""

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
        functions = (*self._files, *git, *self._skills, rules_list, rules_read)
        opened = Workspace(workspace) if isinstance(workspace, Path) else workspace
        return EnvironmentGate(FunctionTools(functions, workspace=opened), detected or Detected())

    def capabilities(self) -> tuple[Capability, ...]:
        """Every tool of this package, as a drone registers it; those that cannot be used here with their problem."""
        there = (*self._files, *self._skills, rules_list, rules_read)
        return (*_capabilities(there), *_capabilities(self._git, self.git.problem), *_capabilities((read_artifact,)))

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

    @property
    def _files(self) -> _Functions:
        return (detection_tool(self.git.problem), list_files, find_files, search_tool(self.ripgrep), read_file)

    @property
    def _git(self) -> _Functions:
        git = GitTools(self.git)
        return (git.git_status, git.git_diff, git.git_show, git.git_log, git.git_branches, git.git_ls_files)

    @property
    def _skills(self) -> _Functions:
        skills = SkillTools(self.skills)
        return (skills.skills_list, skills.skills_read)


def _capabilities(functions: _Functions, problem: str | None = None) -> tuple[Capability, ...]:
    return tuple(
        Capability(name=spec.name, description=_first(spec.description), problem=problem)
        for spec in FunctionTools(functions).specs()
    )


def _first(description: str) -> str:
    """The first paragraph of a description."""
    return description.partition("\n\n")[0]
