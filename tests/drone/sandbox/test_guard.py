"""A program's changes to protected files are put aside; changes that others made meanwhile are left alone."""

import asyncio
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Mount, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.guard import MOST_MOUNTED, sweep_placeholders
from drone.sandbox.protection.placeholders import ASIDE, Placeholders
from drone.sandbox.protection.protected import Protected
from tests.drone.tools.git_scene import Scene

T = TypeVar("T")

WRITES = Profile(write=True)
SOON = Bounds(20.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


async def shell(sandbox: Bubblewrap, root: Path, script: str) -> EndedProgram:
    return await sandbox.run(("sh", "-c", script), Workspace(root), SOON, profile=WRITES)


def sockets(root: Path) -> list[str]:
    return [str(path) for path in root.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]


def named(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern))


def there(path: Path) -> bool:
    return os.path.lexists(path)


def aside(root: Path) -> list[str]:
    return sorted(path.name[9:] for path in (root / ".mcc-workspace" / "refused").glob("*"))


async def test_missing_protected_files_cannot_be_made_and_no_placeholder_is_left(
    sandbox: Bubblewrap, root: Path
) -> None:
    names = ".env .mcp.json mcc.toml AGENTS.md .gitmodules"
    ended = await shell(sandbox, root, f"for name in {names}; do echo x > $name; done; mkdir .vscode .mcc; ls -A")
    assert ended.stderr.head.count(b"Permission denied") == 5 and ended.stderr.head.count(b"File exists") == 2
    assert (ended.undone, os.listdir(root)) == ((), [])


async def test_git_works_in_a_checkout_whose_protected_files_stay(sandbox: Bubblewrap, root: Path) -> None:
    scene = Scene(root)
    scene.commit("First", {"a.txt": "one\n", "AGENTS.md": "# Ours\n", ".gitmodules": ""})
    before = {name: (root / name).read_bytes() for name in (".git/config", "AGENTS.md")}
    script = (
        "git status --short; echo two > b.txt; git add -A; git -c user.name=a -c user.email=a commit -qm Second;"
        "git log --format=%s;"
        "for name in .git/config .git/hooks/pre-commit .git/info/attributes AGENTS.md; do echo x > $name; done;"
        "mv .git elsewhere; rm AGENTS.md; mv AGENTS.md b.md; ln -f b.txt AGENTS.md"
    )
    ended = await shell(sandbox, root, script)
    assert ended.stdout.head == b"Second\nFirst\n"
    assert ended.stderr.head.count(b"Read-only file system") == 4
    assert ended.stderr.head.count(b"Device or resource busy") >= 3
    assert {name: (root / name).read_bytes() for name in before} == before
    assert (ended.undone, sockets(root)) == ((), [])


MADE: dict[str, str] = {
    "sub/AGENTS.md": "mkdir -p sub && echo x > sub/AGENTS.md",
    ".env.local": "echo x > .env.local",
    "sub/.vscode": "mkdir -p sub/.vscode && echo x > sub/.vscode/tasks.json",
    "new/.git/config": "git init -q new && git -C new config core.fsmonitor x",
    "new/.git/hooks/pre-commit": "git init -q new && mkdir -p new/.git/hooks && echo x > new/.git/hooks/pre-commit",
    "new/.git/info": "git init -q new && mkdir -p new/.git/info && echo '*' > new/.git/info/exclude",
    "new/.git": "mkdir new && echo 'gitdir: ../x' > new/.git",
    "bare/config": "git init -q --bare bare && git -C bare config core.hooksPath x",
    "bare/config.worktree": "git init -q --bare bare && touch bare/config.worktree",
    "apart/commondir": "mkdir apart && echo x > apart/HEAD && echo ../x > apart/commondir",
    "head/config": "mkdir -p head/OBJECTS head/refs && touch head/Head && echo x > head/config",
    ".github/hooks": "mkdir -p .github/hooks && echo x > .github/hooks/all.json",
    "mise.local.toml": "echo x > mise.local.toml",
    "team.code-workspace": "echo x > team.code-workspace",
    ".git/commondir": "echo ../x > .git/commondir",
    ".git/worktrees/x/commondir": "mkdir -p .git/worktrees/x && (cd .git/worktrees/x && touch HEAD gitdir commondir)",
    "linked/CLAUDE.md": "mkdir linked && ln -s ../a.txt linked/CLAUDE.md",
    "hard/CLAUDE.md": "mkdir hard && ln a.txt hard/CLAUDE.md",
    "docs/AGENTS.md": "mv docs docs2 && mkdir docs && echo x > docs/AGENTS.md",
    "dir/.env": "mkdir -p dir/.env/deep && mkfifo dir/.env/pipe",
    "deploy/new": "mkdir -p deploy/new && echo x > deploy/new/x",
}


@pytest.mark.parametrize("path", MADE)
async def test_protected_files_made_elsewhere_are_put_aside_and_reported(
    sandbox: Bubblewrap, root: Path, path: str
) -> None:
    scene = Scene(root)
    scene.commit("First", {"a.txt": "one\n", "docs/AGENTS.md": "# Ours\n"})
    guarded = Bubblewrap(sandbox.program, protected=Protected(["deploy/**"]))
    ended = await shell(guarded, root, f"{MADE[path]}; touch made")
    assert (root / "made").exists() and not there(root / path)
    assert any(told.startswith(f"{path} is protected") for told in ended.undone), ended
    assert Path(path).name in aside(root)
    assert "# Ours" in "".join(one.read_text() for one in named(root, "docs*/AGENTS.md"))
    assert (await shell(guarded, root, "true")).undone == ()


async def test_a_protected_file_is_found_at_any_depth(sandbox: Bubblewrap, root: Path) -> None:
    down = "/".join(["deep-directory"] * 250)
    ended = await shell(sandbox, root, f"for turn in 1 2 3 4 5; do mkdir -p {down}; cd -P {down}; done; echo x > .env")
    assert len(ended.undone) == 1 and aside(root) == [".env"]
    await shell(sandbox, root, "rm -r deep-directory")


async def test_a_directory_that_cannot_be_opened_is_reported(sandbox: Bubblewrap, root: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is shut for root")
    ended = await shell(sandbox, root, "mkdir -p shut; echo x > shut/.env; chmod 0 shut; mkdir -m 0400 half")
    (root / "shut").chmod(0o700)
    assert len(ended.undone) == 1 and ended.undone[0].startswith("shut cannot be looked into")


async def test_what_a_commondir_names_is_guarded_like_a_git_directory(sandbox: Bubblewrap, root: Path) -> None:
    for pointer, common in (("one", "../common"), ("two", str(root / "whole"))):
        (root / pointer).mkdir()
        (root / pointer / "HEAD").write_text("ref: refs/heads/main\n")
        (root / pointer / "commondir").write_text(f"{common}\n")
    for common in ("common", "whole", "plain"):
        for name in ("objects", "refs"):
            (root / common / name).mkdir(parents=True)
    (root / "common/config").write_text("ours")
    ended = await shell(
        sandbox,
        root,
        "for place in common whole plain; do echo x > $place/config; mkdir $place/hooks; done; touch done",
    )
    assert (root / "done").exists() and (root / "common/config").read_text() == "ours"
    assert [told.partition(" ")[0] for told in ended.undone] == ["whole/config"]
    assert (root / "plain/config").exists() and (root / "plain/hooks").exists() and not (root / "common/hooks").exists()


async def test_what_only_looks_like_a_git_directory_hides_nothing(sandbox: Bubblewrap, root: Path) -> None:
    script = (
        "mkdir -p like/objects/app/.git like/refs/.claude; touch like/HEAD like/.envrc;"
        "printf '[core]\\n\\tfsmonitor = x\\n' > like/objects/app/.git/config"
    )
    ended = await shell(sandbox, root, script)
    told = {told.partition(" ")[0] for told in ended.undone}
    assert told == {"like/objects/app/.git/config", "like/refs/.claude", "like/.envrc"}


async def test_attributes_get_no_new_drivers_and_keep_the_old_ones(sandbox: Bubblewrap, root: Path) -> None:
    (root / "sub").mkdir()
    for place in (root, root / "sub"):
        (place / ".gitattributes").write_text("*.bin filter=lfs\n")
    script = (
        "echo '*.txt text' >> sub/.gitattributes; echo '*.txt diff=run' >> .gitattributes; mkdir new;"
        "echo '*.txt filter=run' > new/.gitattributes; mkdir fine; echo '*.bin filter=lfs' > fine/.gitattributes"
    )
    ended = await shell(sandbox, root, script)
    assert (root / ".gitattributes").read_text() == "*.bin filter=lfs\n"
    assert (root / "sub" / ".gitattributes").read_text() == "*.bin filter=lfs\n*.txt text\n"
    assert [path.parent.name for path in named(root, "**/.gitattributes")] == ["workspace", "fine", "sub"]
    assert len(ended.undone) == 2 and aside(root) == [".gitattributes", ".gitattributes"]


async def test_a_protected_link_is_restored_and_its_target_cannot_be_changed(sandbox: Bubblewrap, root: Path) -> None:
    (root / "rules.txt").write_text("ours")
    (root / "CLAUDE.md").symlink_to("rules.txt")
    ended = await shell(sandbox, root, "echo x > CLAUDE.md; rm CLAUDE.md; echo x > rules.txt; echo evil > CLAUDE.md")
    assert os.readlink(root / "CLAUDE.md") == "rules.txt" and (root / "rules.txt").read_text() == "ours"
    assert len(ended.undone) == 1 and aside(root) == ["CLAUDE.md"]


async def meanwhile(sandbox: Bubblewrap, root: Path, script: str, do: Callable[[], object]) -> EndedProgram:
    """The result of a script that waits for a file `go`; while it waits, something is done from outside."""
    heard = asyncio.Event()
    waits = f"echo here; while ! test -e go; do :; done; {script}"
    running = await sandbox.start(
        ("sh", "-c", waits), Workspace(root), SOON, profile=WRITES, on_output=lambda piece: heard.set()
    )
    await heard.wait()
    do()
    (root / "go").touch()
    return await running.wait()


async def test_a_file_that_a_person_replaces_meanwhile_stays(sandbox: Bubblewrap, root: Path) -> None:
    (root / "AGENTS.md").write_text("old")

    def edit() -> None:
        (root / "draft").write_text("new")
        (root / "draft").rename(root / "AGENTS.md")
        (root / ".env").unlink()
        (root / ".env").write_text("MINE=1")

    ended = await meanwhile(sandbox, root, "echo x > sub.txt", edit)
    assert ended.undone == () and ended.status == 0
    assert (root / "AGENTS.md").read_text() == "new" and (root / ".env").read_text() == "MINE=1"


async def test_two_programs_at_once_share_placeholders(sandbox: Bubblewrap, root: Path) -> None:
    both = asyncio.gather(*(shell(sandbox, root, "sleep 0.1; echo x > .env") for _ in range(2)))
    assert {ended.status for ended in await both} == {2} and os.listdir(root) == []


async def test_the_next_program_removes_placeholders_of_a_killed_drone(sandbox: Bubblewrap, root: Path) -> None:
    fd = os.open(root, os.O_RDONLY)
    assert Placeholders().put(fd, ".env")
    os.close(fd)
    assert sockets(root) == [str(root / ".env")]
    assert (await shell(sandbox, root, "echo x > .env")).status and os.listdir(root) == []


async def test_cancelling_leaves_no_placeholder(sandbox: Bubblewrap, root: Path) -> None:
    task = asyncio.create_task(shell(sandbox, root, "mkdir a; echo x > a/.env; touch made; sleep 1000"))
    while not (root / "made").exists():
        await asyncio.to_thread(os.sched_yield)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (root / "a" / ".env").exists() and sockets(root) == []


async def test_cancelling_during_the_survey_leaves_no_placeholder(sandbox: Bubblewrap, root: Path) -> None:
    looks: list[asyncio.Future[object]] = []
    began, go = asyncio.Event(), threading.Event()

    async def look(work: Callable[[], T], /) -> T:
        looked = asyncio.ensure_future(asyncio.to_thread(lambda: (go.wait(20), work())[1]))
        looks.append(looked)  # type: ignore[arg-type]
        began.set()
        return await asyncio.shield(looked)

    running = sandbox.run(("true",), Workspace(root), SOON, profile=WRITES, look=look)
    task = asyncio.create_task(running)
    await began.wait()
    task.cancel()
    await asyncio.wait((task,), timeout=0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait(looks)
    assert sockets(root) == []


async def test_commands_change_names_that_the_operator_took_out(sandbox: Bubblewrap, root: Path) -> None:
    (root / ".pre-commit-config.yaml").write_text("repos: []\n")
    free = Bubblewrap(sandbox.program, protected=Protected((), (".pre-commit-config.yaml", "AGENTS.md", "fixtures/**")))
    script = (
        "echo new > .pre-commit-config.yaml; echo new > AGENTS.md; mkdir -p fixtures/.vscode;"
        "echo x > fixtures/CLAUDE.md; echo x > fixtures/.vscode/tasks.json; mkdir .husky"
    )
    ended = await shell(free, root, script)
    assert [told.partition(" ")[0] for told in ended.undone] == [".husky"] and ended.stderr.total == 0
    written = (".pre-commit-config.yaml", "AGENTS.md", "fixtures/CLAUDE.md", "fixtures/.vscode/tasks.json")
    assert all((root / path).exists() for path in written) and (root / "AGENTS.md").read_text() == "new\n"


async def test_too_many_protected_files_are_a_sentence(sandbox: Bubblewrap, root: Path) -> None:
    for number in range(MOST_MOUNTED + 1):
        (root / f".env.{number}").touch()
    with pytest.raises(OSError, match="protected files"):
        await shell(sandbox, root, "true")


async def test_a_further_directory_is_guarded_beside_a_writable_workspace(
    sandbox: Bubblewrap, root: Path, tmp_path: Path
) -> None:
    Scene(tmp_path / "other").commit("First", {"a.txt": "one\n"})
    further = Workspace(tmp_path / "other" / ".git")
    mounts = (Mount(further.fd, "/git", write=True),)
    command = ("sh", "-c", "echo x > /git/config; echo x > /git/commondir; echo x > /git/fine")
    ended = await sandbox.run(command, Workspace(root), SOON, profile=WRITES, mounts=mounts)
    assert b"/git/config: Read-only" in ended.stderr.head and (further.root / "fine").exists()
    assert len(ended.undone) == 1 and ended.undone[0].startswith("/git/commondir is protected")


@pytest.mark.parametrize("whole", [True, False])
def test_a_sweep_removes_placeholders_and_nothing_else(root: Path, whole: bool) -> None:
    """With `whole` also below the root; sockets and files of others stay."""
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "AGENTS.md").write_text("mine")
    os.mknod(root / "CLAUDE.md", stat.S_IFSOCK | 0o600)
    os.mknod(root / "ordinary", stat.S_IFSOCK)
    for directory, name in ((root, ".env"), (root, ".mcc"), (root, f"{ASIDE}0"), (root / "sub" / ".git", "hooks")):
        os.mknod(directory / name, stat.S_IFSOCK)
    fd = os.open(root, os.O_RDONLY)
    sweep_placeholders(fd, whole=whole)
    os.close(fd)
    assert sorted(os.listdir(root)) == ["AGENTS.md", "CLAUDE.md", "ordinary", "sub"]
    assert os.listdir(root / "sub" / ".git") == ([] if whole else ["hooks"])


RACE = """
import os, shutil, sys
from drone.sandbox.protection.placeholders import Placeholders

kind, root = sys.argv[1:]
fd = os.open(root, os.O_RDONLY)
waiting = ["put", "take its place"] if kind == "taken again" else ["put"]

def put(content):
    with open(f"{root}/new", "w") as file:
        file.write(content)
    os.replace(f"{root}/new", f"{root}/.env")

def meanwhile(event, arguments):
    # Asked before the system is, by any call that takes a name away.
    if event in ("os.remove", "os.rename", "os.link") and waiting and not arguments[0].endswith("/new"):
        step = waiting.pop(0)
        if step == "put" and kind == "a directory":
            os.unlink(f"{root}/.env")
            os.mkdir(f"{root}/.env")
            open(f"{root}/.env/inside", "w").close()
        elif step == "put":
            put("theirs")
        else:
            put("theirs, later")

mine = Placeholders()
assert mine.put(fd, ".env")
sys.addaudithook(meanwhile)
mine.take(fd, ".env")
"""


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        ("a file", [(".env", "theirs")]),
        ("a directory", [(".env/inside", "")]),
        ("taken again", [(".env", "theirs, later"), (f"{ASIDE}*", "theirs")]),
    ],
)
def test_a_file_that_replaces_a_placeholder_during_its_removal_stays(
    root: Path, kind: str, left: list[tuple[str, str]]
) -> None:
    subprocess.run((sys.executable, "-c", RACE, kind, str(root)), check=True)
    found = [path for path in root.rglob("*") if path.is_file()]
    assert len(found) == len(left)
    assert all([path.read_text() for path in root.glob(pattern)] == [content] for pattern, content in left)
