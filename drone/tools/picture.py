"""Picture files: what kind they are and how large, read from their frames alone; nothing is decoded."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

LARGEST = 3_750_000
"""Bytes of a picture: 5 MB as base64, the most that all providers take."""

LONGEST_SIDE = 8_000
"""Pixels, the most that all providers take."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})


class BadPicture(ValueError):
    """A sentence without its subject: what is wrong with the picture."""


@dataclass(frozen=True, slots=True)
class Measured:
    media_type: str
    width: int
    height: int


def is_picture(start: bytes) -> bool:
    """Whether a file that begins with these 16 bytes is a picture of a kind that models are shown."""
    return any(is_such(start) for is_such, _ in _KINDS.values())


def measured(data: bytes) -> Measured:
    """Kind and size in pixels. Raises `BadPicture`."""
    for media_type, (is_such, size_of) in _KINDS.items():
        if is_such(data):
            try:
                width, height = size_of(data)
            except IndexError as error:
                raise BadPicture("is cut off or damaged") from error
            if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
                raise BadPicture(f"has {width:,} x {height:,} pixels; sides from 1 to {LONGEST_SIDE:,} are shown")
            return Measured(media_type, width, height)
    raise BadPicture("is of no known kind any more")


def _png(data: bytes) -> tuple[int, int]:
    """Each chunk is followed by its checksum."""
    at = len(_PNG)
    while data[at + 4 : at + 8] != b"IEND":
        end = at + 8 + _number(data, at, 4)
        if zlib.crc32(memoryview(data)[at + 4 : end]) != _number(data, end, 4):
            raise IndexError(at)
        at = end + 4
    if data[12:16] != b"IHDR" or len(data) < at + 12:
        raise IndexError(12)
    return _number(data, 16, 4), _number(data, 20, 4)


def _jpeg(data: bytes) -> tuple[int, int]:
    """Segments up to the one that says the size; the end mark stands near the end, some cameras write behind it."""
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
            break
        else:
            at += 2 + max(2, _number(data, at + 2, 2))
    if data.rfind(b"\xff\xd9") < at:
        raise IndexError(len(data))
    return _number(data, at + 7, 2), _number(data, at + 5, 2)


def _gif(data: bytes) -> tuple[int, int]:
    if b"\x3b" not in data[13:]:
        raise IndexError(len(data))
    return _number(data, 6, 2, "little"), _number(data, 8, 2, "little")


def _webp(data: bytes) -> tuple[int, int]:
    if len(data) < 8 + _number(data, 4, 4, "little"):
        raise IndexError(len(data))
    match data[12:16]:
        case b"VP8X":
            return _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1
        case b"VP8L":
            bits = _number(data, 21, 4, "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _number(data, 26, 2, "little") & 0x3FFF, _number(data, 28, 2, "little") & 0x3FFF
    raise IndexError(12)


def _number(data: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "little" if order == "little" else "big")


_KINDS: Mapping[str, tuple[Callable[[bytes], bool], Callable[[bytes], tuple[int, int]]]] = {
    "image/png": (lambda data: data.startswith(_PNG), _png),
    "image/jpeg": (lambda data: data.startswith(b"\xff\xd8\xff"), _jpeg),
    "image/gif": (lambda data: data.startswith((b"GIF87a", b"GIF89a")), _gif),
    "image/webp": (lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP", _webp),
}
