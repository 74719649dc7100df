"""How tests are spread over processes: a group or else a file by one of them, as its tests share what is made once.

Groups are of tests whose families of processes mostly wait, for leases and each other; files mostly compute. As many
processes as there are cores, but half of them at most, begin with files, and the others with groups: all that waits at
once left the cores idle, and all that computes fought over them afterwards.
"""

import os
from collections.abc import Iterable
from typing import Any

from xdist.scheduler import LoadGroupScheduling


def next_scope(waiting: Iterable[str], *, computes: bool) -> str | None:
    """The first file for a process that `computes`, else the first group; None where none is left of what it begins
    with."""
    return next((scope for scope in waiting if scope.endswith(".py") == computes), None)


def begins_with_files(place: int, processes: int, cores: int) -> bool:
    """Whether the process in this place, from 0 on, is one of those that compute."""
    return place < min(cores, processes // 2)


class ByGroupOrFile(LoadGroupScheduling):
    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        nodes = self.nodes
        computes = begins_with_files(nodes.index(node), len(nodes), os.cpu_count() or 1)
        if (scope := next_scope(self.workqueue, computes=computes)) is not None:
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)
