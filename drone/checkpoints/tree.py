"""Snapshots of a directory as Merkle trees: equal subtrees have the same digest, so comparing skips them."""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["file", "link", "directory", "left_out"]

_KINDS: tuple[Kind, ...] = ("file", "link", "directory", "left_out")
_REMEMBERED = 128
_HEAD = struct.Struct(">BIQ32sH")


class TreeEntry(NamedTuple):
    """An entry of a directory. `digest`: SHA-256 of a file's content, a link's target, or a directory's packed listing.

    `mode`: permission bits, 0 for links. `size` in bytes. For an entry that was left out, `digest` only shows whether
    it has changed.
    """

    kind: Kind
    mode: int
    size: int
    digest: bytes

    def is_like(self, other: "TreeEntry | None") -> bool:
        """Whether both are equal, the content of directories not compared."""
        if other is None or self.kind != other.kind or self.mode != other.mode:
            return False
        return self.kind == "directory" or self.digest == other.digest


Listing = Mapping[bytes, TreeEntry]
"""The entries of one directory: name → node."""

Trees = Callable[[bytes], Listing]
"""Answers the listing with this digest."""

Keep = Callable[[bytes, bytes], None]
"""Stores a packed listing under its digest."""


@dataclass(frozen=True, slots=True)
class PathDifference:
    """A relative `path`, with `/` between its parts, that differs. None: it did not exist, or does not exist now."""

    path: bytes
    before: TreeEntry | None
    after: TreeEntry | None


def packed(listing: Listing) -> bytes:
    parts = []
    # Sorted, so that equal directories have equal digests.
    for name in sorted(listing):
        node = listing[name]
        parts.append(_HEAD.pack(_KINDS.index(node.kind), node.mode, node.size, node.digest, len(name)))
        parts.append(name)
    return b"".join(parts)


def unpacked(data: bytes) -> dict[bytes, TreeEntry]:
    """The listing that was packed. Raises ValueError for data that is no packed listing."""
    entries: dict[bytes, TreeEntry] = {}
    at = 0
    try:
        while at < len(data):
            kind, mode, size, digest, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            entries[data[at : at + length]] = TreeEntry(_KINDS[kind], mode, size, digest)
            at += length
    except (struct.error, IndexError) as error:
        raise ValueError("a listing of a checkpoint is damaged") from error
    return entries


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


EMPTY = digest_of(b"")
"""Digest of an empty directory."""

SHUT = digest_of(b"a directory")
"""Digest of every directory that was left out: nothing shows whether its content has changed."""


def cached(trees: Trees) -> Trees:
    """`trees` with a cache, for many look-ups in the same directories: each listing is read from the store once."""
    return lru_cache(_REMEMBERED)(trees)


def at(trees: Trees, root: bytes, path: bytes) -> TreeEntry | None:
    """The node at this path below the tree `root`; None where there is none."""
    here, node = root, None
    parts = path.split(b"/")
    for number, name in enumerate(parts, start=1):
        node = trees(here).get(name)
        if node is None or (number < len(parts) and node.kind != "directory"):
            return None
        here = node.digest
    return node


def with_paths(trees: Trees, keep: Keep, root: bytes, changed: Mapping[bytes, TreeEntry | None]) -> bytes:
    """The digest of the tree `root` with these paths set to new nodes, None = removed; missing directories above are
    added."""
    below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
    listing = dict(trees(root))
    for path, node in changed.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            below.setdefault(name, {})[rest] = node
        elif node is None:
            listing.pop(name, None)
        else:
            listing[name] = node
    for name, inner in below.items():
        entry = listing.get(name)
        if entry is None or entry.kind != "directory":
            if all(node is None for node in inner.values()):
                continue
            entry = TreeEntry("directory", 0o755, 0, EMPTY)
        listing[name] = entry._replace(digest=with_paths(trees, keep, entry.digest, inner))
    data = packed(listing)
    keep(digest := digest_of(data), data)
    return digest


def differences(trees: Trees, before: bytes, after: bytes) -> Iterator[PathDifference]:
    """The differences between two trees, in the order of the names, each directory before its content."""
    if before != after:
        yield from _between(trees(before), trees(after), trees, b"")


def _between(before: Listing, after: Listing, trees: Trees, above: bytes) -> Iterator[PathDifference]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        path = above + name
        if old is None or not old.is_like(new):
            yield PathDifference(path, old, new)
        inner = [trees(one.digest) if one and one.kind == "directory" else {} for one in (old, new)]
        if inner[0] or inner[1]:
            yield from _between(inner[0], inner[1], trees, path + b"/")


def entries(trees: Trees, root: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    """All nodes below a tree with their paths, each directory before its content."""
    for one in differences(trees, EMPTY, root):
        if one.after is not None:
            yield one.path, one.after


def watched_names(trees: Trees, root: bytes) -> int:
    """How many files, links and directories of a tree are watched."""
    return sum(node.kind != "left_out" for _, node in entries(trees, root))


def shut_directories(trees: Trees, root: bytes) -> list[bytes]:
    """The directories of a tree that were not looked into."""
    return [path for path, node in entries(trees, root) if node.kind == "left_out" and node.digest == SHUT]


def parents(paths: Sequence[bytes]) -> set[bytes]:
    """All directories above these paths, without the root."""
    found: set[bytes] = set()
    for path in paths:
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            found.add(path)
    return found
