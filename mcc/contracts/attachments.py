"""Files that people give to an order: what is stored of one, what may be stored, and what its agent is shown of it."""

from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from mcc.contracts.blocks import ImageBlock
from mcc.contracts.shape import Closed, Identifier, Text

MOST_ATTACHMENTS = 20
"""Most attachments of one order."""

FILE_BYTES = 32 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
"""Bytes of a file that are stored in one row."""

UNATTACHED_BYTES = 1024 * 1024 * 1024
"""Most bytes of files that one principal stores without giving them to an order."""

UNATTACHED_HOURS = 24
"""How long a file is kept that belongs to no order."""

NAME_CHARACTERS = 200


def _of_chats(attachments: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if attachments and info.data.get("kind") in ("generate", "revert", "deliver", "compact"):
        raise PydanticCustomError("not_of_kind", "Attachments belong to an order of kind chat; leave them out")
    return attachments


Attachments = Annotated[tuple[Identifier, ...], Field(max_length=MOST_ATTACHMENTS), AfterValidator(_of_chats)]


GIVEN = "attachments"
"""Name of the step that says which files an agent was given."""


class StoredFile(Closed):
    """A file that can be given to an order. `digest`: SHA-256 (hex) of its bytes.

    `media_type` is told by the bytes, not by the sender. `width` and `height` of a picture in pixels, as its head says;
    None for other files.
    """

    id: Identifier
    digest: str
    name: Text
    media_type: str
    bytes: int
    width: int | None = None
    height: int | None = None


class ShownAttachment(Closed):
    """One attachment as its agent is shown it, once and for all requests: `text`, then the picture `image`.

    `id` is that of the `StoredFile`, which may be gone. `artifact`: digest of the stored whole text of a document.
    """

    id: str
    name: Text
    text: Text
    image: ImageBlock | None = None
    artifact: str | None = None

    @property
    def digests(self) -> tuple[str, ...]:
        """Of the stored texts that it names."""
        picture = () if self.image is None else (self.image.artifact,)
        return picture if self.artifact is None else (self.artifact, *picture)
