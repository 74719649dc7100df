"""What a file is by its bytes: its media type and a picture's size, read from its head. Nothing is decoded."""

import codecs
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MOST_PIXELS = 100_000_000
LONGEST_EDGE = 20_000

HEAD_BYTES = 1024 * 1024
"""A picture says its size within so many bytes, or is not taken."""

TEXT, PDF = "text/plain", "application/pdf"
TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp", PDF, TEXT)

_PNG = b"\x89PNG\r\n\x1a\n"
_PDF = b"%PDF-"
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


class BadPicture(ValueError):
    """The message says what is wrong with the picture: a sentence without its subject."""


class UnknownMedia(ValueError):
    """The bytes are of no kind that is taken; the message is a sentence without its subject."""


@dataclass(frozen=True, slots=True)
class Measured:
    media_type: str
    width: int
    height: int


def is_picture(start: bytes) -> bool:
    """Whether a file that begins with these 16 bytes is a picture of a kind that models can be shown."""
    return any(matches(start) for matches, _ in _KINDS.values())


def measured(head: bytes) -> Measured:
    """Media type and size in pixels of the picture that begins with `head`. Raises `BadPicture`."""
    for media_type, (matches, size_of) in _KINDS.items():
        if matches(head):
            try:
                width, height = size_of(head[:HEAD_BYTES])
            except IndexError as error:
                raise BadPicture("is cut off or damaged") from error
            if not width or not height:
                raise BadPicture(f"has {width:,} x {height:,} pixels")
            if max(width, height) > LONGEST_EDGE or width * height > MOST_PIXELS:
                raise BadPicture(
                    f"has {width:,} x {height:,} pixels; at most {LONGEST_EDGE:,} on a side and "
                    f"{MOST_PIXELS:,} in all are taken"
                )
            return Measured(media_type, width, height)
    raise BadPicture("is of no known kind")


class MediaReader:
    """Tells what a file is while its bytes arrive in pieces: only text has to be looked at as a whole."""

    def __init__(self) -> None:
        self.media_type = ""
        self.size: Measured | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, piece: bytes) -> None:
        """The next piece; the first is at least `HEAD_BYTES` long, or the whole file. Raises `BadPicture`,
        `UnknownMedia`."""
        if not self.media_type:
            self._begin(piece)
        if self.media_type == TEXT:
            self._decode(piece, final=False)

    def end(self) -> None:
        """All bytes have arrived. Raises `UnknownMedia`."""
        if self.media_type == TEXT:
            self._decode(b"", final=True)

    def _begin(self, head: bytes) -> None:
        if is_picture(head[:16]):
            self.size = measured(head)
            self.media_type = self.size.media_type
        else:
            self.media_type = PDF if head.startswith(_PDF) else TEXT

    def _decode(self, piece: bytes, *, final: bool) -> None:
        try:
            if "\0" in self._decoder.decode(piece, final):
                raise UnknownMedia("is binary, and neither PNG, JPEG, GIF, WebP nor PDF")
        except UnicodeDecodeError as error:
            raise UnknownMedia("is neither PNG, JPEG, GIF, WebP, PDF nor UTF-8 text") from error


def _png_size(data: bytes) -> tuple[int, int]:
    if data[12:16] != b"IHDR":
        raise IndexError(12)
    return _integer(data, 16, 4), _integer(data, 20, 4)


def _jpeg_size(data: bytes) -> tuple[int, int]:
    """Width and height, from the first segment that holds a size. Raises IndexError where there is none."""
    at = 2
    while True:
        if data[at] != 0xFF:
            raise IndexError(at)
        mark = data[at + 1]
        if mark == 0xFF:
            at += 1
        elif mark in _JPEG_ALONE:
            at += 2
        elif mark in _JPEG_SIZES:
            return _integer(data, at + 7, 2), _integer(data, at + 5, 2)
        else:
            at += 2 + max(2, _integer(data, at + 2, 2))


def _gif_size(data: bytes) -> tuple[int, int]:
    return _integer(data, 6, 2, "little"), _integer(data, 8, 2, "little")


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return _integer(data, 24, 3, "little") + 1, _integer(data, 27, 3, "little") + 1
        case b"VP8L":
            bits = _integer(data, 21, 4, "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _integer(data, 26, 2, "little") & 0x3FFF, _integer(data, 28, 2, "little") & 0x3FFF
    raise IndexError(12)


def _integer(data: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "little" if order == "little" else "big")


_KINDS: Mapping[str, tuple[Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]]] = {
    "image/png": (lambda data: data.startswith(_PNG), _png_size),
    "image/jpeg": (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg_size),
    "image/gif": (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif_size),
    "image/webp": (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _webp_size),
}
