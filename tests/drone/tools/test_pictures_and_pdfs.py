"""read_file on pictures and PDFs, also hostile ones: a result, or a sentence that says why not."""

import io
import struct
import zlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from drone.agent.turns.toolset import Output, ToolSet
from drone.sandbox.places.paths import Workspace
from drone.tools.files.reading import read_file
from drone.tools.files.rendition import LARGEST_PICTURE
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.blocks import ImageBlock
from mcc.contracts.compaction import Clipped
from mcc.transcript.messages import Picture, ToolResult, ToolResults
from mcc.transcript.pictures import picture_characters
from mcc.transcript.transcript import Transcript, length

Use = Callable[..., Coroutine[Any, Any, Output]]


def encoded(kind: str, width: int, height: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 30, 30)).save(file, kind)
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    """A grey picture; of a size that Pillow would not make, its head alone is true."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * min(height, 2_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    return encoded("JPEG", width, height)


def gif(width: int, height: int) -> bytes:
    return encoded("GIF", width, height)


def webp(width: int, height: int) -> bytes:
    return encoded("WEBP", width, height)


def pdf(*pages: str, stream: bytes = b"") -> bytes:
    """A PDF with one line a page; `stream`: the content of the first page instead, already deflated."""
    bodies = [b"<</Type/Catalog/Pages 2 0 R>>"]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    bodies.append(f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode())
    bodies.append(b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    for number, text in enumerate(pages):
        shown, how = f"BT /F 12 Tf 72 700 Td ({text}) Tj ET".encode(), b""
        if stream and number == 0:
            shown, how = stream, b"/Filter/FlateDecode"
        bodies.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Resources<</Font<</F 3 0 R>>>>"
            f"/Contents {5 + 2 * number} 0 R>>".encode()
        )
        bodies.append(b"<</Length %d%b>>stream\n%b\nendstream" % (len(shown), how, shown))
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.4\n")
    for number, body in enumerate(bodies, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (number, body))
    at = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(bodies) + 1))
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    out.write(b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(bodies) + 1, at))
    return out.getvalue()


@pytest.fixture
def tools(tmp_path: Path) -> ToolSet:
    return FunctionTools([read_file], workspace=Workspace(tmp_path))


@pytest.mark.parametrize(
    ("make", "kind"), [(png, "image/png"), (jpeg, "image/jpeg"), (gif, "image/gif"), (webp, "image/webp")]
)
async def test_kind_and_size_are_read_from_the_frame(
    use: Use, tools: ToolSet, tmp_path: Path, make: Callable[[int, int], bytes], kind: str
) -> None:
    data = make(640, 480)
    (tmp_path / "a.bin").write_bytes(data)
    output = await use(tools, "read_file", path="a.bin")
    assert output.content == f"a.bin, {kind}, 640 x 480 pixels, {len(data):,} bytes\n"


async def test_pictures_that_no_model_can_be_shown_say_why(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(png(100_000, 100_000))
    (tmp_path / "none.png").write_bytes(png(0, 7))
    (tmp_path / "cut.jpg").write_bytes(jpeg(640, 480)[:700])
    (tmp_path / "flip.png").write_bytes(png(9, 9).replace(b"IDAT", b"IDAU"))
    with (tmp_path / "large.png").open("wb") as file:
        file.write(png(9, 9)[:40])
        file.truncate(LARGEST_PICTURE * 10)
    (tmp_path / "out.png").symlink_to("/etc/passwd")
    for name, said in {
        "wide.png": "100,000 x 100,000 pixels",
        "none.png": "0 x 7 pixels",
        "cut.jpg": "is cut off or damaged",
        "flip.png": "or is damaged",
        "large.png": "more than 33,554,432 bytes",
        "out.png": "",
    }.items():
        output = await use(tools, "read_file", path=name)
        assert output.is_error and said in output.content and not output.images and "root:" not in output.content


async def test_pictures_and_texts_come_in_one_call(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\n")
    (tmp_path / "b.png").write_bytes(png(4, 4))
    output = await use(tools, "read_file", paths=["a.py", "b.png", "c.png"])
    assert "1\tone\n" in output.content and "b.png, image/png" in output.content and "c.png: " in output.content


async def test_a_pdf_is_read_as_its_pages(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("Tides rise.", "Tides fall."))
    output = await use(tools, "read_file", path="a.pdf")
    head, *lines = output.content.splitlines()
    assert "the text of a PDF of 2 pages" in head and not output.is_error
    assert lines == ["1\t# page 1", "2\tTides rise.", "3\t# page 2", "4\tTides fall."]
    assert "3\t# page 2" in (await use(tools, "read_file", path="a.pdf", start_line=3, end_line=3)).content


async def test_hostile_pdfs_end_in_a_sentence(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    loop = pdf("x").replace(b"/Kids[4 0 R]", b"/Kids[2 0 R]")
    bomb = zlib.compress(b"BT /F 12 Tf (A) Tj ET\n" * 5_000_000, 9)
    files = {"loop.pdf": loop, "bomb.pdf": pdf("x", stream=bomb), "cut.pdf": pdf("x")[:60], "no.pdf": b"%PDF-1.7\n\0\0"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    with (tmp_path / "large.pdf").open("wb") as file:
        file.write(pdf("x"))
        file.truncate(200_000_000)
    for name in (*files, "large.pdf"):
        output = await use(tools, "read_file", path=name)
        assert len(output.content) < 100_000
        assert output.is_error or "# page 1" in output.content or "a PDF of 0 pages" in output.content, output.content
    assert "more than is read whole" in (await use(tools, "read_file", path="large.pdf", start_line=1)).content


def block(number: int, width: int = 1_500, height: int = 1_500) -> ImageBlock:
    return ImageBlock(artifact=f"{number}", media_type="image/png", width=width, height=height)


def result(number: int) -> ToolResults:
    shown = Picture(block(number))
    return ToolResults((ToolResult(f"call-{number}", "read_file", "seen", False, (shown,)),))


def test_pictures_count_in_a_conversation_and_are_the_first_to_go() -> None:
    transcript = Transcript(readable=True)
    transcript.add(result(1))
    assert (
        transcript.characters_said == length(result(1)) == 4 + picture_characters([Picture(block(1))]) == 4 + 4 * 1_600
    )
    transcript.clip([Clipped(call_id="call-1", kept=4, characters=4, artifact="f" * 64)])
    [shown] = transcript.messages
    assert isinstance(shown, ToolResults) and not shown.results[0].pictures
    assert "did not fit" in shown.results[0].content and transcript.characters_said == 4
