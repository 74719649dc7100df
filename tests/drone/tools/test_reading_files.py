"""read_file as a model calls it: numbered lines within limits, restored from the journal."""

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from drone.agent.ports.receipts import passages
from drone.agent.turns.toolset import Output, ToolSet
from drone.sandbox.places.paths import Workspace
from drone.tools.files.listing import MAX_WHOLE_BYTES
from drone.tools.files.reading import CHARACTERS, LINES, MOST_CHARACTERS, read_file
from drone.tools.frame.tool import FunctionTools
from mcc.rules.reads import Passage

Use = Callable[..., Coroutine[Any, Any, Output]]


@pytest.fixture
def tools(tmp_path: Path) -> ToolSet:
    (tmp_path / "main.py").write_text("one\ntwo\nthree\n")
    return FunctionTools([read_file], workspace=Workspace(tmp_path))


@pytest.mark.parametrize(
    ("start", "end", "lines", "body"),
    [
        (None, None, "1-3", "1\tone\n2\ttwo\n3\tthree\n"),
        (2, None, "2-3", "2\ttwo\n3\tthree\n"),
        (None, 2, "1-2", "1\tone\n2\ttwo\n"),
        (2, 2, "2-2", "2\ttwo\n"),
        (3, 900, "3-3", "3\tthree\n"),
    ],
)
async def test_lines_come_with_their_numbers(
    use: Use, tools: ToolSet, start: int | None, end: int | None, lines: str, body: str
) -> None:
    output = await use(tools, "read_file", path="main.py", start_line=start, end_line=end)
    assert output.content == f"main.py, lines {lines} of 3, 14 bytes\n{body}"
    assert output.content.isascii(), "one sign beyond them, and each character of the text would take two bytes"


async def test_lines_that_are_not_there_are_told(use: Use, tools: ToolSet) -> None:
    past = await use(tools, "read_file", path="main.py", start_line=4)
    assert past.is_error and past.content == "main.py has 3 lines, so there is no line 4."
    assert "before start_line" in (await use(tools, "read_file", path="main.py", start_line=3, end_line=2)).content
    assert (await use(tools, "read_file", path="main.py", start_line=0)).is_error
    assert (await use(tools, "read_file")).content == "Give either path or paths."


async def test_an_empty_file_and_a_file_without_a_last_line_end(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "open").write_text("# Project")
    assert (await use(tools, "read_file", path="empty")).content == "empty, empty (0 bytes)\n"
    assert (await use(tools, "read_file", path="open")).content == "open, lines 1-1 of 1, 9 bytes\n1\t# Project\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
async def test_marks_and_wide_characters_are_decoded(use: Use, tools: ToolSet, tmp_path: Path, encoding: str) -> None:
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    (tmp_path / "wide").write_bytes(f"{mark}é\r\n\ttab\u2028end".encode(encoding))
    head, _, body = (await use(tools, "read_file", path="wide")).content.partition("\n")
    assert body == "1\té\n2\t\ttab\u2028end\n"
    assert head.endswith("line ends are CRLF") and ("UTF-16" in head) is ("16" in encoding)


async def test_what_is_no_text_is_told(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x89PNG\x00\x00")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "late").write_bytes(b"x \n" * 9_000 + b"\0\n")
    binary = await use(tools, "read_file", path="image")
    assert binary.is_error and "is binary (6 bytes, a NUL at byte 4)" in binary.content
    latin = await use(tools, "read_file", path="latin")
    assert "shown as U+FFFD\n1\tcaf�\n" in latin.content
    late = await use(tools, "read_file", path="late", start_line=9_001)
    assert "1 control character shown as pictures" in late.content and "\0" not in late.content


async def test_a_long_text_comes_in_pieces_that_say_where_to_go_on(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    lines = [f"line {number} é" * (1 + number % 30) for number in range(1, 3_001)]
    (tmp_path / "long").write_text("\n".join(lines))
    read: list[str] = []
    while True:
        content = (await use(tools, "read_file", path="long", start_line=len(read) + 1)).content
        found = next(passages(content))
        assert len(found.lines) <= LINES and len(content) <= CHARACTERS + 200 and found.first == len(read) + 1
        read.extend(found.lines)
        if "go on with" not in content:
            break
        assert f"go on with start_line={len(read) + 1}\n" in content
    assert read == lines
    wide = (await use(tools, "read_file", path="long", start_line=1, end_line=3_000)).content
    assert CHARACTERS < len(wide) <= MOST_CHARACTERS + 200 and "go on with" in wide


async def test_long_lines_are_cut_and_say_how_much_is_missing(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    (tmp_path / "min.js").write_text("aé" * 200_000 + "\nshort\n")
    content = (await use(tools, "read_file", path="min.js")).content
    head, first, second, _ = content.split("\n")
    assert head.endswith("1 line cut at 1,000 characters")
    assert first == f"1\t{'aé' * 500} [cut: 598,500 more bytes]" and second == "2\tshort"
    assert next(passages(content)).lines == ("aé" * 500, "short")


async def test_several_files_come_at_once_with_what_is_wrong_in_its_place(
    use: Use, tools: ToolSet, tmp_path: Path
) -> None:
    (tmp_path / "3, lines 1-1, 2 bytes").write_text("odd\n")
    (tmp_path / "two\nlines").write_text("7\tseven\n")
    paths = ["main.py", "nope.py", "3, lines 1-1, 2 bytes", "two\nlines"]
    output = await use(tools, "read_file", paths=paths)
    assert not output.is_error and "nope.py: nope.py does not exist" in output.content
    assert list(passages(output.content)) == [
        Passage("main.py", 1, ("one", "two", "three")),
        Passage("3, lines 1-1, 2 bytes", 1, ("odd",)),
        Passage("two\nlines", 1, ("7\tseven",)),
    ]
    assert (await use(tools, "read_file", paths=["main.py"] * 11)).is_error


async def test_several_large_files_share_the_room_of_one_call(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text(f"{'word ' * 30}\n" * 2_000)
    content = (await use(tools, "read_file", paths=list("abcd"))).content
    assert len(content) <= CHARACTERS + 800 and content.count("go on with start_line=") == 4


async def test_a_notebook_comes_as_its_cells(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    outputs = [
        {"output_type": "stream", "text": ["42\n", "43\n"]},
        {"output_type": "display_data", "data": {"image/png": "A" * 90_000, "text/plain": "<Figure>"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "words"]},
        {"cell_type": "code", "source": "print(6 * 7)\n", "outputs": outputs},
    ]
    (tmp_path / "plot.ipynb").write_text(json.dumps({"cells": cells}))
    head, *lines = (await use(tools, "read_file", path="plot.ipynb")).content.splitlines()
    assert "a notebook of 2 cells" in head
    assert [line.partition("\t")[2] for line in lines] == [
        *("# cell 1, markdown", "# Title", "words", "# cell 2, code", "print(6 * 7)", "# output", "42", "43"),
        *("# output", "<Figure>", "# output: image/png, 90,000 characters, not shown"),
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"cells": 3}', "[" * 300_000])
async def test_a_broken_notebook_is_told(use: Use, tools: ToolSet, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.ipynb").write_text(text)
    output = await use(tools, "read_file", path="bad.ipynb")
    assert output.is_error and output.content.startswith("bad.ipynb cannot be read as a notebook: ")


async def test_a_huge_file_is_read_by_lines_only(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("w") as file:
        file.writelines(f"{number:0999}\n" for number in range(1, 10_502))
    assert (tmp_path / "huge").stat().st_size > MAX_WHOLE_BYTES
    whole = await use(tools, "read_file", path="huge")
    assert whole.is_error and "start_line" in whole.content
    some = await use(tools, "read_file", path="huge", start_line=10_400, end_line=10_401)
    body = f"10400\t{10_400:0999}\n10401\t{10_401:0999}\n"
    assert some.content == f"huge, lines 10400-10401, 10,501,000 bytes\n{body}"


async def test_a_sparse_file_of_50_gigabytes_is_no_trouble(use: Use, tools: ToolSet, tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(50_000_000_000)
    assert "50,000,000,000 bytes" in (await use(tools, "read_file", path="sparse")).content
    some = await use(tools, "read_file", path="sparse", start_line=1, end_line=5)
    assert some.is_error and "is binary" in some.content
