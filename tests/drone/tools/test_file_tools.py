"""list_files, find_files and read_file, as a model calls them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from drone.agent.toolset import Output, ToolSet
from drone.sandbox.paths import PathError, Workspace
from drone.tools.catalog import Toolbox
from drone.tools.files import MAX_LISTED, MAX_TEXT_BYTES, MAX_WHOLE_BYTES, find_files, list_files, read_file
from drone.tools.tool import FunctionTools
from drone.tools.wrappers import Timed
from mcc.contracts.journal import Outcome

Use = Callable[..., Awaitable[Output]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src" / "pkg").mkdir(parents=True)
    (root / "src" / "main.py").write_text("one\ntwo\nthree\n")
    (root / "src" / "pkg" / "deep.py").write_text("")
    (root / "README.md").write_text("# Project")
    (root / ".gitignore").write_text("*.log\n")
    (root / "run.log").write_text("")
    return root


@pytest.fixture(params=[False, True], ids=["openat2", "by components"])
def tools(request: pytest.FixtureRequest, root: Path) -> ToolSet:
    workspace = Workspace(root, by_components=request.param)
    return FunctionTools([list_files, find_files, read_file], workspace=workspace)


async def test_a_directory_is_listed_down_to_a_depth(use: Use, tools: ToolSet) -> None:
    assert (await use(tools, "list_files")).content.splitlines() == [
        "2 directories, 3 files in . (depth 2)",
        ".gitignore",
        "README.md",
        "src/",
        "src/main.py",
        "src/pkg/",
    ]
    assert (await use(tools, "list_files", path="src", depth=1)).content.splitlines() == [
        "1 directory, 1 file in src (depth 1)",
        "src/main.py",
        "src/pkg/",
    ]


async def test_links_and_odd_names_are_listed_as_what_they_are(use: Use, tools: ToolSet, root: Path) -> None:
    (root / "link").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    (root / "two\nlines").mkdir()
    lines = (await use(tools, "list_files", depth=1)).content.splitlines()
    assert "link (symbolic link)" in lines
    assert "pipe (not a regular file)" in lines
    assert '"two\\nlines/"' in lines


async def test_a_long_listing_is_cut_and_says_so(use: Use, tools: ToolSet, root: Path) -> None:
    (root / "many").mkdir()
    for number in range(MAX_LISTED + 5):
        (root / "many" / f"{number:05}").touch()
    lines = (await use(tools, "list_files", path="many")).content.splitlines()
    assert lines[0] == f"0 directories, {MAX_LISTED + 5:,} files in many (depth 2)"
    assert len(lines) == MAX_LISTED + 2
    assert lines[-1].startswith("[5 more are not shown.")
    found = (await use(tools, "find_files", pattern="0*")).content.splitlines()
    assert found[0] == f"{MAX_LISTED + 5:,} files of {MAX_LISTED + 9:,} in . match 0*"
    assert found[-1].startswith("[5 more are not shown.")


async def test_files_are_found_by_name_wherever_they_are(use: Use, tools: ToolSet) -> None:
    assert (await use(tools, "find_files", pattern="*.py")).content.splitlines() == [
        "2 files of 4 in . match *.py",
        "src/main.py",
        "src/pkg/deep.py",
    ]
    for pattern in ("pkg/*.py", "src/pkg/*.py", "**/deep.*"):
        found = await use(tools, "find_files", pattern=pattern, path="src")
        assert found.content.splitlines()[1:] == ["src/pkg/deep.py"]
    assert (await use(tools, "find_files", pattern="*.rs")).content == "0 files of 4 in . match *.rs"
    assert (await use(tools, "find_files", pattern="[")).is_error


async def test_a_file_is_read_exactly(use: Use, tools: ToolSet, root: Path) -> None:
    text = "\ufeffé\r\n\ttab\u2028end"
    (root / "exact").write_bytes(text.encode())
    head, _, body = (await use(tools, "read_file", path="exact")).content.partition("\n")
    assert head == f"exact, lines 1-2 of 2, {len(text.encode())} bytes"
    assert body == text


async def test_a_plain_text_is_told_in_plain_characters_alone(use: Use, tools: ToolSet) -> None:
    """One sign beyond them in its head, and each character of the text would take two bytes."""
    assert (await use(tools, "read_file", path="src/main.py")).content.isascii()


@pytest.mark.parametrize(
    ("start", "end", "lines", "body"),
    [
        (None, None, "1-3", "one\ntwo\nthree\n"),
        (2, None, "2-3", "two\nthree\n"),
        (None, 2, "1-2", "one\ntwo\n"),
        (2, 2, "2-2", "two\n"),
        (3, 900, "3-3", "three\n"),
    ],
)
async def test_some_lines_are_read(
    use: Use, tools: ToolSet, start: int | None, end: int | None, lines: str, body: str
) -> None:
    output = await use(tools, "read_file", path="src/main.py", start_line=start, end_line=end)
    assert output.content == f"src/main.py, lines {lines} of 3, 14 bytes\n{body}"


async def test_lines_that_are_not_there_are_told(use: Use, tools: ToolSet) -> None:
    past = await use(tools, "read_file", path="src/main.py", start_line=4)
    assert past.is_error and past.content == "src/main.py has 3 lines, so there is no line 4."
    assert "before start_line" in (await use(tools, "read_file", path="src/main.py", start_line=3, end_line=2)).content
    assert (await use(tools, "read_file", path="src/main.py", start_line=0)).is_error


async def test_an_empty_file_and_a_file_without_a_last_line_end(use: Use, tools: ToolSet) -> None:
    assert (await use(tools, "read_file", path="src/pkg/deep.py")).content == "src/pkg/deep.py, empty (0 bytes)\n"
    assert (await use(tools, "read_file", path="README.md")).content == (
        "README.md, lines 1-1 of 1, 9 bytes\n# Project"
    )


async def test_what_is_no_text_is_told(use: Use, tools: ToolSet, root: Path) -> None:
    (root / "image").write_bytes(b"\x89PNG\x00\x00")
    (root / "latin").write_bytes(b"caf\xe9\n")
    (root / "late").write_bytes(b"x" * 9_000 + b"\0\n")
    binary = await use(tools, "read_file", path="image")
    assert binary.is_error and "is binary (6 bytes, a NUL at byte 4)" in binary.content
    latin = await use(tools, "read_file", path="latin")
    assert latin.content.endswith("the bytes that are not are shown as �\ncaf�\n")
    late = await use(tools, "read_file", path="late")
    assert "1 control character shown as pictures, such as ␀" in late.content and "\0" not in late.content


async def test_a_long_text_comes_in_whole_lines_and_says_where_to_go_on(use: Use, tools: ToolSet, root: Path) -> None:
    lines = [f"line {number} é\n" for number in range(1, 40_001)]
    (root / "long").write_text("".join(lines))
    collected, start = "", 1
    while start:
        output = await use(tools, "read_file", path="long", start_line=start)
        head, _, body = output.content.partition("\n")
        assert len(body.encode()) <= MAX_TEXT_BYTES and "of 40,000" in head
        collected += body
        start = int(head.rpartition("start_line=")[2]) if "start_line=" in head else 0
    assert collected == "".join(lines)


async def test_one_endless_line_is_cut_between_characters(use: Use, tools: ToolSet, root: Path) -> None:
    (root / "endless").write_text("aé" * 200_000)
    head, _, body = (await use(tools, "read_file", path="endless")).content.partition("\n")
    assert "line 1 is cut after" in head and "UTF-8" not in head
    assert len(body.encode()) <= MAX_TEXT_BYTES and set(body) == {"a", "é"}


async def test_a_huge_file_is_read_by_lines_only(use: Use, tools: ToolSet, root: Path) -> None:
    with (root / "huge").open("w") as file:
        file.writelines(f"{number:0999}\n" for number in range(1, 10_502))
    assert (root / "huge").stat().st_size > MAX_WHOLE_BYTES
    whole = await use(tools, "read_file", path="huge")
    assert whole.is_error and "start_line" in whole.content
    some = await use(tools, "read_file", path="huge", start_line=10_400, end_line=10_401)
    assert some.content == f"huge, lines 10400-10401, 10,501,000 bytes\n{10_400:0999}\n{10_401:0999}\n"


async def test_a_sparse_file_of_50_gigabytes_is_no_trouble(use: Use, tools: ToolSet, root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(50_000_000_000)
    assert "50,000,000,000 bytes" in (await use(tools, "read_file", path="sparse")).content
    some = await use(tools, "read_file", path="sparse", start_line=1, end_line=5)
    assert some.is_error and "is binary" in some.content


async def test_pipes_devices_and_ways_out_are_denied(use: Use, tools: ToolSet, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "zero").symlink_to("/dev/zero")
    for path in ("pipe", "zero", "/etc/passwd", "../x", "src/main.py\0"):
        output = await use(tools, "read_file", path=path)
        assert (output.is_error, output.outcome) == (True, Outcome.DENIED), output
    for name in ("list_files", "find_files"):
        arguments = {"pattern": "*"} if name == "find_files" else {}
        assert (await use(tools, name, path="..", **arguments)).outcome is Outcome.DENIED


async def test_a_missing_file_is_told_with_its_neighbours(use: Use, tools: ToolSet) -> None:
    for path, said in (("src/mian.py", "There is src/main.py"), ("REDME.md", "There is README.md")):
        output = await use(tools, "read_file", path=path)
        assert output.is_error and output.outcome is Outcome.ERROR and said in output.content
    assert "directory does not exist either" in (await use(tools, "read_file", path="nope/nope")).content
    assert "There is src" in (await use(tools, "list_files", path="scr")).content
    assert "list_files" in (await use(tools, "read_file", path="src")).content


async def test_without_a_workspace_there_are_only_skills_and_a_bad_one_is_told(use: Use, tmp_path: Path) -> None:
    assert [spec.name for spec in Toolbox.found().tools(None).specs()] == ["skills_list", "skills_read"]
    with pytest.raises(PathError, match="not a directory"):
        Toolbox.found().tools(tmp_path / "nope")
    output = await use(FunctionTools([read_file]), "read_file", path="x")
    assert output.is_error and "no workspace" in output.content


async def test_the_tools_of_a_workspace_work_together_and_are_idempotent(use: Use, root: Path) -> None:
    tools = Timed(Toolbox.found().tools(root), 60)
    assert [spec.name for spec in tools.specs() if not spec.name.startswith("git_")] == [
        "environment_detect",
        "list_files",
        "find_files",
        "search_text",
        "read_file",
        "skills_list",
        "skills_read",
        "rules_list",
        "rules_read",
    ]
    assert all(spec.idempotent and spec.description and spec.seconds for spec in tools.specs())
    every_argument = [p for spec in tools.specs() for p in spec.parameters["properties"].values()]
    assert all(argument["description"] for argument in every_argument)
    outputs = await asyncio.gather(
        use(tools, "list_files"), use(tools, "search_text", pattern="two"), use(tools, "read_file", path="src/main.py")
    )
    assert not any(output.is_error for output in outputs)
