"""A workspace whose repository lies elsewhere: the files of a worktree, its own git directory, and the common one."""

import os
from pathlib import Path

from drone.sandbox.paths import PathError, Workspace
from drone.sandbox.private import Private

GIT = "/git"
COMMON = "/common"
"""Where the two directories are, for the git that runs in the sandbox."""


class Worktree(Workspace):
    """`common` is the git directory of the repository, `git` what this worktree alone has: HEAD, index, scratch files.

    `above`: how the workspace that it was made from is spelled; absolute paths in there mean the same in here.
    """

    def __init__(self, root: Path, git: Path, common: Workspace, *, above: Path, private: Private) -> None:
        """Raises `PathError`."""
        fd = _opened(root)
        super().__init__(root, fd=fd, also=above, private=private)
        self.git = Workspace(git)
        self.common = common


def common_of(workspace: Workspace, directory: str) -> Workspace:
    """git's own directory of a workspace, without a link on the way. Blocks. Raises `PathError`."""
    if isinstance(workspace, Worktree):
        return workspace.common
    return Workspace(workspace.root / directory, fd=workspace.open_directory(directory, symlinks=False))


def _opened(root: Path) -> int:
    try:
        return os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PathError(f"The worktree {root.name} cannot be opened: {error.strerror}.") from error
