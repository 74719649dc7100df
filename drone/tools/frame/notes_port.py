"""The port through which tools read and write the notes of an order's project."""

from collections.abc import Sequence
from typing import Protocol

from mcc.contracts.entry import Origin
from mcc.contracts.notes import NewNote, Note, NoteKind


class NoteRefused(Exception):
    """The note does not exist, or the project has too many notes; the message is a sentence for the model."""


class NotesPort(Protocol):
    """Every method raises `JournalError` when another drone has taken the order over."""

    async def list(self, kind: NoteKind) -> Sequence[Note]:
        """The notes that have not expired, sorted by name."""

    async def read(self, kind: NoteKind, name: str) -> Note:
        """The newest version of a note, expired or not. Raises `NoteRefused`."""

    async def search(self, question: str, kind: NoteKind, most: int) -> Sequence[Note]:
        """At most `most` notes that hold at least one word of the question, best match first."""

    async def write(self, origin: Origin, call_id: str, new: NewNote) -> Note:
        """Write a version and return it; a repeated call with the same `call_id` writes nothing more.

        Raises `NoteRefused`.
        """

    async def delete(self, origin: Origin, call_id: str, kind: NoteKind, name: str) -> Note:
        """Delete a note and return it. Raises `NoteRefused`."""
