"""The way back: what is to be done so that paths are as a checkpoint has them, and doing it, however often."""

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from drone.checkpoints.ledger import Touched
from drone.checkpoints.store import CheckpointStore
from drone.checkpoints.tree import Node, Trees, at, entries, parents, remembered
from drone.sandbox.paths import PathError, PathMissing, Workspace
from drone.sandbox.protected import GIT
from drone.sandbox.workspace_writer import WorkspaceWriter

_INDEX = f"{GIT}/index".encode()
_OBJECTS = f"{GIT}/objects/".encode()


@dataclass(frozen=True, slots=True)
class WayBack:
    """`targets`: what each path is to be, None = nothing. `others`: paths that somebody else changed since, and
    `lost` those whose content was not kept; neither are among the targets unless they are to be overwritten."""

    targets: Mapping[bytes, Node | None] = field(default_factory=dict)
    others: tuple[bytes, ...] = ()
    lost: tuple[bytes, ...] = ()


def way_back(trees: Trees, wanted: Mapping[bytes, Touched], now: bytes, *, overwrite: bool) -> WayBack:
    """From the tree `now` to what was there before. Git's index is nobody's work, and its objects are never taken away:
    what somebody committed since may need them."""
    trees, targets = remembered(trees), dict[bytes, Node | None]()
    others, lost = list[bytes](), list[bytes]()
    for path, one in wanted.items():
        there = at(trees, now, path)
        if (there is None and one.before is None) or (there is not None and there.is_like(one.before)):
            continue
        if (one.before is None or there is not None) and _is_object(path, wanted):
            continue
        if one.before is not None and one.before.kind == "left_out":
            lost.append(path)
            continue
        foreign = _foreign(there, one.after) and not _is_index(path)
        below = list(_below(trees, path, there, wanted)) if one.before is None or one.before.kind != "directory" else []
        needs_room = one.before is not None and one.before.kind != "directory"
        if foreign or (below and needs_room):
            others.append(path)
            if not overwrite:
                continue
        if needs_room:
            targets.update((inner, None) for inner in below)
        targets[path] = one.before
    return WayBack(targets, tuple(others), tuple(lost))


def _foreign(there: Node | None, after: Node | None) -> bool:
    """Whether this is not what the order left. The modes of directories are no work of anybody."""
    if there is None or after is None:
        return there is not after and not (there is not None and there.kind == "directory")
    return there.kind != after.kind if there.kind == "directory" else not there.is_like(after)


def _below(trees: Trees, path: bytes, there: Node | None, wanted: Mapping[bytes, Touched]) -> Iterator[bytes]:
    """What is in a directory and is not the order's."""
    if there is not None and there.kind == "directory":
        for name, _ in entries(trees, there.digest):
            if path + b"/" + name not in wanted:
                yield path + b"/" + name


def _is_index(path: bytes) -> bool:
    return path == _INDEX or path.endswith(b"/" + _INDEX)


def _is_object(path: bytes, wanted: Mapping[bytes, Touched]) -> bool:
    """Whether it belongs to the objects of a repository that was there before."""
    above, objects, _ = (b"/" + path).partition(b"/" + _OBJECTS)
    if not objects:
        return False
    repository = wanted.get((above + b"/" + os.fsencode(GIT))[1:])
    return repository is None or repository.before is not None


def restore(workspace: Workspace, store: CheckpointStore, targets: Mapping[bytes, Node | None]) -> None:
    """Make every path what it is to be; what is so already may be done again. Blocks. Raises `PathError`."""
    placing = WorkspaceWriter(workspace, durable=False)
    for above in {b"", *parents(list(targets))}:
        placing.sweep(os.fsdecode(above))
    _clear(placing, targets)
    directories = [(path, node) for path, node in targets.items() if node is not None and node.kind == "directory"]
    for path, made in directories:
        placing.make_directory(os.fsdecode(path), made.mode | 0o700)
    for path, node in targets.items():
        if node is not None and node.kind in ("file", "link"):
            _put(placing, store, os.fsdecode(path), node)
    for path, made in reversed(directories):
        placing.make_directory(os.fsdecode(path), made.mode)
    placing.settle()


def _clear(placing: WorkspaceWriter, targets: Mapping[bytes, Node | None]) -> None:
    """Take away what is not to be there and what is of another kind than it is to be, the innermost first."""
    for path in sorted(targets, reverse=True):
        name, node = os.fsdecode(path), targets[path]
        try:
            status = placing.status(name)
        except PathError:
            continue  # what is above it is no directory any more
        if status is None:
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        if node is not None and is_directory == (node.kind == "directory"):
            continue
        if is_directory:
            with suppress(PathError):  # somebody else's files are in it: it stays
                placing.remove_directory(name)
        else:
            with suppress(PathMissing):
                placing.remove(name)


def _put(placing: WorkspaceWriter, store: CheckpointStore, path: str, node: Node) -> None:
    if node.kind == "link":
        placing.link(path, b"".join(store.pieces(node.digest)))
    else:
        placing.put(path, store.pieces(node.digest), node.mode)
