"""Old checkpoints, and what nothing needs any more, are removed."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drone.checkpoints.store import CheckpointStore, StoreBroken
from drone.checkpoints.tree import EMPTY, Trees

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Pruned:
    """`orders` that cannot be reverted any more, and `contents` that nothing else needed."""

    orders: int = 0
    contents: int = 0

    def __add__(self, other: "Pruned") -> "Pruned":
        return Pruned(self.orders + other.orders, self.contents + other.contents)


def prune(directory: Path, days: float) -> Pruned:
    """Remove the checkpoints of orders that changed nothing for so long, in all workspaces; 0 days: none.

    Blocks. A store that cannot be used now is left for the next time.
    """
    done, before = Pruned(), time.time() - days * DAY_SECONDS
    for path in sorted(directory.glob("*.db")) if days > 0 else ():
        with suppress(StoreBroken), CheckpointStore.opened(path) as store:
            done += _cleared(store, before)
    return done


def _cleared(store: CheckpointStore, before: float) -> Pruned:
    if not (old := store.orders_before(before)):
        return Pruned()
    with store.changing():
        store.forget(old)
        trees, contents = _needed(store.tree, store.roots())
        removed = store.remove_besides(trees, contents)
    store.shrink()
    return Pruned(len(old), removed)


def _needed(listing: Trees, roots: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
    """The trees and contents that these trees are made of."""
    trees, contents = set[bytes](), set[bytes]()
    pending = list(roots)
    while pending:
        if (digest := pending.pop()) in trees or digest == EMPTY:
            continue
        trees.add(digest)
        for node in listing(digest).values():
            if node.kind == "directory":
                pending.append(node.digest)
            else:
                contents.add(node.digest)
    return trees, contents
