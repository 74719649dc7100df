"""What an order did with git, for its outcome: the base commit, the branch, its commits and its worktrees."""

from collections.abc import Iterable, Sequence

from drone.sandbox.places.paths import PathError, Workspace
from drone.threads import OwnThreads
from drone.tools.frame.tool import ToolFailed
from drone.tools.git.program import Git, readable
from mcc.contracts.changes import Changes, CommitMade, WorktreeChange
from mcc.contracts.fact import Fact
from mcc.contracts.git_facts import WorkspaceCommitted, WorktreeEnded, WorktreeMade, WorktreeState


def with_git_facts(changes: Changes, facts: Iterable[Fact]) -> Changes:
    """`changes` with base, branch, commits and worktrees from these facts, which are in journal order. A worktree whose
    end is not in the journal counts as kept."""
    known = list(facts)
    commits = [fact for fact in known if isinstance(fact, WorkspaceCommitted) and not fact.worktree]
    worktrees = {fact.child_id: _change(fact) for fact in known if isinstance(fact, WorktreeMade | WorktreeEnded)}
    heads = (fact.head for fact in known if isinstance(fact, WorktreeMade))
    begun = (commits[0].parent,) if commits else tuple(heads)
    return changes.model_copy(
        update={
            "base": next((base for base in begun if base), None),
            "branch": commits[-1].branch if commits else None,
            "commits": tuple(CommitMade(id=commit.commit, subject=commit.subject) for commit in commits),
            "worktrees": tuple(worktrees.values()),
        }
    )


def _change(fact: WorktreeMade | WorktreeEnded) -> WorktreeChange:
    ended = fact if isinstance(fact, WorktreeEnded) else None
    return WorktreeChange(
        record_id=fact.child_id,
        agent=fact.child,
        ref=fact.ref,
        state=ended.state if ended else WorktreeState.KEPT,
        conflicts=ended.conflicts if ended else (),
    )


async def with_current_head(changes: Changes, git: Git, workspace: Workspace, threads: OwnThreads) -> Changes:
    """`changes` with the current commit and branch of the repository, where the order's own commits tell none."""
    if changes.base is not None and changes.branch is not None:
        return changes
    try:
        checkout = await git.opened(workspace, threads)
        head = readable((await checkout.run("rev-parse", "--verify", "--quiet", "HEAD")).stdout).strip()
        branch = readable((await checkout.run("symbolic-ref", "--quiet", "--short", "HEAD")).stdout).strip()
    except (ToolFailed, PathError, OSError):
        return changes
    return changes.model_copy(update={"base": changes.base or head or None, "branch": changes.branch or branch or None})


def used_git(facts: Sequence[Fact]) -> bool:
    """Whether the order made a commit or a worktree."""
    return any(isinstance(fact, WorkspaceCommitted | WorktreeMade) for fact in facts)
