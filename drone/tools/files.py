"""The tools `list_files` and `find_files`, and glob matching for tools that take paths."""

import os
from collections.abc import Callable
from typing import Annotated, Any

import re2
from pydantic import Field

from drone.sandbox.paths import PathError, PathMissing, Workspace
from drone.tools.display_text import display_path
from drone.tools.pattern import GlobError, expression
from drone.tools.tool import ToolContext, ToolFailed, tool
from drone.tools.walk import Found, Kind, Walk, folded, plural
from mcc.contracts.shape import Text
from mcc.rules.errors import close_matches

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
    found = _entries(walk)
    counts = [sum(entry.kind is kind for entry in found) for kind in (Kind.DIRECTORY, Kind.FILE)]
    head = f"{plural(counts[0], 'directory')}, {plural(counts[1], 'file')} in {display_path(path)} (depth {depth})"
    return "\n".join([head, *folded(found, limit), *(f"[{note}]" for note in walk.notes)])


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
    fits = matcher(pattern)
    walk = Walk(workspace_of(context), path, None, context.stop)
    files = [entry for entry in _entries(walk) if entry.kind is Kind.FILE]
    found = [file for file in files if not context.stop.is_set() and (fits(file.path) or fits(file.below))]
    head = f"{plural(len(found), 'file')} of {len(files):,} in {display_path(path)} match {display_path(pattern)}"
    return "\n".join([head, *folded(found, limit), *(f"[{note}]" for note in walk.notes)])


def workspace_of(context: ToolContext) -> Workspace:
    """The call's workspace. Raises `ToolFailed` if the order has none."""
    if context.workspace is None:
        raise ToolFailed("This order has no workspace, so there are no files to look at.")
    return context.workspace


def _entries(walk: Walk) -> list[Found]:
    try:
        return list(walk.entries())
    except PathMissing as missing:
        raise with_nearest(walk.workspace, missing, walk.start) from missing


def matcher(glob: str) -> Callable[[str], bool]:
    """A test whether a path matches the glob: against its last name if the glob has no slash, else the whole path.

    Raises `ToolFailed` when the glob is malformed.
    """
    bare = glob.removeprefix("./")
    try:
        bare.encode()
        source = ("" if "/" in bare else "(?s:.*/)?") + expression(bare, braces=True)
        options = re2.Options()
        options.log_errors = False
        compiled: Any = re2.compile(source, options)
    except (GlobError, UnicodeEncodeError, re2.error) as error:
        reason = error if isinstance(error, GlobError) else "it cannot be read."
        raise ToolFailed(f"The glob {glob[:200]!r} cannot be used: {reason}") from error
    return lambda path: compiled.fullmatch(os.fsencode(path)) is not None


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
