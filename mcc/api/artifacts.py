"""Files for orders over HTTP: uploaded as they are, read back, removed. The service reads their heads, and decodes
nothing."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from email.message import Message as Headers
from urllib.parse import quote

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from mcc.api.access.callers import CallerHere
from mcc.api.orders import check_disk
from mcc.api.problems import Refusal
from mcc.api.service import API, ERRORS, Service, ServiceHere, answer, answers
from mcc.contracts.attachments import CHUNK_BYTES, FILE_BYTES, NAME_CHARACTERS, StoredFile
from mcc.contracts.callers import AccessScope
from mcc.contracts.ids import is_identifier
from mcc.contracts.media import TYPES, BadPicture, MediaReader, UnknownMedia

router = APIRouter(prefix=API, tags=["artifacts"])

UPLOAD_SECONDS = 300.0
NO_NAME = "file"
_CLOSE = {"Connection": "close"}

_BODY = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in TYPES},
    },
    "parameters": [
        {
            "name": "Content-Disposition",
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": 'The file\'s name: `attachment; filename="shot.png"`.',
        }
    ],
}


@router.post("/artifacts", status_code=201, responses=answers(StoredFile, 201), openapi_extra=_BODY)
async def upload(request: Request, service: ServiceHere, caller: CallerHere) -> Response:
    """Store a file for `attachments` of an order: PNG, JPEG, GIF, WebP, PDF or UTF-8 text of at most 32 MB. The body
    is the file; its bytes, not its name, say what it is. Until an order has it, it is kept for a day."""
    check_disk(service)
    name = name_in(request.headers.get("content-disposition", ""))
    length = request.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > FILE_BYTES:
        raise _too_large()
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            return answer(await _Upload(service, caller.principal, name).received(request), 201)
    except TimeoutError:
        raise Refusal(408, f"The file did not arrive within {UPLOAD_SECONDS:g} s.", _CLOSE) from None
    except ClientDisconnect:
        raise Refusal(400, "The connection ended before the file did.") from None
    except BadPicture as error:
        raise Refusal(422, f"This picture {error}.", _CLOSE) from error
    except UnknownMedia as error:
        raise Refusal(415, f"This file {error}.", _CLOSE) from error


@router.get("/artifacts/{artifact_id}", response_class=Response, responses={**ERRORS})
async def read(artifact_id: str, service: ServiceHere, caller: CallerHere) -> Response:
    """The bytes of a file that was uploaded for an order, with its media type and name."""
    file = await service.offload(service.store.artifacts.get, _known(artifact_id), caller.principal)
    pieces = service.store.artifacts.pieces(file.id)

    async def generate() -> AsyncIterator[bytes]:
        while piece := await service.slow(next, pieces, b""):
            yield piece

    headers = {
        "Content-Length": str(file.bytes),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
        "ETag": f'"{file.digest}"',
    }
    kind = f"{file.media_type}; charset=utf-8" if file.media_type.startswith("text/") else file.media_type
    return StreamingResponse(generate(), headers=headers, media_type=kind)


@router.delete("/artifacts/{artifact_id}", status_code=204, response_class=Response, responses={**ERRORS})
async def remove(artifact_id: str, service: ServiceHere, caller: CallerHere) -> Response:
    """Remove an uploaded file, also from orders that have it. What an agent was shown of it stays in the journal. Those
    of others need the right `operate`."""
    anybodys = AccessScope.OPERATE in caller.scopes
    await service.write(service.store.artifacts.remove, _known(artifact_id), caller.principal, anybodys=anybodys)
    return Response(status_code=204)


class _Upload:
    """One file on its way into the store, piece by piece; it is removed again unless all of it arrives."""

    def __init__(self, service: Service, principal: str, name: str) -> None:
        self._service = service
        self._principal = principal
        self._name = name
        self._media = MediaReader()
        self._digest = hashlib.sha256()
        self._id: str | None = None
        self._pieces = 0

    async def received(self, request: Request) -> StoredFile:
        try:
            async for piece in _pieces(request):
                await self._store(piece)
            if self._id is None:
                raise Refusal(422, "The file is empty.")
            self._media.end()
            size = self._media.size
            edges = None if size is None else (size.width, size.height)
            files, digest = self._service.store.artifacts, self._digest.hexdigest()
            return await self._service.write(files.finish, self._id, digest, self._media.media_type, edges)
        except BaseException:
            if self._id is not None:
                # Whatever ended the request: half a file is of no use, and counts as much as a whole one.
                await asyncio.shield(self._service.write(self._service.store.artifacts.give_up, self._id))
            raise

    async def _store(self, piece: bytes) -> None:
        self._media.feed(piece)
        self._digest.update(piece)
        files = self._service.store.artifacts
        if self._id is None:
            self._id = await self._service.write(files.begin, self._principal, self._name)
        await self._service.write(files.append, self._id, self._principal, self._pieces, piece)
        self._pieces += 1


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces of one chunk; the last one is shorter. Raises `Refusal` for a body that is too large."""
    waiting, total = bytearray(), 0
    async for part in request.stream():
        total += len(part)
        if total > FILE_BYTES:
            raise _too_large()
        waiting += part
        while len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting[:CHUNK_BYTES])
            del waiting[:CHUNK_BYTES]
    if waiting:
        yield bytes(waiting)


def name_in(disposition: str) -> str:
    """The file's name in a Content-Disposition header, without directories."""
    headers = Headers()
    # Starlette reads headers as Latin-1; many clients send UTF-8.
    headers["Content-Disposition"] = disposition.encode("latin-1", "replace").decode("utf-8", "replace")
    name = headers.get_filename("") or ""
    name = name.replace("\\", "/").rpartition("/")[2].strip()
    return name[:NAME_CHARACTERS] or NO_NAME


def _known(artifact_id: str) -> str:
    # A malformed id cannot be in the database, so it is not looked up.
    if not is_identifier(artifact_id):
        raise Refusal(404, "There is no such file.")
    return artifact_id


def _too_large() -> Refusal:
    return Refusal(413, f"A file has at most {FILE_BYTES:,} bytes.", _CLOSE)
