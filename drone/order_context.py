"""What an order runs with: its journal, controls and workspace, and the tools of its agents."""

import json
from collections.abc import Collection
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import NamedTuple

from drone.agent.control.control_router import ControlRouter
from drone.agent.control.inbox import People
from drone.agent.ports.history import HistoryPort
from drone.agent.ports.journal import Journal, RedactedJournal
from drone.agent.ports.write_access import SharedWriting, WriteAccess
from drone.agent.spending.budget import Budget
from drone.agent.state.tree import Tree
from drone.agent.turns.earlier import EarlierJournals, EarlierTurns
from drone.agent.turns.toolset import ToolSet
from drone.agent.turns.turn import Turn
from drone.checkpoints.recording import OrderCheckpoints
from drone.definitions import Definitions
from drone.generation.port import DocumentPort
from drone.hiring import Place
from drone.sandbox.places.paths import Workspace
from drone.threads import OwnThreads
from drone.tools.attachments import AttachmentPort
from drone.tools.catalog import Toolbox
from drone.tools.environment import Detected, Look, WorkspaceSurvey
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.notes_port import NotesPort
from drone.tools.frame.tool import Joined
from drone.tools.frame.wrappers import Redacted
from drone.worktrees.isolation import Worktrees
from drone.worktrees.places import WorktreeHome
from mcc.contracts.limits import Limits
from mcc.contracts.order import WorkOrder
from mcc.contracts.shape import now
from mcc.contracts.similar import hints_keywords
from mcc.redaction import Redactor
from mcc.transcript.environment import Environment
from mcc.transcript.opening import NO_OPENING, SessionOpening


class Seen(NamedTuple):
    """The first look at an order's workspace: the agents that the order may hire, and a survey of the files; None where
    the files cannot be surveyed."""

    agents: Definitions
    survey: WorkspaceSurvey | None


@hints_keywords
@dataclass(frozen=True, slots=True)
class OrderContext:
    """What an order runs with. `router` passes controls on to its agents; with a router, its tree and people are used
    instead of `tree` and `people`."""

    journal: Journal
    _: KW_ONLY
    router: ControlRouter | None = None
    tree: Tree | None = None
    """The state of a turn that another drone began, from its journal."""
    people: People | None = None
    """The people that agents can ask."""
    session: SessionOpening = NO_OPENING
    """What the turn is shown of its session."""
    workspace: Workspace | None = None
    """The opened workspace of the order; None = the crew opens it."""
    seen: Seen | None = None
    """The first look at that workspace; None = the crew looks."""
    access: WriteAccess | None = None
    """How its agents come to write in that workspace; None: whenever they like."""
    documents: DocumentPort | None = None
    """The document that the order generates or talks about."""
    notes: NotesPort | None = None
    """The notes of the order's project."""
    history: HistoryPort | None = None
    """The history of the order's session."""
    attachments: AttachmentPort | None = None
    """The files that the order was given."""
    earlier: EarlierJournals | None = None
    """The journals of the turns that it is shown."""
    reached: Collection[str] = ()
    """For a revert: ids of the reverted order's calls whose changes stay."""

    made: list[Turn] = field(default_factory=list)
    """The turn of the order, once there is one: what follows its agents' work goes on in it."""

    def turn(self, order: WorkOrder, threads: OwnThreads, redactor: Redactor) -> Turn:
        """The turn of the order, new or resumed, with secrets redacted in everything that it writes. There is one."""
        if not self.made:
            self.made.append(self._turn(order, threads, redactor))
        return self.made[0]

    def _turn(self, order: WorkOrder, threads: OwnThreads, redactor: Redactor) -> Turn:
        journal, budget = RedactedJournal(self.journal, redactor), Budget(order.limits or Limits())
        writing = None if self.access is None else SharedWriting(self.access)
        turn = Turn.begun(journal, budget, self.router, self.tree, threads, redactor, self.people, writing)
        for shown in self.session.shown:
            for digest in shown.artifacts:
                turn.artifacts.register(digest)
            turn.artifacts.register_pictures(*shown.pictures)
        turn.artifacts.history = self.history
        if self.earlier is not None and self.session.shown:
            return replace(turn, before=EarlierTurns(self.session.shown, self.earlier))
        return turn


@dataclass(frozen=True, slots=True)
class OrderTools:
    """The tools of one order's agents. `home`: the directory of worktrees; `notes`: the notes of the order's project;
    `history`: that of its session; `jobs`: the order's background jobs."""

    toolbox: Toolbox
    home: WorktreeHome
    redactor: Redactor
    order_id: str
    notes: NotesPort | None
    history: HistoryPort | None
    jobs: Jobs

    def within(
        self, workspace: Workspace | None, detected: Detected, checkpoints: OrderCheckpoints | None = None
    ) -> ToolSet:
        """The tools for a workspace, or those without one. They save what they change in `checkpoints` first."""
        tools = self.toolbox.tools(workspace, detected, checkpoints, self.notes, self.history, self.jobs)
        return Redacted(Joined(tools, self.toolbox.artifacts), self.redactor)

    def place(self, workspace: Workspace, look: Look, checkpoints: OrderCheckpoints) -> Place:
        """The place where the agents work, described to them by `look`."""
        workspace_name = json.dumps(workspace.root.name)
        parts = {
            "date": f"Today is {now():%A, %Y-%m-%d} (UTC).",
            "workspace": f"You work in the workspace {workspace_name}; paths are relative to it.",
            **look.parts,
        }
        environment = Environment({name: self.redactor.text(text) for name, text in parts.items() if text})
        return Place(environment, workspace.spellings, self._worktrees(workspace, checkpoints))

    def _worktrees(self, workspace: Workspace, checkpoints: OrderCheckpoints) -> Worktrees | None:
        """Worktrees for the agents that ask for one; None where this machine lacks git."""
        git = self.toolbox.git
        if git.problem is not None:
            return None

        def tools(tree: Workspace) -> ToolSet:
            return self.within(tree, Detected(already=True), self.home.checkpoints_of(tree, self.order_id))

        protected = self.toolbox.protected
        return Worktrees(git, self.home, self.order_id, workspace, tools, protected, self.jobs, checkpoints)
