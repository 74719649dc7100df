"""The changes of an order to its workspace, computed from its checkpoints: path by path, and as a summary."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from drone.checkpoints.diff import FileDiff, file_diff, quoted
from drone.checkpoints.store import Checkpoint, CheckpointStore
from drone.checkpoints.tree import TreeEntry, Trees, differences
from drone.sandbox.protection.protected import GIT
from mcc.contracts.changes import ChangedFile, CheckpointTaken

MOST_FILES = 10_000
"""Most files in a summary; the diff says how many there are in all."""

_LARGEST = 1_000_000
"""Largest file in bytes whose lines the diff shows."""

_MOST_TEXT = 4_000_000
"""Most characters of the whole diff."""


@dataclass(frozen=True, slots=True)
class PathChange:
    """A path before an order's calls and after them; None = it did not exist. `shared`: between two of the calls
    somebody else changed it, too."""

    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None
    shared: bool = False

    @property
    def differs(self) -> bool:
        return self.before is not self.after and not (self.before is not None and self.before.is_like(self.after))


def path_changes(trees: Trees, checkpoints: Sequence[Checkpoint]) -> dict[bytes, PathChange]:
    """The changes by these checkpoints of an order, in the order in which its calls began; sorted by path. Open
    checkpoints are left out; where several calls changed a path, the call that was closed last determines its state
    after. Somebody else changed a path that a call finds in a state in which no earlier call found or left it."""
    changes: dict[bytes, tuple[PathChange, int]] = {}
    states: dict[bytes, list[TreeEntry | None]] = {}
    for checkpoint in checkpoints:
        if checkpoint.after is None or checkpoint.closed is None:
            continue
        for difference in differences(trees, checkpoint.before, checkpoint.after):
            path, before, after = difference.path, difference.before, difference.after
            known, earlier = changes.get(path), states.setdefault(path, [])
            if known is None:
                changes[path] = PathChange(path, before, after), checkpoint.closed
            else:
                change, closed = known
                # Calls of one order may overlap: one then finds what another had found, not what that left.
                shared = change.shared or not any(_is_same(before, state) for state in earlier)
                last = after if checkpoint.closed > closed else change.after
                changes[path] = PathChange(path, change.before, last, shared), max(closed, checkpoint.closed)
            earlier += (before, after)
    return {path: changes[path][0] for path in sorted(changes) if changes[path][0].differs}


def _is_same(one: TreeEntry | None, other: TreeEntry | None) -> bool:
    """Whether two states of a path are the same; directories are, whatever they hold."""
    if one is None or other is None:
        return one is other
    return one.kind == other.kind == "directory" or one.is_like(other)


def is_in_git_directory(path: bytes) -> bool:
    """Whether a path is a `.git` or lies below one."""
    return os.fsencode(GIT) in path.split(b"/")


@dataclass(frozen=True, slots=True)
class Summary:
    """What an order changed: its files, and all changes as one unified diff."""

    files: tuple[ChangedFile, ...]
    diff: str
    checkpoints: tuple[CheckpointTaken, ...]


def summary(store: CheckpointStore, checkpoints: Sequence[Checkpoint]) -> Summary | None:
    """The summary of these checkpoints, None where they changed nothing. Directories and files below `.git` are not
    listed."""
    everything = path_changes(store.tree, checkpoints)
    if not everything:
        return None
    files, texts, length = list[ChangedFile](), list[str](), 0
    shown = [change for change in everything.values() if _is_file(change) and not is_in_git_directory(change.path)]
    for change, source in _with_sources(shown):
        if len(files) == MOST_FILES:
            break
        diff = _diff(store, change, source) if length < _MOST_TEXT else FileDiff("", 0, 0)
        files.append(_changed_file(change, source, diff))
        texts.append(diff.text)
        length += len(diff.text)
    if len(files) < len(shown) or length >= _MOST_TEXT:
        texts.append(f"[not all is shown: {len(shown):,} files were changed]\n")
    taken = tuple(
        CheckpointTaken(after=checkpoint.seq - 1, id=checkpoint.id)
        for checkpoint in checkpoints
        if checkpoint.seq is not None
    )
    return Summary(tuple(files), "".join(texts), taken)


def _is_file(one: PathChange) -> bool:
    return any(node is not None and node.kind != "directory" for node in (one.before, one.after))


def _with_sources(files: Iterable[PathChange]) -> Iterator[tuple[PathChange, PathChange | None]]:
    """Each change with the deleted file that it was moved from: one with the same content, which serves as the source
    of one file only. Those sources are left out."""
    files = list(files)
    gone: dict[bytes, list[PathChange]] = {}
    for change in files:
        if change.after is None and change.before is not None and change.before.kind == "file" and change.before.size:
            gone.setdefault(change.before.digest, []).append(change)
    sources: dict[bytes, PathChange] = {}
    for change in files:
        if change.before is None and change.after is not None and (moved_from := gone.get(change.after.digest)):
            sources[change.path] = moved_from.pop(0)
    moved = {source.path for source in sources.values()}
    return ((change, sources.get(change.path)) for change in files if change.path not in moved)


def _diff(store: CheckpointStore, one: PathChange, source: PathChange | None) -> FileDiff:
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


def _content(store: CheckpointStore, node: TreeEntry | None) -> bytes | str | None:
    """The content of a file, None for no file; a sentence instead where the content cannot be shown."""
    if node is None or node.kind == "directory":
        return None
    if node.kind == "left_out":
        return "not kept, so not shown"
    found = store.content(node.digest, _LARGEST) if node.size <= _LARGEST else None
    return found if found is not None else f"{node.size:,} bytes, not shown"


def _changed_file(one: PathChange, source: PathChange | None, diff: FileDiff) -> ChangedFile:
    path = os.fsdecode(one.path)
    if source is not None:
        return ChangedFile(path=path, change="renamed", source=os.fsdecode(source.path))
    was, is_now = (node is not None and node.kind != "directory" for node in (one.before, one.after))
    how: Literal["added", "modified", "deleted"] = "modified" if was and is_now else "added" if is_now else "deleted"
    return ChangedFile(path=path, change=how, added=diff.added, removed=diff.removed)
