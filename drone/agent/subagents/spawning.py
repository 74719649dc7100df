"""Spawning: which agent a parent wants, and whether one more may hang in the tree, asked before any model is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from drone.agent.parts import AgentParts
from drone.agent.turn import Task, Turn


@dataclass(frozen=True, slots=True)
class Wanted:
    """`groups`: tool groups it may have, None = as its definition says; `model` None = as its definition says."""

    agent_type: str
    depth: int
    groups: tuple[str, ...] | None = None
    model: str | None = None


class CannotHire(Exception):
    """There is no such agent to be had here; a sentence that says what to do."""


Hire: TypeAlias = Callable[[Wanted], AgentParts]
"""Makes an agent of an offered type. Raises `CannotHire`."""


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
    if turn.tree.begun(task.record_id) is None and not turn.budget.take_spawn(task.record_id):
        raise SpawnsExceeded(turn.budget.limits.spawns)
