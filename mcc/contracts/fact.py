"""Base classes of journal facts: `Fact`, and `NotedFact` for facts that people are shown as a line of text."""

from abc import abstractmethod
from typing import ClassVar

from mcc.contracts.shape import Closed, Text
from mcc.contracts.usage import Usage


class Fact(Closed):
    """The content of a journal entry; each subclass names its kind."""

    kind: ClassVar[str]

    @property
    def added_usage(self) -> Usage | None:
        """What this entry adds to the usage of its record and its order; None: nothing."""
        return None

    @property
    def stored(self) -> object:
        """The value that the journal stores: all fields except those computed from others."""
        return self


class NotedFact(Fact):
    """A fact that the chat record shows as a note, under its kind, and terminals show as a line."""

    @property
    @abstractmethod
    def in_words(self) -> Text:
        """The message of that note."""
