"""The git repository of a workspace: its location, its sanitized configuration, and entries that git cannot read."""

import errno
import os
import posixpath
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from drone.sandbox.places.paths import PathDenied, PathError, PathMissing, Workspace, kind_of
from drone.sandbox.places.worktree import COMMON, GIT, Worktree
from drone.tools.files.walk import read_up_to
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolFailed
from mcc.contracts.journal import Outcome
from mcc.rules.patterns import Pattern

LOOK_SECONDS = 2.0
LOOK_NAMES = 100_000
"""Limits of the search for entries that git cannot read; git's own time limit covers the rest."""

_READ_EVERYWHERE = frozenset({".gitattributes", ".gitignore", ".gitmodules", ".mailmap"})
"""Files that git reads in any directory of the working files."""

_POINTER_BYTES = 4_096
_NAME = "[A-Za-z0-9][A-Za-z0-9_./-]*"
_SWITCH = "true|false|yes|no|on|off|0|1"

_KEPT = tuple(
    (Pattern(key), Pattern(value))
    for key, value in (
        (r"core\.repositoryformatversion", "[01]"),
        (r"core\.(?:filemode|ignorecase|symlinks|precomposeunicode|sparsecheckout|sparsecheckoutcone)", _SWITCH),
        (r"core\.autocrlf", "true|false|input"),
        (r"core\.eol", "lf|crlf|native"),
        (r"extensions\.objectformat", "sha1|sha256"),
        (r"extensions\.refstorage", "files|reftable"),
        (rf"branch\.{_NAME}\.remote", rf"{_NAME}|\."),
        (rf"branch\.{_NAME}\.merge", _NAME),
        (rf"remote\.{_NAME}\.fetch", r"\+?refs/[A-Za-z0-9_./*-]+:refs/[A-Za-z0-9_./*-]+"),
    )
)
"""The keys of a repository's own configuration that git gets to see, with their permitted values.

They say how the repository's files are read. No key that names a program, a file or an address is among them: a
repository is untrusted, and its configuration could run commands (fsmonitor, filters, textconv, hooks, transports)
whenever someone reads it.
"""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository: `directory` is its git directory, relative to the workspace; `configured`: it has a file `config`.

    `linked`: the repository lies elsewhere, and the workspace is one of its worktrees. `files`: the directory of its
    working files.
    """

    directory: str
    bare: bool = False
    configured: bool = True
    linked: bool = False
    files: str = "."

    @property
    def config(self) -> str:
        return posixpath.normpath(f"{self.directory}/config")

    def place(self, workspace: str) -> Mapping[str, str]:
        """Environment variables that fix all of git's directories, so that no file of the repository can redirect it.

        `workspace` is the workspace's path in the sandbox.
        """
        if self.linked:
            return {"GIT_DIR": GIT, "GIT_COMMON_DIR": COMMON, "GIT_WORK_TREE": workspace}
        directory = workspace if self.bare else f"{workspace}/{self.directory}"
        place = {"GIT_DIR": directory, "GIT_COMMON_DIR": directory}
        return place if self.bare else {**place, "GIT_WORK_TREE": posixpath.normpath(f"{workspace}/{self.files}")}


def repository_of(workspace: Workspace) -> Repository:
    """The repository at the workspace's root. Raises `ToolFailed` or `PathError` if there is none that may be used."""
    workspace.check()
    if isinstance(workspace, Worktree):
        return replace(_at(workspace.common, "."), directory=COMMON, linked=True)
    try:
        os.close(workspace.open_directory(".git", symlinks=False))
    except PathMissing:
        return _bare(workspace)
    except PathDenied as denied:
        raise PathDenied(
            "The .git of this workspace is a symbolic link, so the git tools do not follow it."
        ) from denied
    except PathError:
        return _by_pointer(workspace)
    return _at(workspace, ".git")


def git_directory_of(workspace: Workspace, path: str) -> str:
    """The git directory of the repository whose files begin at `path`, relative to the workspace.

    Raises `PathMissing` if there is none, `PathError` if it does not lie in the workspace, and `ToolFailed`.
    """
    try:
        os.close(workspace.open_directory(f"{path}/.git", symlinks=False))
        return f"{path}/.git"
    except PathMissing:
        raise
    except PathError:
        target = _pointer(workspace, f"{path}/.git")
    own = target if target.startswith("/") else f"{path}/{target}"
    directory = os.fsdecode(posixpath.normpath(workspace.relative(own)))
    try:
        os.close(workspace.open_directory(directory, symlinks=False))
    except PathMissing as missing:  # not the same as a submodule without a `.git`
        raise PathError(str(missing)) from missing
    return directory


def submodule_at(workspace: Workspace, directory: str, files: str) -> Repository:
    """The repository of a submodule. Raises `ToolFailed` and `PathError` if it may not be used."""
    return replace(_at(workspace, directory), files=files)


def sanitized_config(listed: bytes) -> bytes:
    """A configuration file of the permitted entries only; `listed` is the output of `git config --null --list`."""
    lines: list[str] = []
    for entry in listed.decode("utf-8", "replace").split("\0"):
        key, newline, value = entry.partition("\n")
        value = value if newline else "true"
        if any(known.fullmatch(key) and allowed.fullmatch(value) for known, allowed in _KEPT):
            section, _, rest = key.partition(".")
            name, _, variable = rest.rpartition(".")
            lines += [f'[{section} "{name}"]\n' if name else f"[{section}]\n", f"\t{variable} = {value}\n"]
    return "".join(lines).encode()


def _at(workspace: Workspace, directory: str) -> Repository:
    if wrong := next(_irregular_entries(workspace, directory, None), None):
        raise ToolFailed(f"{wrong}, not a regular file, so git cannot read this repository.", Outcome.DENIED)
    path = posixpath.normpath(f"{directory}/config")
    try:
        workspace.open_file(path, symlinks=False).close()
    except PathMissing:
        return Repository(directory, configured=False)
    return Repository(directory)


def _by_pointer(workspace: Workspace) -> Repository:
    """The repository that a file `.git` points to, if it lies inside the workspace."""
    target = _pointer(workspace, ".git")
    try:
        directory = os.fsdecode(posixpath.normpath(workspace.relative(target)))
        os.close(workspace.open_directory(directory, symlinks=False))
    except PathError as error:
        raise ToolFailed(
            "This workspace is a worktree or submodule: its .git points to a git directory that is not inside the "
            "workspace, so the git tools are off here. Read its files, or ask for an order in the main repository.",
            Outcome.DENIED,
        ) from error
    return _at(workspace, directory)


def _pointer(workspace: Workspace, path: str) -> str:
    """Where a file `.git` says that its repository is."""
    with workspace.open_file(path, symlinks=False) as file:
        line = os.fsdecode(read_up_to(file.fileno(), _POINTER_BYTES)).strip()
    if not line.startswith("gitdir:"):
        raise ToolFailed(f"The file {display_path(path)} does not say where its repository is; there is none to read.")
    return line.removeprefix("gitdir:").strip()


def _bare(workspace: Workspace) -> Repository:
    if all(_exists(workspace, name) for name in ("HEAD", "objects", "refs")):
        repository = _at(workspace, ".")
        return Repository(".", bare=True, configured=repository.configured)
    if _lies_in_a_repository(workspace):
        raise ToolFailed(
            "The workspace is a directory inside a git repository that begins above it. What lies above a workspace is "
            "not visible, so the git tools are off here; an order for the whole repository would have them."
        )
    raise ToolFailed("There is no git repository at the root of the workspace, so there is nothing for git to tell.")


def _lies_in_a_repository(workspace: Workspace) -> bool:
    """Whether a directory above the workspace's root holds a `.git`."""
    for number in range(len(workspace.root.parents)):
        try:
            os.stat("../" * (number + 1) + ".git", dir_fd=workspace.fd, follow_symlinks=False)
        except OSError:
            continue
        return True
    return False


def _exists(workspace: Workspace, name: str) -> bool:
    try:
        os.close(workspace.open_beneath(name, symlinks=False))
    except PathError:
        return False
    return True


def pathspec(workspace: Workspace, path: str | None) -> tuple[str, ...]:
    """The arguments that restrict a command to `path`; none for the whole workspace. Raises `PathDenied`.

    The file need not exist, because history holds deleted files. git takes the path literally and follows no link.
    """
    if path is None:
        return ()
    normal = os.fsdecode(posixpath.normpath(workspace.relative(path)))
    parts = normal.split("/")
    if parts[0] == "..":
        raise PathDenied(f"{display_path(path)} is outside the workspace; name paths relative to the workspace.")
    if ".git" in parts:
        raise PathDenied(f"{display_path(path)} is git's own and is no path of a commit.")
    return () if normal == "." else ("--", normal)


def unreadable_working_file(workspace: Workspace) -> str | None:
    """A file that git reads in any directory, such as .gitattributes, and that is no regular file: "PATH is a pipe".

    None if there is none. Blocks.
    """
    return next(_irregular_entries(workspace, ".", _READ_EVERYWHERE), None)


def _irregular_entries(workspace: Workspace, top: str, names: frozenset[str] | None) -> Iterator[str]:
    """A sentence, "PATH is a KIND", for each entry below `top` that is neither a file nor a directory.

    Only entries of these `names` count (None = all); a link counts as what it leads to.
    """
    until, seen = time.monotonic() + LOOK_SECONDS, 0
    left = [top]
    while left and seen < LOOK_NAMES and time.monotonic() < until:
        directory = left.pop()
        try:
            fd = workspace.open_directory(directory, symlinks=False)
        except PathError:
            continue
        try:
            for entry in workspace.entries(fd):
                seen += 1
                path = entry.name if directory == "." else f"{directory}/{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    if names is None or entry.name != ".git":
                        left.append(path)
                elif (names is None or entry.name in names) and (kind := _kind(workspace, path, entry)):
                    yield f"{display_path(path)} is {kind}"
        finally:
            os.close(fd)


def _kind(workspace: Workspace, path: str, entry: "os.DirEntry[str]") -> str | None:
    """The kind of an entry that is neither file nor directory, else None; None for links out of the workspace, too."""
    try:
        mode = _target_mode(workspace, path) if entry.is_symlink() else entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        return "a socket or device" if error.errno in (errno.ENXIO, errno.ENODEV) else None
    return None if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else kind_of(mode)


def _target_mode(workspace: Workspace, link: str) -> int:
    """The mode of a link's target. Raises OSError if the target does not exist or may not be opened."""
    try:
        fd = workspace.open_beneath(link)
    except PathError as error:
        raise error.__cause__ if isinstance(error.__cause__, OSError) else OSError(errno.EACCES, "") from error
    try:
        return os.fstat(fd).st_mode
    finally:
        os.close(fd)
