"""This room is for spawning: whether one more agent may hang in a tree, asked before any model is."""

from drone.agent.turn import Task, Turn


class CannotSpawn(Exception):
    """The tree may not grow here; a sentence that says what to do.

    CannotSpawn
    ├── DepthExceeded     the child would lie deeper than the turn allows
    └── SpawnsExceeded    the tree has had all its subagents
    """


class DepthExceeded(CannotSpawn):
    """The child would lie deeper than `Limits.depth`; no model was asked."""

    def __init__(self, allowed: int) -> None:
        super().__init__(f"The limit depth ({allowed}) is reached: do this work yourself.")
        self.allowed = allowed


class SpawnsExceeded(CannotSpawn):
    """The tree has had `Limits.spawns` subagents."""

    def __init__(self, allowed: int) -> None:
        super().__init__(f"The limit spawns ({allowed}) is reached: do this work yourself.")
        self.allowed = allowed


def check_depth(turn: Turn, depth: int) -> None:
    """Raises `DepthExceeded` when no agent may run at this depth (0 = the root)."""
    if depth > turn.budget.limits.depth:
        raise DepthExceeded(turn.budget.limits.depth)


def take_spawn(turn: Turn, task: Task) -> None:
    """Count one more subagent, unless an earlier drone had begun it. Raises `SpawnsExceeded`."""
    if turn.past.record(task.record_id) is None and not turn.budget.take_spawn():
        raise SpawnsExceeded(turn.budget.limits.spawns)
