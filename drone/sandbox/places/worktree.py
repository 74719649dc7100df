"""A git worktree as a workspace: its files, its own git directory, and the common git directory of the repository."""

import os
from pathlib import Path

from drone.sandbox.places.paths import PathError, Workspace
from drone.sandbox.places.private import Private

GIT = "/git"
COMMON = "/common"
"""Where the git in the sandbox sees the worktree's own git directory, and the common one."""


class Worktree(Workspace):
    """`common` is the git directory of the repository; `git` holds what belongs to this worktree alone: HEAD, index,
    scratch files.

    `above` is the path of the workspace that it was made from; absolute paths below it mean the same files in here.
    """

    def __init__(self, root: Path, git: Path, common: Workspace, *, above: Path, private: Private) -> None:
        """Raises `PathError`."""
        fd = _opened(root)
        super().__init__(root, fd=fd, also=above, private=private)
        self.git = Workspace(git)
        self.common = common


def common_of(workspace: Workspace, directory: str) -> Workspace:
    """The common git directory of a workspace, `directory` in a plain one; opened without following a link. Blocks.
    Raises `PathError`."""
    if isinstance(workspace, Worktree):
        return workspace.common
    return Workspace(workspace.root / directory, fd=workspace.open_directory(directory, symlinks=False))


def _opened(root: Path) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathError(f"The worktree {root.name} cannot be opened: {error.strerror}.") from error
