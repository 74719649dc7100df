"""The files that an order was given, as its agent is shown them: pictures as all models can take them, texts, and
sentences in place of what cannot be shown."""

import base64
import mimetypes
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Event
from typing import Protocol

from drone.agent.ports.artifacts import Artifacts
from drone.threads import OwnThreads
from drone.tools.files.documents import PDF_SECONDS, pdf_problem, pdf_reader
from drone.tools.files.rendition import rendition_of
from drone.tools.frame.display_text import one_line, show_controls
from mcc.contracts.attachments import ShownAttachment, StoredFile
from mcc.contracts.fence import fenced
from mcc.contracts.media import PDF, TEXT, BadPicture
from mcc.redaction import Redactor
from mcc.side_process import CutOff, SideProcess
from mcc.transcript.previews import handle_of, where_to_read

SHOWN_CHARACTERS = 20_000
"""Characters shown of the text of one attachment; what is kept of it is an artifact."""

KEPT_CHARACTERS = 4_000_000
"""Characters kept of the text of one attachment: what stands in it decides how long reading it takes."""

_MARGIN = 20_000
"""Longer than any secret, so that none is cut in two, and half of it not recognised."""

NAME_CHARACTERS = 120
_NO_BRACKETS = str.maketrans("[]<>", "()()")


class AttachmentPort(Protocol):
    """Reads the files that the order was given."""

    async def file(self, artifact_id: str) -> tuple[StoredFile, bytes] | None:
        """A file and its bytes; None where it was removed. Raises `JournalError`."""


@dataclass(frozen=True, slots=True)
class Showing:
    """What attachments are shown with. `readable`: whether the agent's model can read artifacts."""

    port: AttachmentPort
    artifacts: Artifacts
    threads: OwnThreads
    redactor: Redactor
    readable: bool = True

    async def all(self, ids: Sequence[str]) -> tuple[ShownAttachment, ...]:
        """Each attachment as it is shown, in its order. Raises `JournalError`."""
        return tuple([await self._one(number, artifact_id) for number, artifact_id in enumerate(ids, 1)])

    async def _one(self, number: int, artifact_id: str) -> ShownAttachment:
        attachment = await self.port.file(artifact_id)
        if attachment is None:
            text = f"[attachment {number}: it was removed before it could be shown]"
            return ShownAttachment(id=artifact_id, name="", text=text)
        file, data = attachment
        # Nothing in a person's name for a file ends the line, or looks like its end.
        name = one_line(self.redactor.text(file.name), NAME_CHARACTERS).translate(_NO_BRACKETS)
        if file.media_type in (PDF, TEXT):
            return await self._document(number, file, name, data)
        try:
            made = await self.threads.tool(rendition_of, data)
        except BadPicture as error:
            return self._told(number, file, name, f"This picture is not shown: it {error}.")
        image = await self.artifacts.image(made.data, made.block(name))
        size = f"{file.width}×{file.height}"
        line = _line(number, name, file.media_type, size, handle_of(image.artifact), told=_misnamed(file))
        return ShownAttachment(id=file.id, name=name, text=line, image=image)

    async def _document(self, number: int, file: StoredFile, name: str, data: bytes) -> ShownAttachment:
        size = f"{file.bytes:,} bytes"
        if file.media_type == PDF:
            try:
                text, pages = await self.threads.tool(_text_of_pdf, data)
            except ValueError as error:
                return self._told(number, file, name, f"Its text cannot be read: {error}.")
            size = "1 page" if pages == 1 else f"{pages:,} pages"
        else:
            # No character has more than four bytes.
            text = data[: 4 * (KEPT_CHARACTERS + _MARGIN)].decode("utf-8", "replace").removeprefix("\ufeff")
        # In a thread: a text that is all secrets or controls takes seconds, and other orders run in this loop.
        text = await self.threads.tool(_readable, text, self.redactor)
        digest = await self.artifacts.keep(text)
        line = _line(number, name, file.media_type, size, handle_of(digest), told=_misnamed(file))
        shown = fenced(text[:SHOWN_CHARACTERS] or "(no text)", file.id)
        rest = len(text) - SHOWN_CHARACTERS
        more = f"\n[… {rest:,} more characters; {where_to_read(digest, self.readable)} …]" if rest > 0 else ""
        return ShownAttachment(id=file.id, name=name, text=f"{line}\n{shown}{more}", artifact=digest)

    def _told(self, number: int, file: StoredFile, name: str, sentence: str) -> ShownAttachment:
        line = _line(number, name, file.media_type, f"{file.bytes:,} bytes", told=_misnamed(file))
        return ShownAttachment(id=file.id, name=name, text=f"{line}\n[{one_line(sentence, 500)}]")


def _line(number: int, name: str, media_type: str, size: str, handle: str = "", *, told: str = "") -> str:
    parts = [part for part in (name, media_type, size, handle) if part]
    return f"[attachment {number}: {', '.join(parts)}{told}]"


def _misnamed(file: StoredFile) -> str:
    """What is said of a file whose name promises another kind than its bytes have."""
    promised, _ = mimetypes.guess_type(file.name, strict=False)
    known = promised is not None and promised.startswith(("image/", "audio/", "video/", PDF))
    return f"; its name promises {promised}" if known and promised != file.media_type else ""


def _readable(text: str, redactor: Redactor) -> str:
    """The text without secrets and with its control characters visible, at most `KEPT_CHARACTERS` of it."""
    clean = redactor.text(text[: KEPT_CHARACTERS + _MARGIN])
    if len(text) > KEPT_CHARACTERS:
        clean = clean[:-_MARGIN] + f"\n[… only the first {KEPT_CHARACTERS:,} characters were kept …]"
    shown, _ = show_controls(clean)
    return shown


def _text_of_pdf(data: bytes) -> tuple[str, int]:
    """Text and number of pages. Raises ValueError."""
    if problem := pdf_problem():
        raise ValueError(problem)
    try:
        with closing(SideProcess(pdf_reader, Event())) as aside:
            text, pages = aside.ask(base64.b64encode(data).decode(), PDF_SECONDS)
    except CutOff as error:
        raise ValueError(str(error)) from error
    return str(text), int(pages)
