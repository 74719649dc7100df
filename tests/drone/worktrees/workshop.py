"""An order whose subagents work in worktrees, with a scripted model and a real repository."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drone.agent.ports.journal import MemoryJournal
from drone.agent.ports.permits import Permits
from drone.agent.ports.report import Report
from drone.agent.ports.write_access import SharedWriting
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Task, Turn
from drone.definitions import Definitions
from drone.hiring import Hiring, Place
from drone.models.scripted import Author, ScriptedModel
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.guard import FIXED
from drone.sandbox.protection.protected import Protected
from drone.threads import OwnThreads
from drone.tools.files.listing import workspace_of
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.tool import FunctionTools, ToolContext, tool
from drone.tools.frame.wrappers import Only
from drone.tools.git.program import Git
from drone.tools.git.reading import GitTools
from drone.tools.git.writing import GitWriteTools
from drone.tools.shell.commands import NO_SHELL, Shell, ShellTools
from drone.worktrees.ending import clear_up
from drone.worktrees.isolation import Worktrees
from drone.worktrees.places import WorktreeHome
from mcc.contracts.git_facts import WorktreeEnded
from mcc.contracts.ids import root_record_id
from mcc.contracts.limits import Limits
from mcc.definitions.scopes import AgentFile, installed
from tests.drone.tools.git_scene import Scene

ORDER = "01900000-0000-7000-8000-000000000001"


@tool(name="write_file", group="workspace_write", effects="write", idempotent=True)
def write_file(context: ToolContext, path: str, content: str) -> str:
    """Write a file."""
    place = workspace_of(context).root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return "written"


@tool(name="delete_file", group="workspace_write", effects="write", idempotent=True)
def delete_file(context: ToolContext, path: str) -> str:
    """Delete a file."""
    (workspace_of(context).root / path).unlink(missing_ok=True)
    return "deleted"


@tool(name="list_files", effects="read", idempotent=True)
def list_files(context: ToolContext) -> str:
    """List the files."""
    root = workspace_of(context).root
    return " ".join(
        sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and ".git/" not in str(path))
    )


FILES = {
    "master": (
        "tools: [workspace_write, workspace_read, git_read, git_write, shell_write, delegation]",
        "spawns: [coder, plain]",
    ),
    "coder": (
        "tools: [workspace_write, workspace_read, git_read, git_write, shell_write, delegation]",
        "isolation: worktree",
        "result: text",
        "spawns: [coder]",
    ),
    "plain": ("tools: [workspace_write, workspace_read]", "result: text"),
}


def agent_files() -> Sequence[AgentFile]:
    return [
        AgentFile(name, f"{name}.md", "\n".join(("---", f"name: {name}", *lines, "---", f"Be {name}.")).encode())
        for name, lines in FILES.items()
    ]


class OneModel:
    """The same scripted model under every name."""

    def __init__(self, model: ScriptedModel) -> None:
        self.default = model

    def get(self, name: str) -> ScriptedModel:
        return self.default


@dataclass
class Workshop:
    """`scene` is the order's workspace, `data` the directory of the drone's worktrees."""

    git: Git
    scene: Scene
    data: Path
    journal: MemoryJournal = field(default_factory=lambda: MemoryJournal(ORDER))
    not_in_worktrees: frozenset[str] = frozenset()
    """Tools that only the order's own workspace has."""
    protected: Protected = FIXED
    jobs: Jobs = field(default_factory=Jobs)
    shell: Shell = NO_SHELL
    writing: SharedWriting | None = None

    @property
    def home(self) -> WorktreeHome:
        return WorktreeHome(self.data)

    def tools(self, workspace: Workspace) -> ToolSet:
        git_facts = (*GitTools(self.git).tools(), *GitWriteTools(self.git).tools())
        commands = () if self.shell.problem else ShellTools(self.shell).tools()
        functions: tuple[Any, ...] = (write_file, delete_file, list_files, *git_facts, *commands)
        there = FunctionTools(functions, workspace=workspace, jobs=self.jobs)
        if not workspace.root.is_relative_to(self.data):
            return there
        return Only(there, {spec.name for spec in there.specs()} - self.not_in_worktrees)

    async def run(
        self, script: Author, *, limits: Limits | None = None, again: bool = False, permits: Permits | None = None
    ) -> Report:
        """Run one order to its end; `again`: continue from its journal."""
        tree = Tree.of(self.journal.entries) if again else None
        turn = Turn.begun(self.journal, Budget(limits or Limits()), tree=tree, writing=self.writing)
        workspace = Workspace(self.scene.root)
        worktrees = Worktrees(self.git, self.home, ORDER, workspace, self.tools, self.protected, self.jobs)
        model = OneModel(ScriptedModel(script))
        place = Place(worktrees=worktrees)
        hiring = Hiring(Definitions(installed(agent_files())), model, turn, place=place, permits=permits or Permits())
        master = hiring.master("master", None, self.tools(workspace))
        try:
            return await master.run(Task("Go", turn.root or root_record_id(ORDER)), turn)
        finally:
            worktrees.close()

    @property
    def ended(self) -> list[WorktreeEnded]:
        return [entry.data for entry in self.journal.entries if isinstance(entry.data, WorktreeEnded)]

    @property
    def left(self) -> list[str]:
        """The names of the worktrees that are left on disk."""
        return [place.directory.name for order in self.home.orders() for place in self.home.places(order)]

    @property
    def refs(self) -> dict[str, str]:
        listed = self.scene.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/mcc")
        return dict(line.split(" ") for line in listed.splitlines())

    async def clear_up(self, opened: Callable[[str], Workspace] = Workspace) -> int:
        return await clear_up(self.git, self.home, ORDER, opened, OwnThreads())
