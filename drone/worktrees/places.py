"""Where worktrees lie on this machine, each with a page that says whose it is.

DIRECTORY/ORDER/RECORD/tree        the files, as the agent sees them
DIRECTORY/ORDER/RECORD/git         HEAD, index, scratch files: what this worktree alone has of the repository
DIRECTORY/ORDER/RECORD/made.json   written last: without it, nobody has begun to work there
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.paths import Workspace
from drone.sandbox.workspace_writer import delete_tree
from drone.sandbox.worktree import COMMON
from mcc.configuration.places import make_private_directory, private_opener
from mcc.contracts.shape import Closed, to_json

LOCK = "lock"
_GONE = ".gone"


class Made(Closed):
    """A worktree at its beginning: for the agent `child` of record `record_id`, of the repository in
    `workspace` (a path on this machine).

    `base` is the commit of what it began with, `head` the last commit before that.
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

    def made(self) -> Made | None:
        """What its page says; None where there is none."""
        try:
            return Made.model_validate_json((self.directory / "made.json").read_bytes())
        except FileNotFoundError:
            return None

    def is_there(self) -> bool:
        """Whether it was made here, and its files lie where they were."""
        return self.made() is not None and self.tree.is_dir()

    def begin(self, ref: str) -> None:
        """Make it anew, empty, with a HEAD that is this ref."""
        self.remove()
        for path in (self.tree, self.git):
            make_private_directory(path)
        (self.git / "HEAD").write_text(f"ref: {ref}\n")
        (self.git / "commondir").write_text(f"{COMMON}\n")  # for refs git asks no environment

    def complete(self, made: Made) -> None:
        """From here on somebody may have worked in it."""
        draft = self.directory / "made.new"
        with open(draft, "wb", opener=private_opener) as page:
            page.write(to_json(made))
            page.flush()
            os.fsync(page.fileno())
        draft.replace(self.directory / "made.json")

    def take_up(self) -> None:
        """Nobody is at work in it: what a git that was killed locked is free again."""
        for lock in self.git.glob("*.lock"):
            lock.unlink(missing_ok=True)

    def stage(self) -> Path:
        """An empty directory for what is to be brought back."""
        delete_tree(self.staged)
        make_private_directory(self.staged)
        return self.staged

    def remove(self) -> None:
        """Delete it, also what was left half deleted."""
        gone = self.directory.with_name(self.directory.name + _GONE)
        delete_tree(gone)
        if self.directory.exists():
            self.directory.rename(gone)
            delete_tree(gone)


@dataclass(frozen=True, slots=True)
class Home:
    """All worktrees of this machine's drones."""

    directory: Path

    def place(self, order_id: str, record_id: str) -> WorktreeDirectory:
        return WorktreeDirectory(self.directory / order_id / record_id)

    @staticmethod
    def kept(worktree: Workspace, order_id: str) -> OrderCheckpoints:
        """The checkpoints of a worktree, which are there for as long as it is."""
        return OrderCheckpoints(worktree, worktree.root.parent / "checkpoints", order_id)

    def orders(self) -> list[str]:
        """Those that have left something here. Blocks."""
        return _names(self.directory)

    def has(self, order_id: str) -> bool:
        """Whether this order has left something here: one look at a directory of the drone's own."""
        return os.path.lexists(self.directory / order_id)

    def hold(self, order_id: str) -> int | None:
        """The lock on what an order has here, as a descriptor; None while another has it. Blocks. Raises OSError."""
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
        """Those of an order, what was left half deleted gone. Blocks. Raises OSError."""
        above = self.directory / order_id
        for name in _names(above):
            if name.endswith(_GONE):
                delete_tree(above / name)
        return [WorktreeDirectory(above / name) for name in _names(above) if name != LOCK]

    def forget(self, order_id: str) -> None:
        """Delete its directory, unless there is a worktree in it. Blocks. Raises OSError."""
        if not self.places(order_id):
            (self.directory / order_id / LOCK).unlink(missing_ok=True)
            (self.directory / order_id).rmdir()


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
