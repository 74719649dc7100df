"""The tools `list_files` and `find_files`, and what tools that take paths have in common."""

import os
from typing import Annotated

from pydantic import Field

from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.tools.files.glob import Glob
from drone.tools.files.walk import Kind, Walk, WalkedEntry, folded, plural
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text
from mcc.contracts.similar import close_matches

MAX_WHOLE_BYTES = 10_000_000
"""The largest file that is read without a range."""

DEFAULT_LIMIT = 200
"""Lines of a listing when the call names no limit."""

MAX_LIMIT = 2_000

LineNumber = Annotated[int, Field(ge=1)]
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT)]


@tool(idempotent=True, seconds=60, effects="read")
def list_files(
    context: ToolContext,
    path: Text = ".",
    depth: Annotated[int, Field(ge=1, le=50)] = 2,
    limit: Limit = DEFAULT_LIMIT,
) -> str:
    """Show what is in a directory of the workspace.

    One path per line; directories end in a slash, and are folded where there are too many: `src/mod0/ (50 files)`.
    What .gitignore names is left out.

    Args:
        path: The directory.
        depth: Levels to go down.
        limit: Lines at most.
    """
    walk = Walk(workspace_of(context), path, depth, context.stop)
    entries = _entries(walk)
    counts = [sum(entry.kind is kind for entry in entries) for kind in (Kind.DIRECTORY, Kind.FILE)]
    head = f"{plural(counts[0], 'directory')}, {plural(counts[1], 'file')} in {display_path(path)} (depth {depth})"
    return "\n".join([head, *folded(entries, limit), *(f"[{note}]" for note in walk.notes)])


@tool(idempotent=True, seconds=60, effects="read")
def find_files(context: ToolContext, pattern: Text, path: Text = ".", limit: Limit = DEFAULT_LIMIT) -> str:
    """Find files of the workspace by their name, with a glob.

    Without a slash it is looked for in every directory (`*.py`), with one held against the whole path
    (`src/**/*.{ts,tsx}`); case counts. Where there are too many, directories are folded: `src/mod0/ (50 files)`. What
    .gitignore names is left out.

    Args:
        pattern: The glob.
        path: The directory to look in.
        limit: Lines at most.
    """
    walk = Walk(workspace_of(context), path, None, context.stop)
    glob = Glob(pattern, walk.workspace)
    entries = _entries(walk)
    matching, files = glob.files(entries, context.stop), sum(entry.kind is Kind.FILE for entry in entries)
    head = f"{plural(len(matching), 'file')} of {files:,} in {display_path(path)} match {display_path(pattern)}"
    why = glob.notes if matching else glob.on_nothing(walk, entries)
    return "\n".join([head, *folded(matching, limit), *(f"[{note}]" for note in (*why, *walk.notes))])


def workspace_of(context: ToolContext) -> Workspace:
    """The call's workspace. Raises `ToolFailed` if the order has none."""
    if context.workspace is None:
        raise ToolFailed("This order has no workspace, so there are no files to look at.")
    return context.workspace


def _entries(walk: Walk) -> list[WalkedEntry]:
    try:
        return list(walk.entries())
    except PathMissing as missing:
        raise with_nearest(walk.workspace, missing, walk.start) from missing


def with_nearest(workspace: Workspace, missing: PathMissing, path: str) -> ToolFailed:
    """An error with the message of `missing` and the most similar names in the same directory."""
    parent, _, name = path.rstrip("/").rpartition("/")
    try:
        fd = workspace.open_directory(parent or ("/" if path.startswith("/") else "."))
    except PathError:
        return ToolFailed(
            f"{missing} Its directory does not exist either; list_files and find_files show what is there."
        )
    try:
        siblings = sorted(entry.name for entry in workspace.entries(fd))
        near = close_matches(name, siblings, n=3)
    finally:
        os.close(fd)
    similar = ", ".join(display_path(f"{parent}/{other}" if parent else other) for other in near)
    return ToolFailed(f"{missing} There is {similar}." if near else f"{missing} find_files finds a file by its name.")
