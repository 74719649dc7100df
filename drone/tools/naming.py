"""Names of files as tools write and take them: one per line, nothing hidden, near ones offered."""

import json
import os
from collections.abc import Callable
from typing import Any

import re2

from drone.sandbox.paths import PathError, PathMissing, Workspace
from drone.tools.glob import GlobError, expression
from drone.tools.tool import ToolFailed
from mcc.rules.errors import alike


def written(path: str) -> str:
    """`path` on one line: as it is, or as a JSON string when it holds what would not show (line ends, marks, bytes)."""
    return path if path.isprintable() and not path.startswith('"') else json.dumps(path)


def matcher(glob: str) -> Callable[[str], bool]:
    """Whether a path fits the glob: one without a slash is about the last name, any other about the whole path.

    Raises `ToolFailed`.
    """
    bare = glob.removeprefix("./")
    try:
        bare.encode()
        source = ("" if "/" in bare else "(?s:.*/)?") + expression(bare, braces=True)
        options = re2.Options()
        options.log_errors = False
        compiled: Any = re2.compile(source, options)
    except (GlobError, UnicodeEncodeError, re2.error) as error:
        said = error if isinstance(error, GlobError) else "it cannot be read."
        raise ToolFailed(f"The glob {glob[:200]!r} cannot be used: {said}") from error
    return lambda path: compiled.fullmatch(os.fsencode(path)) is not None


def with_nearest(workspace: Workspace, missing: PathMissing, path: str) -> ToolFailed:
    """The sentence of `missing`, with names of the same directory that look like the one that was asked for."""
    parent, _, name = path.rstrip("/").rpartition("/")
    try:
        fd = workspace.open_directory(parent or ("/" if path.startswith("/") else "."))
    except PathError:
        return ToolFailed(
            f"{missing} Its directory does not exist either; list_files and find_files show what is there."
        )
    try:
        siblings = sorted(entry.name for entry in workspace.entries(fd))
        near = alike(name, siblings, n=3)
    finally:
        os.close(fd)
    there = ", ".join(written(f"{parent}/{other}" if parent else other) for other in near)
    return ToolFailed(f"{missing} There is {there}." if near else f"{missing} find_files finds a file by its name.")
