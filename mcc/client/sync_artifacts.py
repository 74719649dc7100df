"""Files for orders for ordinary code: every call blocks. Written by `python -m scripts.sync_client`."""

from pathlib import Path
from typing import TYPE_CHECKING

from mcc.client.requests import file_calls as calls

if TYPE_CHECKING:
    from mcc.client.sync_connection import Connection
    from mcc.contracts.attachments import StoredFile


class Files:
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def upload(self, path: "str | Path", *, name: str | None = None) -> "StoredFile":
        """Store a file for `attachments` of an order: a picture, a PDF or UTF-8 text of at most 32 MB, called `name`
        (None: as the file is). Raises `Invalid` for other files, OSError where it cannot be read."""
        return self._connection.send(calls.upload(path, name))

    def get(self, artifact_id: str) -> bytes:
        """The bytes of a file. Raises `NotFound`."""
        return self._connection.send(calls.read(artifact_id))

    def remove(self, artifact_id: str) -> None:
        """Remove a file, also from orders that have it. Raises `NotFound`."""
        self._connection.send(calls.remove(artifact_id))
