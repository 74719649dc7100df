"""Every road on which an agent writes refuses the same changes: tools, merges of worktrees, reverts, commands, jobs."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from itertools import permutations
from pathlib import Path

import pytest

from drone.agent.turns.toolset import Output, StartedCall
from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.protected import Protected
from drone.tools.files.reading import read_file
from drone.tools.files.writing import WritingTools
from drone.tools.frame.tool import FunctionTools
from drone.worktrees.file_changes import FileChange, apply_changes
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.writing_bench import ORIGIN
from tests.hostile.git_traps import HEAD, ORDINARY, TRAPS, config, scene, sprung

Files = Mapping[str, str]
Road = Callable[[Path, Files], Awaitable[None]]


class Bench:
    """The tools that write, without checkpoints, which the other roads have none of either."""

    def __init__(self, root: Path) -> None:
        functions = (read_file, *WritingTools(Protected()).tools())
        self._tools = FunctionTools(functions, workspace=Workspace(root))

    async def use(self, name: str, /, **arguments: object) -> Output:
        return await self._tools.call(StartedCall("call", name, arguments, ORIGIN))


def new_file(path: str, content: str) -> str:
    lines = content.splitlines()
    added = "".join(f"+{line}\n" for line in lines)
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{added}"


async def by_write_file(root: Path, files: Files) -> None:
    bench = Bench(root)
    for path, content in files.items():
        await bench.use("write_file", path=path, content=content)


async def by_edit_file(root: Path, files: Files) -> None:
    """Files that are there already are edited; others are written empty before."""
    bench = Bench(root)
    for path, content in files.items():
        if not (root / path).exists():
            await bench.use("write_file", path=path, content="old\n")
        await bench.use("read_file", path=path)
        old = (root / path).read_text() if (root / path).exists() else "old\n"
        await bench.use("edit_file", path=path, old=old, new=content)


async def by_patches(root: Path, files: Files) -> None:
    bench = Bench(root)
    for path, content in files.items():
        await bench.use("apply_patch", patch=new_file(path, content))


async def by_one_patch(root: Path, files: Files) -> None:
    await Bench(root).use("apply_patch", patch="".join(new_file(path, content) for path, content in files.items()))


async def by_move_file(root: Path, files: Files) -> None:
    bench = Bench(root)
    for number, (path, content) in enumerate(files.items()):
        await bench.use("write_file", path=f"draft-{number}", content=content)
        await bench.use("move_file", source=f"draft-{number}", target=path)
        if (root / f"draft-{number}").exists():
            await bench.use("delete_file", path=f"draft-{number}")


async def by_merge(root: Path, files: Files) -> None:
    """All in one merge, then each in one of its own."""
    staged = root.parent / "staged"
    for path, content in files.items():
        (staged / path).parent.mkdir(parents=True, exist_ok=True)
        (staged / path).write_text(content)
    changes = [FileChange(path, "A", "000000", "100644") for path in files]
    changes = [FileChange(one.path, "M", "100644", "100644") if (root / one.path).exists() else one for one in changes]
    for some in (changes, *([one] for one in changes)):
        apply_changes(Workspace(root), Workspace(staged), some, Protected())


def script_of(files: Files) -> str:
    assert all(content.endswith("\n") for content in files.values())
    writes = (
        f"mkdir -p '{Path(path).parent}' 2>/dev/null; cat > '{path}' 2>/dev/null <<'END'\n{content}END\n"
        for path, content in files.items()
    )
    return "\n".join(("set +e", *writes, "true"))


async def commanded(sandbox: Bubblewrap, root: Path, script: str) -> None:
    await sandbox.run(("sh", "-c", script), Workspace(root), Bounds(20.0), profile=Profile(write=True))


async def by_command(root: Path, files: Files) -> None:
    await commanded(found_sandbox(), root, script_of(files))


async def by_several_commands(root: Path, files: Files) -> None:
    sandbox = found_sandbox()
    for path, content in files.items():
        await commanded(sandbox, root, script_of({path: content}))


async def by_moved_directories(root: Path, files: Files) -> None:
    """A command that makes everything elsewhere and moves it to its place."""
    tops = sorted({path.partition("/")[0] for path in files})
    elsewhere = {f"made-{path}": content for path, content in files.items()}
    moves = (f"if test -d '{top}'; then cp -a 'made-{top}/.' '{top}'; else mv 'made-{top}' '{top}'; fi" for top in tops)
    await commanded(found_sandbox(), root, "\n".join((script_of(elsewhere), *moves, "rm -rf made-*; true")))


TOOLS: dict[str, Road] = {
    "write_file": by_write_file,
    "edit_file": by_edit_file,
    "apply_patch, one by one": by_patches,
    "apply_patch, at once": by_one_patch,
    "move_file": by_move_file,
    "merge": by_merge,
}
PROGRAMS: dict[str, Road] = {
    "a command": by_command,
    "several commands": by_several_commands,
    "directories moved by a command": by_moved_directories,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    scene(made)
    return made


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("road", [*TOOLS, *PROGRAMS])
async def test_no_road_leaves_what_a_persons_program_runs(root: Path, road: str, trap: str) -> None:
    await (TOOLS | PROGRAMS)[road](root, TRAPS[trap].contents(root))
    assert list(sprung(root)) == []


@pytest.mark.parametrize("road", [*TOOLS, *PROGRAMS])
async def test_every_road_lets_ordinary_files_through(root: Path, road: str) -> None:
    await (TOOLS | PROGRAMS)[road](root, ORDINARY)
    assert {path: (root / path).read_text() for path in ORDINARY} == ORDINARY


async def test_the_traps_would_spring_without_a_guard(root: Path) -> None:
    """Else the other tests would show nothing."""
    sprang = set()
    for name, trap in TRAPS.items():
        place = root.parent / name / "workspace"
        place.mkdir(parents=True)
        scene(place)
        for path, content in trap.contents(place).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_text(content)
        if list(sprung(place)):
            sprang.add(name)
    only_where_case_does_not_count = {"other case"}
    assert set(TRAPS) - sprang <= only_where_case_does_not_count


@pytest.mark.parametrize("order", [*permutations(("config", "HEAD", "objects/x", "refs/x"))], ids=" ".join)
async def test_no_order_of_creation_makes_a_repository(root: Path, order: tuple[str, ...]) -> None:
    contents = {"config": config(root), "HEAD": HEAD, "objects/x": "x\n", "refs/x": "x\n"}
    await by_write_file(root, {f"fresh/{name}": contents[name] for name in order})
    assert sum((root / "fresh" / name).exists() for name in order) == 3, "all but what would have completed it"
    assert list(sprung(root)) == []


RACE = """
import os, sys
from pathlib import Path
from drone.sandbox.places.paths import PathDenied, Workspace
from drone.sandbox.protection.protected import Protected
from drone.tools.files.changing import PathEffect, apply

root = Path(sys.argv[1])
(root / "fresh/objects").mkdir(parents=True)
(root / "fresh/config").write_text("[core]\\n\\tfsmonitor = x\\n")

def meanwhile(event, arguments):
    # Asked before the system is: another call puts its part there just before HEAD gets to its place.
    if event == "os.rename" and arguments[1] == "HEAD":
        (root / "fresh/refs").mkdir(exist_ok=True)

sys.addaudithook(meanwhile)
try:
    apply(Workspace(root), Protected(), [PathEffect("fresh/HEAD", None, b"ref: refs/heads/main\\n")])
except PathDenied as refused:
    print(refused)
"""


def test_two_calls_side_by_side_make_no_git_directory(root: Path) -> None:
    done = subprocess.run((sys.executable, "-c", RACE, str(root)), check=True, capture_output=True, text=True)
    assert "became a git directory at this moment" in done.stdout
    assert sorted(path.name for path in (root / "fresh").iterdir()) == ["config", "objects", "refs"]


async def test_what_makes_a_git_directory_one_is_not_taken_away_by_tools(root: Path) -> None:
    bench = Bench(root)
    for how in (
        await bench.use("delete_file", path="lib.git/HEAD"),
        await bench.use("move_file", source="lib.git/HEAD", target="kept"),
    ):
        assert how.is_error and "no git directory any more" in how.content
    assert (root / "lib.git/HEAD").exists()


async def test_what_a_job_makes_is_gone_while_it_runs(root: Path) -> None:
    files = {path: content for trap in TRAPS.values() for path, content in trap.contents(root).items()}
    script = f"{script_of(files)}\necho made; exec sleep 1000"
    heard, made = bytearray(), asyncio.Event()

    def hear(piece: bytes) -> None:
        heard.extend(piece)
        # What cannot be made is told before.
        if b"made\n" in heard:
            made.set()

    running = await found_sandbox().start(
        ("sh", "-c", script), Workspace(root), Bounds(60.0), profile=Profile(write=True), on_output=hear
    )
    try:
        async with asyncio.timeout(20):
            await made.wait()
            while await asyncio.to_thread(lambda: list(sprung(root))):
                pass
    finally:
        ended = await running.kill()
    told = {sentence.partition(" is protected")[0] for sentence in ended.undone}
    assert {"config", "fresh/config", "sub/.git/config", "t/commondir", "common/config", ".claude"} <= told
