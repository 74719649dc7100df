"""The directories of worktrees on this machine, each with a page that describes it.

DIRECTORY/ORDER/RECORD/tree        the files, as the agent sees them
DIRECTORY/ORDER/RECORD/git         HEAD, index, scratch files: the part of the repository that is this worktree's own
DIRECTORY/ORDER/RECORD/made.json   the page, written last: without it, no agent has begun to work there
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.workspace_writer import delete_tree
from drone.sandbox.places.worktree import COMMON
from mcc.configuration.places import make_private_directory, private_opener
from mcc.contracts.shape import Closed, to_json

LOCK = "lock"
_GONE = ".gone"


class WorktreePage(Closed):
    """The page of a worktree: made for the agent `child` of record `record_id`, from the repository in `workspace` (a
    path on this machine).

    `base` is the commit of the files that it began with, `head` the repository's own last commit before that.
    """

    order_id: str
    record_id: str
    child: str
    workspace: str
    ref: str
    base: str
    head: str | None = None


@dataclass(frozen=True, slots=True)
class WorktreeDirectory:
    """One worktree's directory. Methods block, and raise OSError."""

    directory: Path

    @property
    def tree(self) -> Path:
        return self.directory / "tree"

    @property
    def git(self) -> Path:
        return self.directory / "git"

    @property
    def staged(self) -> Path:
        return self.directory / "staged"

    def page(self) -> WorktreePage | None:
        """Its page; None where there is none."""
        try:
            return WorktreePage.model_validate_json((self.directory / "made.json").read_bytes())
        except FileNotFoundError:
            return None

    def exists(self) -> bool:
        """Whether it was made on this machine and its files are still there."""
        return self.page() is not None and self.tree.is_dir()

    def begin(self, ref: str) -> None:
        """Make it anew, empty, with HEAD on this ref."""
        self.remove()
        for path in (self.tree, self.git):
            make_private_directory(path)
        (self.git / "HEAD").write_text(f"ref: {ref}\n")
        (self.git / "commondir").write_text(f"{COMMON}\n")  # git reads no environment variable for the location of refs

    def complete(self, page: WorktreePage) -> None:
        """Write its page. From then on an agent may have worked in it."""
        draft = self.directory / "made.new"
        with open(draft, "wb", opener=private_opener) as file:
            file.write(to_json(page))
            file.flush()
            # The page says that the worktree is whole, so it must not survive a crash as an empty file.
            os.fsync(file.fileno())
        draft.replace(self.directory / "made.json")

    def remove_stale_locks(self) -> None:
        """Remove the lock files of a git that was killed. Call it only while no git runs in there."""
        for lock in self.git.glob("*.lock"):
            lock.unlink(missing_ok=True)

    def stage(self) -> Path:
        """An empty directory for the files that are to be merged back."""
        delete_tree(self.staged)
        make_private_directory(self.staged)
        return self.staged

    def remove(self) -> None:
        """Delete it, including the remains of an interrupted deletion."""
        gone = self.directory.with_name(self.directory.name + _GONE)
        delete_tree(gone)
        if self.directory.exists():
            # Renamed first: a deletion that is cut off leaves nothing that looks like a worktree.
            self.directory.rename(gone)
            delete_tree(gone)


@dataclass(frozen=True, slots=True)
class WorktreeHome:
    """The worktrees of all drones that share this data directory."""

    directory: Path

    def place(self, order_id: str, record_id: str) -> WorktreeDirectory:
        return WorktreeDirectory(self.directory / order_id / record_id)

    @staticmethod
    def checkpoints_of(worktree: Workspace, order_id: str) -> OrderCheckpoints:
        """The checkpoints of a worktree, which are deleted with it."""
        return OrderCheckpoints(worktree, worktree.root.parent / "checkpoints", order_id)

    def orders(self) -> list[str]:
        """The ids of orders that have left something here. Blocks."""
        return _names(self.directory)

    def has(self, order_id: str) -> bool:
        """Whether this order has left something here. Fast: one look at a local directory of the drone."""
        return os.path.lexists(self.directory / order_id)

    def hold(self, order_id: str) -> int | None:
        """The lock on an order's worktrees, as a descriptor; None while another process has it. Blocks. Raises
        OSError."""
        make_private_directory(self.directory / order_id)
        fd = os.open(self.directory / order_id / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        return fd

    def places(self, order_id: str) -> list[WorktreeDirectory]:
        """The worktrees of an order, after finishing interrupted deletions. Blocks. Raises OSError."""
        above = self.directory / order_id
        for name in _names(above):
            if name.endswith(_GONE):
                delete_tree(above / name)
        return [WorktreeDirectory(above / name) for name in _names(above) if name != LOCK]

    def forget(self, order_id: str) -> None:
        """Delete the order's directory, unless there is a worktree in it. Blocks. Raises OSError."""
        if not self.places(order_id):
            (self.directory / order_id / LOCK).unlink(missing_ok=True)
            (self.directory / order_id).rmdir()


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
