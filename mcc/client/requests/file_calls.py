"""The requests of files for orders and the parsing of their answers, without I/O: for both clients."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mcc.client.calls import Call
from mcc.client.errors import refusal

if TYPE_CHECKING:
    from mcc.contracts.attachments import StoredFile

UPLOAD_SECONDS = 330.0
"""Longer than the service waits for a file."""


def upload(path: "str | Path", name: str | None) -> "Call[StoredFile]":
    """Not repeatable: each call stores a file. Raises OSError where it cannot be read, `Invalid` where it is too
    large."""
    from mcc.contracts.attachments import FILE_BYTES, StoredFile

    file = Path(path)
    with file.open("rb") as opened:
        data = opened.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise refusal(413, {"detail": f"{file} has more than {FILE_BYTES:,} bytes."})
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name or file.name, safe='')}",
    }
    return Call(
        "POST",
        "/artifacts",
        StoredFile.model_validate,
        body=data,
        headers=headers,
        repeatable=False,
        seconds=UPLOAD_SECONDS,
    )


def read(artifact_id: str) -> "Call[bytes]":
    return Call("GET", _path(artifact_id), bytes, raw=True, seconds=UPLOAD_SECONDS)


def remove(artifact_id: str) -> "Call[None]":
    return Call("DELETE", _path(artifact_id), lambda _: None)


def _path(artifact_id: str) -> str:
    return f"/artifacts/{quote(artifact_id, safe='')}"
