"""This room is for a child as its parent asks for it, and for whoever makes an agent of that."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from drone.agent.agent import Agent


@dataclass(frozen=True, slots=True)
class Wanted:
    """`groups`: tool groups it may have, None = as its definition says; `model` None = as its definition says."""

    agent_type: str
    depth: int
    groups: tuple[str, ...] | None = None
    model: str | None = None


class CannotHire(Exception):
    """There is no such agent to be had here; a sentence that says what to do."""


Hire: TypeAlias = "Callable[[Wanted], Agent]"
"""Makes an agent of an offered type. Raises `CannotHire`."""
