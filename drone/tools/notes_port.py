"""The notes of an order's project, as tools use them."""

from collections.abc import Sequence
from typing import Protocol

from mcc.contracts.entry import Origin
from mcc.contracts.notes import NewNote, Note, NoteKind


class NoteRefused(Exception):
    """The note is not there, or there are too many; a sentence for the model."""


class Notes(Protocol):
    """Every method may raise `JournalError`, where the order is another drone's by now."""

    async def list(self, kind: NoteKind) -> Sequence[Note]:
        """What is there and has not expired, by name."""

    async def read(self, kind: NoteKind, name: str) -> Note:
        """Its newest version, expired or not. Raises `NoteRefused`."""

    async def search(self, question: str, kind: NoteKind, most: int) -> Sequence[Note]:
        """Notes with one of the question's words at least, the best first."""

    async def write(self, origin: Origin, call_id: str, new: NewNote) -> Note:
        """The version that this call wrote, once however often it is run. Raises `NoteRefused`."""

    async def delete(self, origin: Origin, call_id: str, kind: NoteKind, name: str) -> Note:
        """Raises `NoteRefused`."""
