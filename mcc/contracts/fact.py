"""What an entry tells: the base of all facts, and of those that are shown as notes."""

from abc import abstractmethod
from typing import ClassVar

from mcc.contracts.shape import Closed, Text
from mcc.contracts.usage import Usage


class Fact(Closed):
    """What an entry tells; each subclass names its kind."""

    kind: ClassVar[str]

    @property
    def spends(self) -> Usage | None:
        """What the entry adds to the usage of its record and of its order; None: nothing."""
        return None

    @property
    def kept(self) -> object:
        """What of it the journal keeps: all but what follows from the rest."""
        return self


class Note(Fact):
    """A fact that the chat record shows as a note, under its kind, and terminals as a line."""

    @property
    @abstractmethod
    def in_words(self) -> Text:
        """The message of the note."""
