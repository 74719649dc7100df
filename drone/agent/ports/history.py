"""The port through which tools read the history of an order's session: the turns before it, and its own entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class HistoryRefused(Exception):
    """What was asked for is not in this history; the message is a sentence for the model."""


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """`place`: as models name an entry, "300/17" for entry 17 of turn 300; each ^ before it is a fork further back.
    `who`: the agent's name; None for a person."""

    place: str
    at: datetime
    who: str | None
    kind: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Best match first. `not_searched`, `pruned`: turns that were not read in time, and those of which only prompt and
    answer are left."""

    entries: Sequence[FoundEntry]
    not_searched: Sequence[str] = ()
    pruned: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters `start` to `end` of a text. `more`: there are others behind them. `note` says what else there is."""

    text: str
    start: int
    end: int
    more: bool
    note: str = ""


class HistoryPort(Protocol):
    """Every method raises `JournalError` when another drone has taken the order over."""

    async def search(self, question: str, turn: int | None, most: int) -> FoundEntries:
        """At most `most` entries that have at least one word of the question. Raises `HistoryRefused`."""

    async def read(self, place: str, start: int, length: int) -> Piece:
        """A piece of what an entry says, or of what a whole turn said. Raises `HistoryRefused`."""

    async def artifact(self, handle: str) -> str | None:
        """The digest of a text of this history by its handle; None when there is none."""

    def put_away(self) -> None:
        """Make what the turns before the order said findable soon: some of it is not shown any more."""
