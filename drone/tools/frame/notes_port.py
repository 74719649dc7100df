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
        """The notes that have not expired, sorted by name, stale ones last; with those that are pending in this
        session."""

    async def read(self, kind: NoteKind, name: str) -> Sequence[Note]:
        """The version of a note that counts, expired or not, and then the one that is pending in this session; at least
        one. Raises `NoteRefused`."""

    async def search(self, question: str, kind: NoteKind, most: int) -> Sequence[Note]:
        """At most `most` notes that hold at least one word of the question, best match first, stale ones last; with
        those that are pending in this session."""

    async def write(self, origin: Origin, call_id: str, new: NewNote, *, tainted: bool) -> Note:
        """Write a version and return it; a repeated call with the same `call_id` writes nothing more. `tainted`: the
        agent, or one below it, was shown text from outside.

        Raises `NoteRefused`.
        """

    async def delete(self, origin: Origin, call_id: str, kind: NoteKind, name: str, *, tainted: bool) -> Note:
        """Delete a note and return the version that does so, which may be pending. Raises `NoteRefused`."""
