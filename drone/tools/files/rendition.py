"""The one form in which models of all providers are shown a picture, made in a process that can be killed."""

from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import dataclass
from threading import Event

from drone.tools.files.pictures import picture_renderer
from mcc.contracts.attachments import FILE_BYTES
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.media import BadPicture, Measured, measured
from mcc.side_process import CutOff, SideProcess

SECONDS = 10.0
"""Processor time for one picture."""

MEMORY_BYTES = 512 * 1024 * 1024

LARGEST_PICTURE = FILE_BYTES
"""Bytes of the largest picture that is looked at."""


@dataclass(frozen=True, slots=True)
class Rendition:
    """A picture as models are shown it; `source` is what it was made of."""

    data: bytes
    media_type: str
    width: int
    height: int
    source: Measured

    def block(self, name: str) -> ImageBlock:
        """The block of a picture that is not stored yet."""
        return ImageBlock(
            artifact="",
            media_type=self.media_type,
            name=name,
            width=self.width,
            height=self.height,
            bytes=len(self.data),
        )


class Renderer:
    """Makes renditions, one after the other, in a process of its own; use from one thread, and close it."""

    def __init__(self, stop: Event | None = None) -> None:
        self._process = SideProcess(picture_renderer, stop, memory_bytes=MEMORY_BYTES)

    def rendition(self, data: bytes) -> Rendition:
        """Raises `BadPicture`: the picture cannot be shown, for the reason in the message."""
        if len(data) > LARGEST_PICTURE:
            raise BadPicture(f"has more than {LARGEST_PICTURE:,} bytes")
        source = measured(data)
        try:
            made = self._process.ask(b64encode(data).decode(), SECONDS)
        except ValueError as error:
            raise BadPicture(str(error)) from error
        except CutOff as error:
            raise BadPicture(f"cannot be made smaller here: {error}") from error
        return Rendition(b64decode(made["data"]), made["media_type"], made["width"], made["height"], source)

    def close(self) -> None:
        self._process.close()


def rendition_of(data: bytes) -> Rendition:
    """The rendition of one picture. Blocks; raises `BadPicture`."""
    with closing(Renderer()) as renderer:
        return renderer.rendition(data)
