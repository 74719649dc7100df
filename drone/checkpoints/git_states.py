"""Git directories in checkpoints: what a revert may not bring back, as git would then run what was no repository's."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from drone.checkpoints.tree import TreeEntry, Trees, at, cached, entries
from drone.sandbox.protection.git_directories import is_git_directory, is_guarded, is_mark

MOST_STATES = 50
"""Most earlier states that are compared; as a rule the first one decides."""

_Leaves = Mapping[bytes, tuple[str, bytes]]
"""Path → kind and digest of everything but directories."""

Targets = Mapping[bytes, TreeEntry | None]
"""Path → what a restore puts there, None = nothing."""


@dataclass(frozen=True, slots=True)
class _Tree:
    """One directory tree, as far as git minds."""

    trees: Trees
    root: bytes

    def names(self, directory: bytes) -> set[bytes]:
        """The entries of a directory; none where there is none."""
        if not directory:
            return set(self.trees(self.root))
        node = at(self.trees, self.root, directory)
        return set(self.trees(node.digest)) if node is not None and node.kind == "directory" else set()

    def guarded(self, directory: bytes) -> _Leaves:
        """What nothing changes in a git directory: configuration, hooks and their like."""
        guarded_leaves: dict[bytes, tuple[str, bytes]] = {}
        for name in self.names(directory):
            path = _below(directory, name)
            if not is_guarded(os.fsdecode(name)) or (node := at(self.trees, self.root, path)) is None:
                continue
            below = entries(self.trees, node.digest) if node.kind == "directory" else ()
            leaves = {path: node, **{path + b"/" + inner: leaf for inner, leaf in below}}
            guarded_leaves |= {
                leaf: (entry.kind, entry.digest) for leaf, entry in leaves.items() if entry.kind != "directory"
            }
        return guarded_leaves


@dataclass(slots=True)
class _Restored:
    """A directory, and those targets in or below it whose `name` in it matters to git."""

    path: bytes
    targets: dict[bytes, tuple[bytes, TreeEntry | None]] = field(default_factory=dict)

    def names(self, now: _Tree) -> set[bytes]:
        """Its entries after the restore."""
        gone = {name for path, (name, node) in self.targets.items() if node is None and path == _below(self.path, name)}
        return (now.names(self.path) - gone) | {name for name, node in self.targets.values() if node is not None}

    def guarded(self, now: _Tree) -> _Leaves:
        """The same as `_Tree.guarded`, after the restore."""
        stays = {path: leaf for path, leaf in now.guarded(self.path).items() if path not in self.targets}
        placed = ((path, node) for path, (name, node) in self.targets.items() if node and is_guarded(os.fsdecode(name)))
        return stays | {path: (node.kind, node.digest) for path, node in placed if node.kind != "directory"}


def unsafe_targets(trees: Trees, targets: Targets, now: bytes, states: Sequence[bytes]) -> frozenset[bytes]:
    """Those targets of a restore of the tree `now` that may not be brought back.

    A directory that is a git directory afterwards may get back its configuration and hooks, and what makes it one, only
    where it then has the configuration and hooks that it had as a git directory in one of `states`, the whole trees
    before the calls that are reverted: several orders may each have done a part that git does not mind.
    """
    trees, unsafe = cached(trees), set[bytes]()
    here = _Tree(trees, now)
    known = [_Tree(trees, state) for state in islice(dict.fromkeys(states), MOST_STATES)]
    for directory in _restored(targets):
        names = here.names(directory.path)
        if not _is_git(directory.path, directory.names(here)):
            continue
        wanted = directory.guarded(here)
        if any(
            _is_git(directory.path, state.names(directory.path)) and state.guarded(directory.path) == wanted
            for state in known
        ):
            continue
        is_new = not _is_git(directory.path, names)
        for path, (name, node) in directory.targets.items():
            if node is not None and (is_guarded(os.fsdecode(name)) or (is_new and name not in names)):
                unsafe.add(path)
    return frozenset(unsafe)


def _restored(targets: Targets) -> Iterator[_Restored]:
    restored: dict[bytes, _Restored] = {}
    for path, node in targets.items():
        parts = path.split(b"/")
        for number, name in enumerate(parts):
            if is_guarded(os.fsdecode(name)) or is_mark(os.fsdecode(name)):
                above = b"/".join(parts[:number])
                restored.setdefault(above, _Restored(above)).targets[path] = name, node
    yield from restored.values()


def _below(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name


def _is_git(directory: bytes, names: set[bytes]) -> bool:
    name = os.fsdecode(directory.rpartition(b"/")[2])
    return bool(names) and is_git_directory(name, map(os.fsdecode, names))
