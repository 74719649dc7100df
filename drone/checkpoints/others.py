"""Which of the files that an order's agents know were changed by somebody else since."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from drone.agent.ports.write_access import KnownFiles
from drone.checkpoints.recording import OrderCheckpoints
from drone.checkpoints.store import CheckpointStore, StoreBroken
from drone.checkpoints.tree import at, cached
from drone.sandbox.places.paths import PathError, PathMissing, Workspace

MOST_FILES = 2_000
"""Bound on the files that are looked at."""

LARGEST = 16 << 20
"""Largest file in bytes whose content is compared."""

_PIECE = 1 << 20


def changed_by_others(workspace: Workspace, checkpoints: OrderCheckpoints, known: KnownFiles) -> Sequence[str]:
    """The paths of those of the `known` files that hold something else now than the order's agents have read there,
    and than its own calls have left there. Blocks."""
    changed = [path for path in sorted(known)[:MOST_FILES] if _digest(workspace, path) not in {None, *known[path]}]
    return [path for path in changed if _digest(workspace, path) not in set(_left(checkpoints, path))]


def _digest(workspace: Workspace, path: str) -> str | None:
    """SHA-256 (hex) of a file, "" where there is none, None where it cannot be read or is too large."""
    digest = hashlib.sha256()
    try:
        with workspace.open_file(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST:
                return None
            while piece := file.read(_PIECE):
                digest.update(piece)
    except PathMissing:
        return ""
    except (PathError, OSError):
        return None
    return digest.hexdigest()


def _left(checkpoints: OrderCheckpoints, path: str) -> Iterator[str]:
    """What the order's own calls have left at a path, by its checkpoints."""
    with suppress(StoreBroken, OSError):
        taken = checkpoints.known()
        if not taken:
            return
        with CheckpointStore.opened(checkpoints.path) as store:
            trees = cached(store.tree)
            for checkpoint in taken:
                if checkpoint.after is not None:
                    node = at(trees, checkpoint.after, os.fsencode(path))
                    yield "" if node is None else node.digest.hex()
