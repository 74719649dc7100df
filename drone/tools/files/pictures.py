"""Pictures in the one form in which models of all providers are shown them.

A separate process loads only this module, so it imports little. The form: the first frame, upright, without metadata,
on white, 8 bits of red, green and blue, no edge longer than `EDGE` pixels, as PNG where that is small, else as JPEG.
"""

import io
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

from mcc.contracts.media import MOST_PIXELS

EDGE = 1_568
PNG_BYTES = 1_000_000
JPEG_BYTES = 2_000_000

_QUALITIES = (85, 60, 30)
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def picture_renderer() -> Callable[[Any], object]:
    """The function that the separate process runs: from a picture as base64 to its rendition."""
    from PIL import Image

    Image.preinit()  # loads the formats
    return lambda question: _rendered(b64decode(str(question)))


def _rendered(data: bytes) -> dict[str, object]:
    """Raises ValueError with a sentence without its subject."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
            # Lets JPEG be decoded at an eighth to a half of its size, which is all that is needed of a large one.
            opened.draft("RGB", (2 * EDGE, 2 * EDGE))
            opened.load()
            upright = ImageOps.exif_transpose(opened)
            upright.thumbnail((EDGE, EDGE), Image.Resampling.LANCZOS, reducing_gap=2.0)
            picture = _on_white(upright)
    except UnidentifiedImageError as error:
        raise ValueError("is not the kind of picture that it begins as, or is damaged") from error
    except Image.DecompressionBombError as error:
        raise ValueError("has too many pixels") from error
    except (OSError, SyntaxError, EOFError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ValueError("is cut off or damaged") from error
    for media_type, encoded in _encodings(picture):
        if len(encoded) <= (PNG_BYTES if media_type == "image/png" else JPEG_BYTES):
            width, height = picture.size
            made = {"data": b64encode(encoded).decode(), "media_type": media_type, "width": width, "height": height}
            return dict(made)
    raise ValueError("cannot be made small enough")


def _on_white(picture: Any) -> Any:
    """The picture in red, green and blue, 8 bits each; what is transparent becomes white."""
    from PIL import Image

    if picture.mode.startswith(("I", "F")):
        # 16 bits a pixel or more: the upper 8 of them.
        picture = picture.convert("I").point(lambda value: value * (1 / 256)).convert("L")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        ground = Image.new("RGB", picture.size, "white")
        ground.paste(picture, mask=picture.getchannel("A"))
        return ground
    plain = Image.new("RGB", picture.size)
    plain.paste(picture.convert("RGB"))
    return plain


def _encodings(picture: Any) -> Iterator[tuple[str, bytes]]:
    png = io.BytesIO()
    picture.save(png, "PNG")
    yield "image/png", png.getvalue()
    for quality in _QUALITIES:
        jpeg = io.BytesIO()
        picture.save(jpeg, "JPEG", quality=quality)
        yield "image/jpeg", jpeg.getvalue()
