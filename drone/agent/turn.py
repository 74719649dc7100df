"""This room is for the turn: what all agents of one tree share."""

from dataclasses import dataclass, field

from drone.agent.budget import Budget
from drone.agent.mail import Mailbox
from drone.agent.ports import Journal


@dataclass(frozen=True, slots=True)
class Turn:
    """`mail` is for the master; its children have none."""

    journal: Journal
    budget: Budget
    mail: Mailbox = field(default_factory=Mailbox)


@dataclass(frozen=True, slots=True)
class Task:
    """What an agent is asked to do, and where its record hangs in the tree."""

    prompt: str
    record_id: str
    title: str = ""
    parent_id: str | None = None
    call_id: str | None = None
    depth: int = 0


def title_of(prompt: str, characters: int = 60) -> str:
    """The first line of a prompt that has words, cut to a title."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return line if len(line) <= characters else line[: characters - 1].rstrip() + "…"
