"""Restoring paths to the state of a checkpoint: planning the changes, and making them, repeatably."""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from drone.checkpoints.store import CheckpointStore
from drone.checkpoints.summary import PathChange
from drone.checkpoints.tree import TreeEntry, Trees, at, cached, entries, parents
from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.sandbox.places.workspace_writer import WorkspaceWriter
from drone.sandbox.protection.protected import GIT

_INDEX = f"{GIT}/index".encode()
_OBJECTS = f"{GIT}/objects/".encode()


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """`targets`: the wanted state of each path, None = it must not exist. `others`: paths that were changed since by
    somebody else; they are targets only when overwriting. `lost`: paths whose content was not kept; `unsafe`: those
    that `drone.checkpoints.git_states` refuses. Both are never targets."""

    targets: Mapping[bytes, TreeEntry | None] = field(default_factory=dict)
    others: tuple[bytes, ...] = ()
    lost: tuple[bytes, ...] = ()
    unsafe: tuple[bytes, ...] = ()

    def without(self, unsafe: Collection[bytes]) -> "RestorePlan":
        """The same plan, but for these paths, which are unsafe."""
        targets = {path: node for path, node in self.targets.items() if path not in unsafe}
        return replace(self, targets=targets, unsafe=tuple(sorted(unsafe)))


def plan_restore(trees: Trees, wanted: Mapping[bytes, PathChange], now: bytes, *, overwrite: bool) -> RestorePlan:
    """Plan the way from the tree `now` back to the state before these changes.

    A change of git's index by somebody else does not count, as it is no work of theirs. Objects of git are never
    deleted: a commit made since may need them.
    """
    trees, targets = cached(trees), dict[bytes, TreeEntry | None]()
    others, lost = list[bytes](), list[bytes]()
    for path, entry in wanted.items():
        present = at(trees, now, path)
        if (present is None and entry.before is None) or (present is not None and present.is_like(entry.before)):
            continue
        if (entry.before is None or present is not None) and _is_object(path, wanted):
            continue
        if entry.before is not None and entry.before.kind == "left_out":
            lost.append(path)
            continue
        foreign = (entry.shared or _foreign(present, entry.after)) and not _is_index(path)
        below = (
            list(_below(trees, path, present, wanted))
            if entry.before is None or entry.before.kind != "directory"
            else []
        )
        needs_room = entry.before is not None and entry.before.kind != "directory"
        if foreign or (below and needs_room):
            others.append(path)
            if not overwrite:
                continue
        if needs_room:
            targets.update((inner, None) for inner in below)
        targets[path] = entry.before
    return RestorePlan(targets, tuple(others), tuple(lost))


def _foreign(there: TreeEntry | None, after: TreeEntry | None) -> bool:
    """Whether a path differs from what the order left there. Modes of directories are ignored, as they are no work of
    anybody's."""
    if there is None or after is None:
        return there is not after and not (there is not None and there.kind == "directory")
    return there.kind != after.kind if there.kind == "directory" else not there.is_like(after)


def _below(trees: Trees, path: bytes, there: TreeEntry | None, wanted: Mapping[bytes, PathChange]) -> Iterator[bytes]:
    """The paths in a directory that the order did not change."""
    if there is not None and there.kind == "directory":
        for name, _ in entries(trees, there.digest):
            if path + b"/" + name not in wanted:
                yield path + b"/" + name


def _is_index(path: bytes) -> bool:
    return path == _INDEX or path.endswith(b"/" + _INDEX)


def _is_object(path: bytes, wanted: Mapping[bytes, PathChange]) -> bool:
    """Whether it belongs to the objects of a repository that existed before the order."""
    above, objects, _ = (b"/" + path).partition(b"/" + _OBJECTS)
    if not objects:
        return False
    repository = wanted.get((above + b"/" + os.fsencode(GIT))[1:])
    return repository is None or repository.before is not None


def restore(workspace: Workspace, store: CheckpointStore, targets: Mapping[bytes, TreeEntry | None]) -> None:
    """Bring every path to its wanted state. May be repeated after an interruption. Blocks. Raises `PathError`."""
    # Flushed once at the end (`settle`) instead of after each file.
    writer = WorkspaceWriter(workspace, durable=False)
    for above in {b"", *parents(list(targets))}:
        writer.sweep(os.fsdecode(above))
    _clear(writer, targets)
    directories = [(path, node) for path, node in targets.items() if node is not None and node.kind == "directory"]
    # Writable for now; their own modes follow when their content is restored.
    for path, made in directories:
        writer.make_directory(os.fsdecode(path), made.mode | 0o700)
    for path, node in targets.items():
        if node is not None and node.kind in ("file", "link"):
            _put(writer, store, os.fsdecode(path), node)
    for path, made in reversed(directories):
        writer.make_directory(os.fsdecode(path), made.mode)
    writer.settle()


def _clear(writer: WorkspaceWriter, targets: Mapping[bytes, TreeEntry | None]) -> None:
    """Delete paths that must not exist or are of another kind than wanted, the innermost first."""
    for path in sorted(targets, reverse=True):
        name, node = os.fsdecode(path), targets[path]
        try:
            status = writer.status(name)
        except PathError:
            continue  # its parent is not a directory any more
        if status is None:
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        if node is not None and is_directory == (node.kind == "directory"):
            continue
        if is_directory:
            with suppress(PathError):  # it holds files of somebody else, and stays
                writer.remove_directory(name)
        else:
            with suppress(PathMissing):
                writer.remove(name)


def _put(writer: WorkspaceWriter, store: CheckpointStore, path: str, node: TreeEntry) -> None:
    if node.kind == "link":
        writer.link(path, b"".join(store.pieces(node.digest)))
    else:
        writer.put(path, store.pieces(node.digest), node.mode)
