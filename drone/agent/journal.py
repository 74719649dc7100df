"""The journal as the agent loop writes it: entries that are committed, texts that are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from mcc.contracts.entry import Draft, Origin
from mcc.contracts.fact import Fact
from mcc.contracts.record import AgentEnd

DeltaKind = Literal["model.delta", "thinking.delta", "tool_call.delta", "tool.progress"]


@dataclass(frozen=True, slots=True)
class GrowingCall:
    """A tool call whose arguments are on their way: its place among the calls of the reply, and its tool."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text on its way, from character `offset` on of what this try at a round's reply says of its kind.

    `call`: the one whose arguments the text of a `tool_call.delta` is of.
    """

    kind: DeltaKind
    round: int
    attempt: int
    offset: int
    text: str
    call: GrowingCall | None = None


class Journal(Protocol):
    """Where a turn's history goes. `write` returns once the facts are committed, in this order."""

    async def write(self, origin: Origin, *facts: Fact) -> int:
        """Answers the number of the last of these entries. Raises `JournalError`."""

    async def keep(self, text: str) -> str:
        """Store a text under its SHA-256 (hex), which is answered."""

    async def kept(self, digest: str) -> str | None:
        """The text that is stored under this SHA-256 (hex); None when there is none."""

    async def close(self, status: AgentEnd, error: str, under: str | None = None) -> Sequence[Draft]:
        """Write the ends of every call and agent that is still open (`Fold.closing`), children first; what was written.

        `under`: only those of that record and of what hangs below it.
        """

    def delta(self, origin: Origin, delta: TextDelta) -> None:
        """Tell viewers of text on its way; may be lost."""

    async def cleared(self) -> None:
        """Return when effects may be caused on the strength of what is written here; asked right before each one.

        Raises `Fenced`.
        """


class JournalError(Exception):
    """Nothing more can be written: stop, start nothing more. It ends the whole tree, and no model is told.

    JournalError
    ├── Fenced        another holder has the order
    └── Unwritable    an entry is refused for what is in it; the sentence says why
    """


class Fenced(JournalError):
    """Another holder has the order: write nothing more."""


class Unwritable(JournalError):
    """The data of this order is refused; the sentence says why."""
