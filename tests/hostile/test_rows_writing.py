"""Hostile inputs of the tools that write: whatever they are asked, nothing outside the workspace and nothing protected
changes, and no file is lost."""

import ctypes
import os
import platform
import threading
from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output, StartedCall
from drone.checkpoints.recording import OrderCheckpoints
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.private import Private
from drone.sandbox.protection.protected import Protected
from drone.tools.files.writing import WritingTools
from drone.tools.frame.tool import FunctionTools
from mcc.contracts.journal import Outcome
from tests.drone.tools.writing_bench import ORIGIN, WritingBench

OUTSIDE = "untouched"
EVERY = ("write", "edit", "patch", "move to", "delete")


@pytest.fixture
def bench(tmp_path: Path) -> WritingBench:
    bench = WritingBench(tmp_path / "app", tmp_path / "data", protected=("deploy/**",))
    (bench.root / "inside").write_text("inside\n")
    (bench.root / "dir").mkdir()
    for name in ("app-evil", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_text(OUTSIDE)
    return bench


async def asked(bench: WritingBench, how: str, path: str) -> Output:
    match how:
        case "write":
            return await bench.use("write_file", path=path, content="changed\n")
        case "edit":
            return await bench.use("edit_file", path=path, old=OUTSIDE, new="changed")
        case "patch":
            patch = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+changed\n"
            return await bench.use("apply_patch", patch=patch)
        case "move to":
            return await bench.use("move_file", source="inside", target=path)
        case _:
            return await bench.use("delete_file", path=path)


def everything(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    skipped = {"data", ".mcc-workspace"}
    return {str(path): path.read_bytes() for path in files if not skipped.intersection(path.parts)}


async def refused_everywhere(bench: WritingBench, path: str) -> None:
    before = everything(bench.root.parent)
    for how in EVERY:
        output = await asked(bench, how, path)
        assert output.is_error, f"{how} {path!r}: {output.content}"
        assert everything(bench.root.parent) == before, f"{how} {path!r}"


@pytest.mark.parametrize(
    "path", ["../elsewhere/secret", "/etc/passwd", "dir/../../elsewhere/new", "../app/../elsewhere/x", "/", "..", "."]
)
async def test_row_1_a_path_that_leads_out_is_denied(bench: WritingBench, path: str) -> None:
    await refused_everywhere(bench, path)


async def test_row_2_a_directory_whose_name_only_begins_alike_is_another_one(bench: WritingBench) -> None:
    await refused_everywhere(bench, str(bench.root.parent / "app-evil/secret"))
    output = await asked(bench, "write", str(bench.root / "dir/new"))
    assert not output.is_error, "and its own absolute paths are its own"


async def test_row_3_and_5_no_link_leads_a_write_anywhere(bench: WritingBench) -> None:
    elsewhere = bench.root.parent / "elsewhere"
    (bench.root / "file").symlink_to(elsewhere / "secret")
    (bench.root / "dangling").symlink_to(elsewhere / "new")
    (bench.root / "chain").symlink_to("file")
    (bench.root / "out").symlink_to(elsewhere)
    (bench.root / "in").symlink_to("dir")
    before = everything(bench.root.parent)
    for path in ("file", "dangling", "chain", "out/secret", "out/new", "out/deep/new", "in/new", "file/below"):
        for how in ("write", "edit", "patch", "move to"):
            output = await asked(bench, how, path)
            assert output.is_error, f"{how} {path}: {output.content}"
    for path in ("out/secret", "out/new", "in/new"):
        assert (await asked(bench, "delete", path)).is_error
    assert everything(bench.root.parent) == before


ROUNDS = 60


@pytest.mark.parametrize("by_components", [False, True], ids=["openat2", "by components"])
async def test_row_4_a_directory_that_is_swapped_for_a_link_catches_nothing(
    bench: WritingBench, by_components: bool
) -> None:
    root, elsewhere = bench.root, bench.root.parent / "elsewhere"
    (root / "link").symlink_to(elsewhere)
    workspace = Workspace(root, by_components=by_components)
    tools = FunctionTools(WritingTools(Protected()).tools(), workspace=workspace)
    stop, swaps, done = threading.Event(), 0, 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            exchange(root / "dir", root / "link")
            swaps += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for number in range(ROUNDS):
            for name, arguments in (
                ("write_file", {"path": "dir/secret", "content": f"{number}\n"}),
                ("edit_file", {"path": "dir/secret", "old": str(number), "new": "x"}),
                ("move_file", {"source": "dir/secret", "target": "dir/deep/moved"}),
                ("delete_file", {"path": "dir/deep/moved"}),
                ("delete_file", {"path": "dir/secret"}),
            ):
                done += not (await tools.call(StartedCall("c", name, arguments, ORIGIN))).is_error
    finally:
        stop.set()
        swapper.join()

    assert everything(elsewhere) == {str(elsewhere / "secret"): OUTSIDE.encode()}
    assert swaps > 10 * ROUNDS and done, "some calls met the directory, and many the link"


def exchange(one: Path, other: Path) -> None:
    """Both names at once."""
    numbers = {"x86_64": 316, "aarch64": 276}
    libc = ctypes.CDLL(None, use_errno=True)
    here, names = -100, (os.fsencode(one), os.fsencode(other))
    assert libc.syscall(numbers[platform.machine()], here, names[0], here, names[1], 2) == 0


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/exclude",
            ".git/refs/heads/main",
            ".git",
            "sub/.git/config",
        ),
        *(".gitmodules", ".GIT/config", ".git\u200c/config"),
        *(".mcc/agents/a.md", ".mcc-workspace/id", "mcc.toml", ".mcp.json", "AGENTS.md", "agents.md", "CLAUDE.md"),
        *(".env", ".env.local", "sub/.env.production", ".vscode/tasks.json", ".idea/x", ".bashrc", ".ripgreprc"),
        "deploy/prod.yaml",
    ],
)
async def test_row_7_and_9_what_is_protected_is_denied_also_when_it_is_missing(bench: WritingBench, path: str) -> None:
    before = everything(bench.root)
    for how in EVERY:
        output = await asked(bench, how, path)
        assert output.outcome is Outcome.DENIED, f"{how} {path}: {output.content}"
    moved = await bench.use("move_file", source=path, target="taken")
    assert moved.outcome is Outcome.DENIED and everything(bench.root) == before


async def test_row_7_attributes_that_run_programs_are_denied(bench: WritingBench) -> None:
    allowed = await bench.use("write_file", path=".gitattributes", content="* text=auto\n")
    assert not allowed.is_error
    names = "--- a/.gitattributes\n+++ b/.gitattributes\n"
    for output in (
        await bench.use("write_file", path=".gitattributes", content="*.c filter=run\n"),
        await bench.use("edit_file", path=".gitattributes", old="text=auto", new="diff=run"),
        await bench.use("apply_patch", patch=f"{names}@@ -1 +1 @@\n-* text=auto\n+* merge=run\n"),
    ):
        assert output.outcome is Outcome.DENIED
    (bench.root / "hidden").write_text("*.c filter=run\n")
    await bench.use("delete_file", path=".gitattributes")
    assert (await bench.use("move_file", source="hidden", target=".gitattributes")).outcome is Outcome.DENIED
    assert not (bench.root / ".gitattributes").exists()


async def test_row_9_samples_of_environments_are_files_like_others(bench: WritingBench) -> None:
    assert not (await asked(bench, "write", ".env.example")).is_error


async def test_row_11_only_regular_files_are_written(bench: WritingBench) -> None:
    os.mkfifo(bench.root / "pipe")
    (bench.root / "sparse").touch()
    os.truncate(bench.root / "sparse", 50_000_000_000)
    for path in ("pipe", "dir"):
        for how in ("write", "edit", "delete"):
            assert (await asked(bench, how, path)).is_error, f"{how} {path}"
    for how in ("write", "edit", "delete"):
        output = await asked(bench, how, "sparse")
        assert output.is_error, "what cannot be kept is not destroyed"
    assert (bench.root / "sparse").stat().st_size == 50_000_000_000


@pytest.mark.parametrize("path", ["a\0b", "x" * 5_000, "/".join(["d"] * 2_000), "\ud800", "", "y" * 300])
async def test_row_12_no_name_breaks_a_tool(bench: WritingBench, path: str) -> None:
    for how in EVERY:
        output = await asked(bench, how, path)
        assert output.is_error and "broke" not in output.content, f"{how}: {output.content[:300]}"


@pytest.mark.parametrize("path", ["two\nlines", "\u202eexe.txt", "zero\u200bwidth", "-rf", " space "])
async def test_row_12_odd_names_are_shown_with_escapes(bench: WritingBench, path: str) -> None:
    output = await asked(bench, "write", path)
    assert not output.is_error, output.content
    assert (bench.root / path).read_text() == "changed\n"
    head = output.content.splitlines()[0]
    assert head.isprintable() and ": created" in head


async def test_row_13_an_edit_that_does_not_fit_writes_nothing(bench: WritingBench) -> None:
    (bench.root / "twice").write_text("x\nx\n")
    status = (bench.root / "twice").stat()
    for old in ("", "y", "x"):
        assert (await bench.use("edit_file", path="twice", old=old, new="z")).is_error
    after = (bench.root / "twice").stat()
    assert (status.st_ino, status.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert sorted(os.listdir(bench.root)) == ["dir", "inside", "twice"]


async def test_a_file_of_mccs_own_is_neither_changed_nor_moved(tmp_path: Path) -> None:

    bench = WritingBench(tmp_path / "home", tmp_path / "data")
    own = bench.root / "mcc-data"
    own.mkdir()
    (own / "token").write_text(OUTSIDE)
    os.link(own / "token", bench.root / "alias")
    workspace = Workspace(bench.root, private=Private([own]))
    bench.checkpoints = OrderCheckpoints(workspace, bench.data, "order-1")
    bench.tools._workspace, bench.tools._checkpoints = workspace, bench.checkpoints
    (bench.root / "inside").write_text("inside\n")

    for path in ("mcc-data/token", "mcc-data/new", "alias"):
        for how in ("write", "edit", "patch", "delete"):
            output = await asked(bench, how, path)
            assert output.is_error, f"{how} {path}: {output.content}"
        assert (await bench.use("move_file", source=path, target="taken")).is_error
    assert (own / "token").read_text() == (bench.root / "alias").read_text() == OUTSIDE
    assert os.listdir(own) == ["token"]
