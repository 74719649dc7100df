"""What git would open and wait for in vain: pipes, sockets and devices where it expects files."""

import errno
import os
import stat
import time
from collections.abc import Iterator

from drone.sandbox.paths import PathError, Workspace, kind_of
from drone.tools.naming import written

SECONDS = 2.0
MOST = 100_000
"""How long is looked, and at how many names; what is not looked at is left to the time limit of git itself."""

_READ_EVERYWHERE = frozenset({".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})
"""Files that git opens wherever it finds them among the working files."""


def no_file_in_git(workspace: Workspace, directory: str) -> str | None:
    """What in git's own directory is no file that git could read, as the middle of a sentence. Blocks."""
    return next(_none_files(workspace, directory, None), None)


def no_file_among_working_files(workspace: Workspace) -> str | None:
    """The same of the files that git reads in every directory of the working files. Blocks."""
    return next(_none_files(workspace, ".", _READ_EVERYWHERE), None)


def _none_files(workspace: Workspace, top: str, names: frozenset[str] | None) -> Iterator[str]:
    """Those of these names (None = of all) below `top` that are neither files nor directories, links looked through."""
    until, seen = time.monotonic() + SECONDS, 0
    left = [top]
    while left and seen < MOST and time.monotonic() < until:
        here = left.pop()
        try:
            fd = workspace.open_directory(here, symlinks=False)
        except PathError:
            continue
        try:
            for entry in workspace.entries(fd):
                seen += 1
                path = entry.name if here == "." else f"{here}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if names is None or entry.name != ".git":
                        left.append(path)
                elif (names is None or entry.name in names) and (kind := _kind(workspace, path, entry)):
                    yield f"{written(path)} is {kind}"
        finally:
            os.close(fd)


def _kind(workspace: Workspace, path: str, entry: "os.DirEntry[str]") -> str | None:
    """What it is; None for a regular file, for what a link to a directory or outside of the workspace leads to."""
    try:
        mode = _mode_behind(workspace, path) if entry.is_symlink() else entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        return "a socket or device" if error.errno in (errno.ENXIO, errno.ENODEV) else None
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else kind_of(mode)


def _mode_behind(workspace: Workspace, link: str) -> int:
    """What a link within the workspace leads to. Raises OSError when there is nothing, or it may not be followed."""
    try:
        fd = workspace.open_beneath(link)
    except PathError as error:
        raise error.__cause__ if isinstance(error.__cause__, OSError) else OSError(errno.EACCES, "") from error
    try:
        return os.fstat(fd).st_mode
    finally:
        os.close(fd)
