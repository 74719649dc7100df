"""What a directory held, as trees of digests: equal parts are the same part, and what differs is found by those."""

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


class Node(NamedTuple):
    """What has a name. `digest`: SHA-256 of a file's content or a link's target, of a directory its tree's.

    `mode`: permission bits, 0 of links. `size` in bytes. Of what is left out `digest` tells only whether it is another
    one by now.
    """

    kind: Kind
    mode: int
    size: int
    digest: bytes

    def is_like(self, other: "Node | None") -> bool:
        """Whether both are the same by themselves: what directories hold is not looked at."""
        if other is None or self.kind != other.kind or self.mode != other.mode:
            return False
        return self.kind == "directory" or self.digest == other.digest


Listing = Mapping[bytes, Node]
"""Name to what has it."""

Trees = Callable[[bytes], Listing]
"""The listing of the directory whose tree has this digest."""

Keep = Callable[[bytes, bytes], None]
"""Keeps a packed listing under its digest."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`path` relative, `/` between its parts. None: there was, or is, nothing."""

    path: bytes
    before: Node | None
    after: Node | None


def packed(listing: Listing) -> bytes:
    parts = []
    for name in sorted(listing):
        node = listing[name]
        parts.append(_HEAD.pack(_KINDS.index(node.kind), node.mode, node.size, node.digest, len(name)))
        parts.append(name)
    return b"".join(parts)


def unpacked(data: bytes) -> dict[bytes, Node]:
    """Raises ValueError for what is no listing."""
    found: dict[bytes, Node] = {}
    at = 0
    try:
        while at < len(data):
            kind, mode, size, digest, length = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            found[data[at : at + length]] = Node(_KINDS[kind], mode, size, digest)
            at += length
    except (struct.error, IndexError) as error:
        raise ValueError("a listing of a checkpoint is damaged") from error
    return found


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


EMPTY = digest_of(b"")
"""Digest of a directory in which nothing is."""


def remembered(trees: Trees) -> Trees:
    """The same, where many paths of the same directories are looked up: a listing is read from the store once."""
    return lru_cache(_REMEMBERED)(trees)


def at(trees: Trees, root: bytes, path: bytes) -> Node | None:
    """What has this path below the directory `root`; None where nothing is."""
    here, node = root, None
    parts = path.split(b"/")
    for number, name in enumerate(parts, start=1):
        node = trees(here).get(name)
        if node is None or (number < len(parts) and node.kind != "directory"):
            return None
        here = node.digest
    return node


def with_paths(trees: Trees, keep: Keep, root: bytes, changed: Mapping[bytes, Node | None]) -> bytes:
    """`root` with these in place of what had their paths, None = nothing any more; directories above are made."""
    below: dict[bytes, dict[bytes, Node | None]] = {}
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
        there = listing.get(name)
        if there is None or there.kind != "directory":
            if all(node is None for node in inner.values()):
                continue
            there = Node("directory", 0o755, 0, EMPTY)
        listing[name] = there._replace(digest=with_paths(trees, keep, there.digest, inner))
    data = packed(listing)
    keep(digest := digest_of(data), data)
    return digest


def differences(trees: Trees, before: bytes, after: bytes) -> Iterator[Difference]:
    """What differs between two directories, each directory before what is in it, in the order of the names."""
    if before != after:
        yield from _between(trees(before), trees(after), trees, b"")


def _between(before: Listing, after: Listing, trees: Trees, above: bytes) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        path = above + name
        if old is None or not old.is_like(new):
            yield Difference(path, old, new)
        inner = [trees(one.digest) if one and one.kind == "directory" else {} for one in (old, new)]
        if inner[0] or inner[1]:
            yield from _between(inner[0], inner[1], trees, path + b"/")


def entries(trees: Trees, root: bytes) -> Iterator[tuple[bytes, Node]]:
    """Everything below a directory with its path, each directory before what is in it."""
    for one in differences(trees, EMPTY, root):
        if one.after is not None:
            yield one.path, one.after


def parents(paths: Sequence[bytes]) -> set[bytes]:
    """The directories above these paths, the root left out."""
    found: set[bytes] = set()
    for path in paths:
        while b"/" in path:
            path = path.rpartition(b"/")[0]
            found.add(path)
    return found
