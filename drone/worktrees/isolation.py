"""Isolation of a subagent: its tools work in a worktree of its own, and at its end its work is merged back."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event

from drone.agent.ports.report import Report
from drone.agent.subagents.children import CannotHire
from drone.agent.turns.toolset import Output, Preview, StartedCall, ToolSet, preview_of
from drone.agent.turns.turn import Task, Turn
from drone.agent.turns.writing import hold_workspace
from drone.checkpoints.recording import NOTHING_CHANGED, CallCheckpoints, OrderCheckpoints
from drone.sandbox.places.paths import Workspace, WorkspaceGone
from drone.sandbox.places.worktree import Worktree
from drone.sandbox.protection.protected import Protected
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.jobs import Jobs
from drone.tools.frame.tool import ToolFailed, failure
from drone.tools.git.program import Git
from drone.worktrees.ending import TROUBLE, SavedWork, WorktreeOutcome, save, worktree_at, worktree_repository
from drone.worktrees.merging import Merging
from drone.worktrees.places import WorktreeDirectory, WorktreeHome, WorktreePage
from drone.worktrees.repository import Saved, WorkspaceGit
from mcc.contracts.entry import Origin
from mcc.contracts.git_facts import WorktreeEnded, WorktreeMade, WorktreeState
from mcc.contracts.journal import Outcome
from mcc.transcript.messages import ToolSpec

NAMESPACE = "refs/mcc"

IN_A_WORKTREE = (
    "You work in a git worktree of your own: your files are those of the workspace as it was when you began, without "
    "what git ignores. When you have completed your work it is merged back; others change the workspace meanwhile."
)
"""Tells an agent that it works in a worktree."""

IN_A_WORKSPACE = frozenset(
    {
        "environment_read",
        "workspace_read",
        "workspace_write",
        "diff_read",
        "git_read",
        "git_write",
        "shell_read",
        "shell_write",
    }
)
"""Groups of tools that work on files of the workspace."""

_TRIES, _AGAIN_SECONDS = 50, 0.1
"""How often, and at which interval, the lock is tried while a process that lost the order still holds it."""


@dataclass(slots=True)
class Worktrees:
    """The worktrees of one order. `tools` binds the order's tools to a workspace; `checkpoints` are those of the
    order's own workspace; `jobs` are its background programs. `protected`: paths that no merge changes.

    This process holds the lock on them from the first worktree until `close`.
    """

    git: Git
    home: WorktreeHome
    order_id: str
    workspace: Workspace
    tools: Callable[[Workspace], ToolSet]
    protected: Protected
    jobs: Jobs
    checkpoints: OrderCheckpoints | None = None
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Serialises making worktrees from the order's workspaces and merging them back."""

    _lock: int | None = None

    async def hold(self, turn: Turn) -> None:
        """Take the lock on the order's worktrees, unless it is held already. Raises `ToolFailed`, OSError."""
        for _ in range(_TRIES):
            if self._lock is None:
                self._lock = await turn.threads.tool(self.home.hold, self.order_id)
            if self._lock is not None:
                return
            await asyncio.sleep(_AGAIN_SECONDS)
        raise ToolFailed("another process of this machine is still at work in the worktrees of this order")

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def below(self, agent: str, above: ToolSet, parent: "Isolated | None") -> "Isolated":
        """The tools for an agent of this name, which has those of `above`. `parent`: the agent whose worktree it
        branches from, None = the order's own workspace."""
        return Isolated(self, agent, above, parent)


class Isolated:
    """The tool set of one agent that works in a worktree of its own between `enter` and `leave`."""

    def __init__(self, worktrees: Worktrees, agent: str, above: ToolSet, parent: "Isolated | None") -> None:
        self._all = worktrees
        self._agent = agent
        self._above = above
        self._parent = parent
        self._workspace: Worktree | None = None
        self._inside: ToolSet | None = None
        self._is_lost = False

    def specs(self) -> Sequence[ToolSpec]:
        return self._above.specs()

    async def call(self, call: StartedCall) -> Output:
        there = self._tools_for(call.name)
        return self._refusal(call.name) if there is None else await there.call(call)

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        there = self._tools_for(call.name)
        return self._refusal(call.name) if there is None else await preview_of(there, call)

    def _refusal(self, name: str) -> Output:
        if self._is_lost:
            return failure(str(WorkspaceGone()))
        return failure(f"{name} cannot be used in a worktree; leave that to who called you.", Outcome.DENIED)

    def _tools_for(self, name: str) -> ToolSet | None:
        """The tool set that runs this tool, None where the agent may not use it. A tool that reads or changes a
        workspace never runs outside the worktree."""
        inside = self._inside
        if inside is not None and any(spec.name == name for spec in inside.specs()):
            return inside
        groups = {spec.group for spec in self._above.specs() if spec.name == name}
        return None if groups & IN_A_WORKSPACE else self._above

    @property
    def workspace(self) -> Workspace:
        """Where the agent works: its worktree between `enter` and `leave`, otherwise its parent's workspace. Raises
        `WorkspaceGone`."""
        if self._is_lost:
            raise WorkspaceGone
        return self._workspace or self._outside

    @property
    def _outside(self) -> Workspace:
        return self._parent.workspace if self._parent else self._all.workspace

    async def enter(self, task: Task, turn: Turn) -> None:
        """Make the worktree of this record, or enter the existing one again. Raises `CannotHire`, `JournalError`."""
        known = _last(task, turn)
        if isinstance(known, WorktreeEnded):
            return
        place = self._all.home.place(self._all.order_id, task.record_id)
        try:
            async with self._all.one_at_a_time:
                await self._all.hold(turn)
                exists = known is not None and await turn.threads.tool(place.exists)
                if known is not None and not exists and self._has_written(task, turn):
                    self._is_lost = True
                    return
                page = self._page(known) if known else None
                if page is None or not exists:
                    page = await self._make(place, task, turn, known)
                await turn.threads.tool(place.remove_stale_locks)
                self._workspace = await self._worktree(place, turn)
        except TROUBLE as error:
            if known is None:
                with suppress(OSError):
                    await turn.threads.tool(place.remove)
            raise CannotHire(f"{self._agent} works in a worktree of its own, and none can be made: {error}") from error
        if known is None:
            fact = WorktreeMade(child_id=page.record_id, child=page.child, ref=page.ref, base=page.base, head=page.head)
            await turn.journal.write(_caller(task, turn), fact)
        self._inside = self._all.tools(self._workspace)

    async def leave(self, task: Task, turn: Turn, report: Report) -> WorktreeEnded | None:
        """Save the worktree and, if the agent has completed, merge it back. Raises `JournalError`."""
        known = _last(task, turn)
        workspace, self._workspace, self._inside = self._workspace, None, None
        is_lost, self._is_lost = self._is_lost, False
        if not isinstance(known, WorktreeMade) or (workspace is None and not is_lost):
            return known if isinstance(known, WorktreeEnded) else None
        place, page = self._all.home.place(self._all.order_id, task.record_id), self._page(known)
        if workspace is not None:
            # Background jobs may still write there; what is saved must be all.
            await self._all.jobs.end(workspace)
        async with self._all.one_at_a_time:
            outcome = await (self._lost(page, turn) if workspace is None else self._save(page, place, workspace, turn))
        if outcome.state is WorktreeState.EMPTY and outcome.kept is not None and outcome.kept.saved.tip != page.base:
            outcome = await self._bring_back(page, outcome, task, turn, report)
        ended = outcome.as_fact(page)
        await turn.journal.write(_caller(task, turn), ended)
        if outcome.is_safe:
            with suppress(OSError):  # what cannot be deleted now is deleted by `clear_up` when the order is over
                await turn.threads.tool(place.remove)
        return ended

    async def _make(self, place: WorktreeDirectory, task: Task, turn: Turn, known: WorktreeMade | None) -> WorktreePage:
        """Make the worktree. `known`: it was made before, on another machine; its ref has the work saved there."""
        ref = f"{NAMESPACE}/{self._all.order_id}/{task.record_id}"
        await turn.threads.tool(place.begin, ref)
        above = await self._repository(place, turn)
        if known is None:
            head = await above.commit_of("HEAD")
            base = start = await above.snapshot("base", [head] if head else [], f"What {self._agent} began with")
            await above.point(ref, base)
        else:
            head, base, start = known.head, known.base, await above.commit_of(ref) or known.base
        page = self._page(WorktreeMade(child_id=task.record_id, child=self._agent, ref=ref, base=base, head=head))
        worktree = await self._worktree(place, turn)
        await (await worktree_repository(self._all.git, worktree, turn.threads)).fill(start)
        await turn.threads.tool(place.complete, page)
        return page

    def _page(self, known: WorktreeMade) -> WorktreePage:
        """The page for a worktree that the journal knows."""
        return WorktreePage(
            order_id=self._all.order_id,
            record_id=known.child_id,
            child=known.child,
            workspace=str(self._all.workspace.root),
            ref=known.ref,
            base=known.base,
            head=known.head,
        )

    def _has_written(self, task: Task, turn: Turn) -> bool:
        """Whether the agent may have changed files in its worktree so far."""
        specs = self._above.specs()
        writing = {spec.name for spec in specs if spec.may_write and spec.group in IN_A_WORKSPACE}
        record = turn.tree.begun(task.record_id)
        if record is None:
            return False
        ended = {call.tool for call in record.receipts if call.outcome != Outcome.DENIED}
        begun = {call.name for call in record.open.started.values()} if record.open else set()
        return not writing.isdisjoint(ended | begun)

    async def _worktree(self, place: WorktreeDirectory, turn: Turn) -> Worktree:
        return await turn.threads.tool(worktree_at, place, self._outside)

    async def _repository(self, place: WorktreeDirectory, turn: Turn) -> WorkspaceGit:
        """The repository that the worktree branches from."""
        checkout = await self._all.git.opened(self._outside, turn.threads)
        scratch = await turn.threads.tool(Workspace, place.git)
        return await WorkspaceGit.opened(checkout, scratch, self._all.protected)

    async def _save(
        self, page: WorktreePage, place: WorktreeDirectory, worktree: Worktree, turn: Turn
    ) -> WorktreeOutcome:
        """Save the worktree. The outcome is that of a worktree from which nothing is merged."""
        try:
            repository = await worktree_repository(self._all.git, worktree, turn.threads)
            kept = await save(repository, page)
        except TROUBLE as error:
            if worktree.is_gone:
                return await self._lost(page, turn)
            return WorktreeOutcome(
                WorktreeState.KEPT, trouble=f"It could not be saved: {error}", where=str(place.directory)
            )
        return WorktreeOutcome(WorktreeState.EMPTY, kept, where=str(place.directory))

    async def _bring_back(
        self, page: WorktreePage, outcome: WorktreeOutcome, task: Task, turn: Turn, report: Report
    ) -> WorktreeOutcome:
        """Merge what is saved, once the order may write in its workspace."""
        if not report.completed:
            return replace(outcome, state=WorktreeState.KEPT, trouble="The agent did not complete.")
        # Waited for before the lock is taken, so that other agents make and merge their worktrees meanwhile.
        if self._parent is None and turn.writing is not None and not turn.writing.held:
            await hold_workspace(turn, page.record_id, _caller(task, turn))
        async with self._all.one_at_a_time:
            return await self._merge(page, outcome, turn)

    async def _merge(self, page: WorktreePage, outcome: WorktreeOutcome, turn: Turn) -> WorktreeOutcome:
        assert outcome.kept is not None
        tip, place = outcome.kept.saved.tip, self._all.home.place(page.order_id, page.record_id)
        merging = Merging(await self._repository(place, turn), page, place, turn.threads, self._all.protected)
        after = Aftermath(turn)
        try:
            merged = await merging.bring_back(tip, lambda paths: self._checkpointed(paths, page, turn, after))
        except TROUBLE as error:
            return replace(outcome, state=WorktreeState.KEPT, trouble=f"It could not be merged: {error}")
        state = WorktreeState.CONFLICT if merged.conflicts else WorktreeState.MERGED
        return replace(outcome, state=state, files=merged.files, conflicts=merged.conflicts, not_recorded=after.line)

    async def _lost(self, page: WorktreePage, turn: Turn) -> WorktreeOutcome:
        """The outcome for a deleted directory: only the commits that the agent made itself are left, on its ref."""
        try:
            checkout = await self._all.git.opened(self._outside, turn.threads)
            tip = await checkout.commit(page.ref)
        except TROUBLE:
            tip = page.base
        return WorktreeOutcome(WorktreeState.LOST, SavedWork(Saved(tip, ""), (), all_ignored=True))

    @asynccontextmanager
    async def _checkpointed(
        self, paths: Sequence[str], page: WorktreePage, turn: Turn, after: Aftermath
    ) -> AsyncIterator[None]:
        """Take a checkpoint of these paths in the order's own workspace, for the time in which they are changed. Raises
        `StoreBroken`, OSError."""
        if self._all.checkpoints is None or self._parent is not None:
            yield
            return
        call = StartedCall(page.record_id, "worktree", {}, turn.tree.records[page.record_id].origin, turn)
        checkpoints = CallCheckpoints(self._all.checkpoints, call, turn, Event())
        await checkpoints.before(page.record_id, [os.fsencode(path) for path in paths])
        try:
            yield
        finally:
            await after.recorded(checkpoints.changed(), NOTHING_CHANGED)


def _caller(task: Task, turn: Turn) -> Origin:
    above = turn.tree.begun(task.parent_id)
    assert above is not None
    return above.origin


def _last(task: Task, turn: Turn) -> WorktreeMade | WorktreeEnded | None:
    above = turn.tree.begun(task.parent_id)
    return None if above is None else above.children.worktrees.get(task.record_id)
