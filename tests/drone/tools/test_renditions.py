"""The one form in which pictures are shown: every kind of picture, and what cannot be made one of."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

import pytest
from PIL import Image

from drone.tools.files.pictures import EDGE, JPEG_BYTES, PNG_BYTES
from drone.tools.files.rendition import Renderer
from mcc.contracts.media import BadPicture

Size = tuple[int, int]


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    with closing(Renderer()) as renderer:
        yield renderer


def encoded(picture: Image.Image, kind: str = "PNG", **more: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **more)
    return file.getvalue()


def plain(size: Size = (40, 30), colour: str = "red", mode: str = "RGB") -> Image.Image:
    return Image.new(mode, size, colour)


def shown(renderer: Renderer, data: bytes) -> Image.Image:
    made = renderer.rendition(data)
    picture = Image.open(io.BytesIO(made.data))
    assert (picture.size, Image.MIME[str(picture.format)]) == ((made.width, made.height), made.media_type)
    assert picture.mode == "RGB" and not picture.getexif() and set(picture.info) <= {"jfif", "jfif_version", *_JFIF}
    return picture


_JFIF = ("jfif_unit", "jfif_density")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_every_kind_becomes_the_same_form(renderer: Renderer, kind: str) -> None:
    pixel = shown(renderer, encoded(plain(), kind)).getpixel((5, 5))
    assert isinstance(pixel, tuple) and [round(value / 9) for value in pixel] == [28, 0, 0]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK", "I;16"])
def test_every_depth_is_shown_in_eight_bits(renderer: Renderer, mode: str) -> None:
    data = encoded(Image.new(mode, (40, 30)), "JPEG" if mode == "CMYK" else "PNG")
    assert shown(renderer, data).size == (40, 30)


def test_what_is_transparent_is_white(renderer: Renderer) -> None:
    assert shown(renderer, encoded(Image.new("RGBA", (9, 9), (0, 0, 0, 0)))).getpixel((4, 4)) == (255, 255, 255)


def test_sixteen_bits_keep_their_brightness(renderer: Renderer) -> None:
    pixel = shown(renderer, encoded(Image.new("I;16", (9, 9), 0x8000))).getpixel((4, 4))
    assert pixel == (128, 128, 128)


def test_a_large_picture_is_made_smaller_and_keeps_its_shape(renderer: Renderer) -> None:
    assert shown(renderer, encoded(plain((4_000, 1_000)), "JPEG")).size == (EDGE, EDGE // 4)


def test_a_photograph_stands_upright_and_says_nothing_of_its_camera(renderer: Renderer) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "a camera"
    data = encoded(plain((60, 20)), "JPEG", exif=exif)
    assert shown(renderer, data).size == (20, 60)
    assert b"camera" not in renderer.rendition(data).data


def test_of_a_moving_picture_the_first_frame_is_shown(renderer: Renderer) -> None:
    frames = [plain(colour=colour) for colour in ("blue", "red")]
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert shown(renderer, data).getpixel((5, 5)) == (0, 0, 255)


def test_what_is_large_as_png_becomes_a_jpeg(renderer: Renderer) -> None:
    noise = Image.effect_noise((1_400, 1_400), 200).convert("RGB")
    made = renderer.rendition(encoded(noise))
    assert made.media_type == "image/jpeg" and len(encoded(noise)) > PNG_BYTES and len(made.data) <= JPEG_BYTES


def head(width: int, height: int, rows: bytes = b"") -> bytes:
    """A PNG of this size with these rows, compressed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    first = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", first) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


HOSTILE: Mapping[str, tuple[Callable[[], bytes], str]] = {
    "truncated": (lambda: encoded(plain((500, 500)), "JPEG")[:900], "cut off or damaged"),
    "mislabelled": (lambda: b"\xff\xd8\xff" + b"not a picture" * 9, "damaged"),
    "empty": (lambda: b"\x89PNG\r\n\x1a\n", "cut off or damaged"),
    "no rows": (lambda: head(300, 300), "cut off or damaged"),
    "no pixels": (lambda: head(0, 300), "0 x 300 pixels"),
    "too many pixels": (lambda: head(10_001, 10_000), "100,000,000"),
    "too long": (lambda: head(20_001, 1), "20,000 on a side"),
    "a bomb": (lambda: head(9_990, 9_990, b"\0" * (3 * 9_990 + 1) * 9_990), "memory"),
}
"""Made when they are needed: the bomb takes a second and 300 MB, and every process would make it to collect tests."""


@pytest.mark.parametrize("name", HOSTILE)
def test_what_cannot_be_shown_is_a_sentence_and_the_next_picture_is_shown(renderer: Renderer, name: str) -> None:
    made, said = HOSTILE[name]
    with pytest.raises(BadPicture, match=said):
        renderer.rendition(made())
    assert shown(renderer, encoded(plain())).size == (40, 30)
