"""The tools of one order: what its agents are told of its workspace, and what they have in there and in worktrees."""

import json
from dataclasses import dataclass

from drone.agent.toolset import ToolSet
from drone.checkpoints.recording import OrderCheckpoints
from drone.hiring import Place
from drone.sandbox.paths import Workspace
from drone.tools.catalog import Toolbox
from drone.tools.environment import Detected, Look
from drone.tools.jobs import Jobs
from drone.tools.notes_port import Notes
from drone.tools.tool import Joined
from drone.tools.wrappers import Redacted
from drone.worktrees.isolation import Worktrees
from drone.worktrees.places import Home
from mcc.contracts.shape import now
from mcc.redaction import Redactor


@dataclass(frozen=True, slots=True)
class OrderTools:
    """`home`: where worktrees lie; `notes`: those of the order's project, `jobs`: its background jobs."""

    toolbox: Toolbox
    home: Home
    redactor: Redactor
    order_id: str
    notes: Notes | None
    jobs: Jobs

    def within(
        self, workspace: Workspace | None, detected: Detected, checkpoints: OrderCheckpoints | None = None
    ) -> ToolSet:
        """Those for a workspace, or without one. What is changed goes into `checkpoints` first."""
        there = self.toolbox.tools(workspace, detected, checkpoints, self.notes, self.jobs)
        return Redacted(Joined(there, self.toolbox.artifacts), self.redactor)

    def place(self, workspace: Workspace, look: Look, checkpoints: OrderCheckpoints) -> Place:
        """Where the agents work; `look` is what was seen there."""
        opening = f"Today is {now():%A, %Y-%m-%d} (UTC). You work in the workspace {json.dumps(workspace.root.name)}"
        environment = self.redactor.text(f"{opening}; paths are relative to it.\n{look.text}".rstrip())
        return Place(environment, workspace.spellings, self._worktrees(workspace, checkpoints))

    def _worktrees(self, workspace: Workspace, checkpoints: OrderCheckpoints) -> Worktrees | None:
        """For agents that work in a worktree of their own; None where this machine has no git for them."""
        git = self.toolbox.git
        if git.problem is not None:
            return None

        def tools(tree: Workspace) -> ToolSet:
            return self.within(tree, Detected(already=True), self.home.kept(tree, self.order_id))

        protected = self.toolbox.protected
        return Worktrees(git, self.home, self.order_id, workspace, tools, protected, self.jobs, checkpoints)
