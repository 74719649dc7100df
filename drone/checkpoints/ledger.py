"""What the calls of an order did to its workspace, put together: path by path, and as people are told of it."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from drone.checkpoints.diff import FileDiff, file_diff, quoted
from drone.checkpoints.store import CheckpointStore, Move
from drone.checkpoints.tree import Node, Trees, differences
from drone.sandbox.protected import GIT
from mcc.contracts.changes import ChangedFile, CheckpointTaken

MOST_FILES = 10_000
"""Files that an order names; the diff says how many more there are."""

_LARGEST = 1_000_000
"""Bytes of a file of which the diff shows lines."""

_MOST_TEXT = 4_000_000
"""Characters of a diff."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What a path was before an order's calls, and after them; None = nothing was there."""

    path: bytes
    before: Node | None
    after: Node | None

    @property
    def differs(self) -> bool:
        return self.before is not self.after and not (self.before is not None and self.before.is_like(self.after))


def touched(trees: Trees, moves: Sequence[Move]) -> dict[bytes, Touched]:
    """The paths that these calls of an order changed, calls that are not over left out; in the order of the paths."""
    found: dict[bytes, tuple[Touched, int]] = {}
    for move in moves:
        if move.after is None or move.closed is None:
            continue
        for one in differences(trees, move.before, move.after):
            known = found.get(one.path)
            if known is None:
                found[one.path] = Touched(one.path, one.before, one.after), move.closed
            elif move.closed > known[1]:
                found[one.path] = Touched(one.path, known[0].before, one.after), move.closed
    return {path: found[path][0] for path in sorted(found) if found[path][0].differs}


def is_of_git(path: bytes) -> bool:
    """Whether it lies in the directory of a repository."""
    return os.fsencode(GIT) in path.split(b"/")


@dataclass(frozen=True, slots=True)
class Summary:
    """What an order changed: its files, and the whole of it as a unified diff."""

    files: tuple[ChangedFile, ...]
    diff: str
    checkpoints: tuple[CheckpointTaken, ...]


def summary(store: CheckpointStore, moves: Sequence[Move]) -> Summary | None:
    """None where the calls changed nothing. Directories and what is git's own are left out of the files."""
    everything = touched(store.tree, moves)
    if not everything:
        return None
    files, texts, length = list[ChangedFile](), list[str](), 0
    shown = [one for one in everything.values() if _is_file(one) and not is_of_git(one.path)]
    for one, source in _with_sources(shown):
        if len(files) == MOST_FILES:
            break
        diff = _diff(store, one, source) if length < _MOST_TEXT else FileDiff("", 0, 0)
        files.append(_changed(one, source, diff))
        texts.append(diff.text)
        length += len(diff.text)
    if len(files) < len(shown) or length >= _MOST_TEXT:
        texts.append(f"[not all is shown: {len(shown):,} files were changed]\n")
    taken = tuple(CheckpointTaken(after=move.seq - 1, id=move.id) for move in moves if move.seq is not None)
    return Summary(tuple(files), "".join(texts), taken)


def _is_file(one: Touched) -> bool:
    return any(node is not None and node.kind != "directory" for node in (one.before, one.after))


def _with_sources(files: Iterable[Touched]) -> Iterator[tuple[Touched, Touched | None]]:
    """Each with what it was moved from: a file of the same content that is gone, named once."""
    files = list(files)
    gone: dict[bytes, list[Touched]] = {}
    for one in files:
        if one.after is None and one.before is not None and one.before.kind == "file" and one.before.size:
            gone.setdefault(one.before.digest, []).append(one)
    sources: dict[bytes, Touched] = {}
    for one in files:
        if one.before is None and one.after is not None and (there := gone.get(one.after.digest)):
            sources[one.path] = there.pop(0)
    moved = {source.path for source in sources.values()}
    return ((one, sources.get(one.path)) for one in files if one.path not in moved)


def _diff(store: CheckpointStore, one: Touched, source: Touched | None) -> FileDiff:
    path = os.fsdecode(one.path)
    name = quoted(path)
    if source is not None:
        return FileDiff(f"rename from {quoted(os.fsdecode(source.path))}\nrename to {name}\n", 0, 0)
    before, after = (_content(store, node) for node in (one.before, one.after))
    if isinstance(before, str) or isinstance(after, str):
        why = next(one for one in (before, after) if isinstance(one, str))
        return FileDiff(f"--- a/{name}\n+++ b/{name}\n({why})\n", 0, 0)
    if before == after:
        modes = " to ".join(f"{node.mode:o}" for node in (one.before, one.after) if node is not None)
        return FileDiff(f"--- a/{name}\n+++ b/{name}\n(mode changed: {modes})\n", 0, 0)
    return file_diff(before, after, path)


def _content(store: CheckpointStore, node: Node | None) -> bytes | str | None:
    """A sentence instead of it where it is not shown."""
    if node is None or node.kind == "directory":
        return None
    if node.kind == "left_out":
        return "not kept, so not shown"
    found = store.content(node.digest, _LARGEST) if node.size <= _LARGEST else None
    return found if found is not None else f"{node.size:,} bytes, not shown"


def _changed(one: Touched, source: Touched | None, diff: FileDiff) -> ChangedFile:
    path = os.fsdecode(one.path)
    if source is not None:
        return ChangedFile(path=path, change="renamed", source=os.fsdecode(source.path))
    was, is_now = (node is not None and node.kind != "directory" for node in (one.before, one.after))
    how: Literal["added", "modified", "deleted"] = "modified" if was and is_now else "added" if is_now else "deleted"
    return ChangedFile(path=path, change=how, added=diff.added, removed=diff.removed)
