"""This room is for where a repository stands: its branch and commit, read from git's files without running git."""

from dataclasses import dataclass

from drone.sandbox.paths import PathDenied, PathError, PathMissing, Workspace
from drone.tools.walk import read_up_to
from mcc.rules.patterns import Pattern

_PACKED_BYTES = 20_000_000
_COMMIT = Pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


@dataclass(frozen=True, slots=True)
class Head:
    """`branch` None: detached; `commit` None: nothing is committed yet, or it cannot be told."""

    branch: str | None
    commit: str | None


def git_head(workspace: Workspace) -> tuple[Head | None, list[str]]:
    """The head of the repository at the workspace's root, None without one; and sentences on what cannot be told."""
    try:
        head = _read(workspace, ".git/HEAD", 4_096)
    except PathMissing:
        return None, _without(workspace)
    except (PathError, OSError) as error:
        return None, _without(workspace) or [f"Branch and commit are not told: {error}"]
    if not head.startswith("ref: "):
        return Head(None, _commit(head)), []
    reference = head.removeprefix("ref: ").strip()
    try:
        commit = _commit(_read(workspace, f".git/{reference}", 4_096))
    except (PathError, OSError):
        commit = _packed(workspace, reference)
    return Head(reference.removeprefix("refs/heads/"), commit), []


def _without(workspace: Workspace) -> list[str]:
    """Why there is no head to read, when there is a `.git` all the same."""
    try:
        pointer = _read(workspace, ".git", 4_096)
    except PathDenied:
        return [".git leads outside the workspace, so branch and commit are not told."]
    except (PathError, OSError):
        return []
    if pointer.startswith("gitdir:"):
        return [
            "This is a git worktree or submodule; its git directory is elsewhere, so branch and commit are not told."
        ]
    return []


def _packed(workspace: Workspace, reference: str) -> str | None:
    try:
        text = _read(workspace, ".git/packed-refs", _PACKED_BYTES)
    except (PathError, OSError):
        return None
    found = (line.partition(" ") for line in text.splitlines() if line.endswith(f" {reference}"))
    return next((_commit(commit) for commit, _, name in found if name == reference), None)


def _commit(text: str) -> str | None:
    return text.strip() if _COMMIT.fullmatch(text.strip()) else None


def _read(workspace: Workspace, path: str, size: int) -> str:
    with workspace.open_file(path, symlinks=False) as file:
        return read_up_to(file.fileno(), size).decode("utf-8", "replace")
