"""Whether a drone sees the directory that an order names, and what it does with the order then."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from drone.sandbox.paths import PathError, Roots, Workspace, without_links
from mcc.contracts.drones import Registration


class Verdict(Enum):
    """What a drone does with an order that names a workspace."""

    HERE = auto()  # it is seen: claim it
    INVALID = auto()  # nobody can ever have seen it, or it must not be: claim it, to say what is wrong
    ELSEWHERE = auto()  # another drone of this machine sees it: leave it
    PERHAPS = auto()  # drones elsewhere may see it: leave it for a while, then lay it aside
    NOBODY = auto()  # it had begun, and nobody sees it now: lay it aside


@dataclass(frozen=True, slots=True)
class Sight:
    """What one drone knows of a path: `exists` as a directory here; `covered` by its own roots.

    `workspace` is that directory, opened for as long as this object is there. `problem` says why it is not.
    """

    path: Path
    exists: bool
    covered: bool
    workspace: Workspace | None = None
    problem: str | None = None

    @property
    def seen(self) -> bool:
        return self.workspace is not None

    @property
    def refused(self) -> bool:
        """Whether it is there and ours to look at, and must not be, or cannot be, opened."""
        return self.exists and self.covered and not self.seen


def sight_of(path: str, roots: Roots) -> Sight:
    """Blocks."""
    try:
        workspace = roots.opened(path)
        return Sight(workspace.root, exists=True, covered=True, workspace=workspace)
    except PathError as problem:
        real = without_links(path)
        exists, covered = os.path.isabs(path) and real.is_dir(), roots.covering(path, real) is not None
        return Sight(real, exists, covered, problem=str(problem))


def verdict(sight: Sight, *, begun: bool, host: str, others: Sequence[Registration]) -> Verdict:
    """`begun`: some drone has worked on it before. `others` are the live drones beside this one, which is on `host`.

    Drones of one machine see the same files; what those of another one see, only they can tell.
    """
    if sight.seen:
        return Verdict.HERE
    if sight.refused:
        return Verdict.NOBODY if begun else Verdict.INVALID
    covering = [one for one in others if _is_under(sight.path, map(Path, one.workspace_roots))]
    if sight.exists and any(one.host == host for one in covering):
        return Verdict.ELSEWHERE
    if any(one.host != host for one in covering):
        return Verdict.PERHAPS
    return Verdict.NOBODY if begun else Verdict.INVALID


def _is_under(path: Path, roots: Iterable[Path]) -> bool:
    return any(path.is_relative_to(without_links(str(root))) for root in roots)
