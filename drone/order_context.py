"""What an order is run with, and the tools that its agents have of it: in its workspace and in worktrees."""

import json
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from drone.agent.budget import Budget
from drone.agent.control_router import ControlRouter
from drone.agent.definitions import Definitions
from drone.agent.inbox import People
from drone.agent.journal import Journal, RedactedJournal
from drone.agent.threads import OwnThreads
from drone.agent.toolset import ToolSet
from drone.agent.tree import Tree
from drone.agent.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.generation.port import Documents
from drone.hiring import Place
from drone.sandbox.paths import Workspace
from drone.tools.catalog import Toolbox
from drone.tools.environment import Detected, Look, Survey
from drone.tools.jobs import Jobs
from drone.tools.notes_port import Notes
from drone.tools.tool import Joined
from drone.tools.wrappers import Redacted
from drone.worktrees.isolation import Worktrees
from drone.worktrees.places import WorktreeHome
from mcc.contracts.limits import Limits
from mcc.contracts.order import EarlierTurn, WorkOrder
from mcc.contracts.shape import now
from mcc.redaction import Redactor


class Seen(NamedTuple):
    """What is seen first in an order's workspace: the agents that it may hire, and the rest, where it can be seen."""

    agents: Definitions
    survey: Survey | None


@dataclass(frozen=True, slots=True)
class OrderContext:
    """What an order is run with. `router` carries controls to its agents, and knows `tree` and `people` itself."""

    journal: Journal
    _: KW_ONLY
    router: ControlRouter | None = None
    tree: Tree | None = None
    """What the journal says of a turn that another drone began."""
    people: People | None = None
    """Who can be asked."""
    session: tuple[EarlierTurn, ...] = ()
    """The session's earlier turns, for a turn that begins; a turn that goes on has kept them."""
    workspace: Workspace | None = None
    """The order's workspace, if it has been opened; None = the crew opens it."""
    seen: Seen | None = None
    """What was seen in that; None = the crew looks."""
    documents: Documents | None = None
    """The document that the order generates or talks about."""
    notes: Notes | None = None
    """Those of the order's project."""
    reached: Collection[str] = ()
    """For a revert: calls of the other order that stay as they are."""

    def turn(self, order: WorkOrder, threads: OwnThreads, redactor: Redactor) -> Turn:
        """The turn of the order, begun or taken up again; secrets are taken out of what it writes."""
        journal, budget = RedactedJournal(self.journal, redactor), Budget(order.limits or Limits())
        return Turn.begun(journal, budget, self.router, self.tree, threads, redactor, self.people)


@dataclass(frozen=True, slots=True)
class OrderTools:
    """`home`: where worktrees lie; `notes`: those of the order's project, `jobs`: its background jobs."""

    toolbox: Toolbox
    home: WorktreeHome
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
            return self.within(tree, Detected(already=True), self.home.checkpoints_of(tree, self.order_id))

        protected = self.toolbox.protected
        return Worktrees(git, self.home, self.order_id, workspace, tools, protected, self.jobs, checkpoints)
