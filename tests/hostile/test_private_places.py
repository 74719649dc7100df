"""Whoever works in a directory that holds MCC's own data, configuration or secrets sees nothing of them."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from drone.models.scripted import call
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import PathDenied, PathMissing, Roots, Workspace
from drone.sandbox.places.private import Private
from drone.threads import in_thread
from mcc.contracts.status import FailureReason, OrderStatus
from tests.drone.sandbox.machine import found_sandbox
from tests.drone.tools.git_scene import Scene
from tests.hostile.exchange import Exchange
from tests.hostile.orders import Orders

T = TypeVar("T")

SECRET = "the-operators-own-token-0123456789"

LAYOUTS = {"a checkout with the demo's data": "var/demo", "a home": ".local/share/mcc"}


@pytest.fixture
def sandbox() -> Bubblewrap:
    return found_sandbox()


@pytest.fixture(params=list(LAYOUTS.values()), ids=list(LAYOUTS))
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory in a git repository, of which every name leads to it that a name can be made of."""
    scene = Scene(tmp_path / "work")
    data = scene.root / str(request.param)
    scene.commit("begun", {f"{request.param}/token": "an old one\n", "README.md": "# Work\n"})
    for name in ("token", "family.json", "mcc.db", "mcc.db-wal", "flower.auth", "run/workspaces/key/lock"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(f"{SECRET}\n")
    (scene.root / "to-a-file").symlink_to(os.path.relpath(data / "token", scene.root))
    (scene.root / "to-a-directory").symlink_to(os.path.relpath(data, scene.root))
    os.link(data / "token", scene.root / "the-same-file")
    return data


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


def spellings(work: Path, data: Path) -> Iterator[str]:
    inside = os.path.relpath(data, work)
    for name in ("token", "family.json", "mcc.db", "run/workspaces/key/lock"):
        yield f"{inside}/{name}"
        yield f"to-a-directory/{name}"
    yield str(data / "token")
    yield f"{inside}/../{data.name}/token"
    yield f"{inside}/run/../token"
    yield "to-a-file"
    yield "the-same-file"


async def test_no_tool_shows_anything_of_a_data_directory_in_the_workspace(
    tmp_path: Path, work: Path, data: Path
) -> None:
    found_sandbox()
    inside = str(data.relative_to(work))
    orders = Orders(tmp_path, tmp_path, data_dir=data)
    outcome, steps = await orders.run(
        work,
        [call("environment_detect")],
        [call("read_file", path=path) for path in spellings(work, data)],
        [call("list_files", depth=20), call("find_files", pattern="**/*"), call("search_text", pattern="token")],
        [call("list_files", path=inside), call("list_files", path="to-a-directory")],
        [call("find_files", pattern="*", path=inside), call("search_text", pattern=".", path=inside)],
        [call("search_text", pattern=SECRET), call("search_text", pattern=".", path="to-a-file")],
        [call("read_file", path=f"{inside}/toke"), call("read_file", path=f"{inside.rpartition('/')[0]}/{data.name}x")],
        [call("git_status"), call("git_diff"), call("git_diff", path=f"{inside}/token"), call("git_ls_files")],
    )
    assert outcome.status is OrderStatus.SUCCEEDED
    assert not [(step.name, step.arguments) for step in steps if SECRET in step.content]
    listed = "".join(step.content for step in steps if step.name in ("list_files", "find_files"))
    assert not [name for name in ("family.json", "flower.auth", "mcc.db", "the-same-file") if name in listed]
    assert "README.md" in listed
    into = [
        step
        for step in steps
        if isinstance(step.arguments, Mapping) and step.arguments.get("path") in (inside, "to-a-directory")
    ]
    assert [step.outcome for step in into] == ["denied"] * 4
    denied = [step for step in steps if step.name == "read_file" and step.outcome == "denied"]
    assert len(denied) >= len(list(spellings(work, data)))
    assert [step.content for step in denied if "belongs to MCC itself" not in step.content] == []


@pytest.mark.parametrize("place", [".", "run", "run/workspaces", "../alias", "../alias/run"])
async def test_a_workspace_inside_of_it_is_refused_with_a_sentence(tmp_path: Path, data: Path, place: str) -> None:
    (data.parent / "alias").symlink_to(data)
    orders = Orders(tmp_path, tmp_path, data_dir=data)
    outcome, steps = await orders.run(data / place, [call("read_file", path="token")])
    assert (outcome.status, outcome.reason) == (OrderStatus.FAILED, FailureReason.INVALID)
    assert "inside MCC's own data" in str(outcome.detail) and "MCC_DATA_DIR" in str(outcome.detail)
    assert steps == []


@pytest.mark.parametrize("private", ["secrets", "secrets/key", "not/there/yet"])
def test_a_private_file_or_directory_is_hidden_from_every_open_and_every_listing(tmp_path: Path, private: str) -> None:
    work = tmp_path / "work"
    (work / "secrets" / "deep").mkdir(parents=True)
    (work / "secrets" / "key").write_text(SECRET)
    workspace = Roots([tmp_path], Private([work / private], clock=count().__next__)).opened(str(work))
    (work / "not" / "there" / "yet").mkdir(parents=True)
    (work / "not" / "there" / "yet" / "key").write_text(SECRET)
    hidden = f"{private}/key" if not private.endswith("key") else private
    with pytest.raises(PathDenied, match="belongs to MCC itself"):
        workspace.open_file(hidden)
    parent = workspace.open_directory(os.path.dirname(private) or ".")
    try:
        assert os.path.basename(private) not in [entry.name for entry in workspace.entries(parent)]
    finally:
        os.close(parent)
    with workspace.open_file("plain" if (work / "plain").write_text("x") else "") as file:
        assert file.read() == b"x"


def test_a_file_that_is_made_there_a_moment_ago_is_hidden_as_well(tmp_path: Path) -> None:
    data = tmp_path / "work" / "data"
    data.mkdir(parents=True)
    workspace = Roots([tmp_path], Private([data], clock=lambda: 0.0)).opened(str(tmp_path / "work"))
    (data / "new").mkdir()
    (data / "new" / "token").write_text(SECRET)
    with pytest.raises(PathDenied, match="belongs to MCC itself"):
        workspace.open_file("data/new/token")


async def test_a_sandbox_sees_empty_places_instead_and_can_put_nothing_there(
    tmp_path: Path, sandbox: Bubblewrap
) -> None:
    work = tmp_path / "work"
    (work / "data" / "run").mkdir(parents=True)
    (work / "data" / "token").write_text(SECRET)
    (work / "mcc.toml").write_text(SECRET)
    (work / "plain").write_text("plain")
    workspace = Workspace(work, private=Private([work / "data", work / "mcc.toml"]))
    script = "cat plain mcc.toml; ls -A data; touch data/new 2>&1; grep -rl the-operators . ; cat /proc/self/mountinfo"
    ended = await sandbox.run(("sh", "-c", script), workspace, Bounds(20.0))
    said = ended.stdout.head.decode()
    assert said.startswith("plain") and SECRET not in said
    assert "token" not in said and "Read-only file system" in said
    assert "./" not in said.partition("Read-only file system")[2].partition(" ")[0]


async def test_what_a_sandbox_hides_is_looked_for_where_that_holds_up_nobody(
    tmp_path: Path, sandbox: Bubblewrap
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "token").write_text(SECRET)
    looked: list[str] = []

    async def look(find: Callable[[], T]) -> T:
        hidden = await in_thread(find)
        assert isinstance(hidden, Mapping)
        looked.extend(hidden)
        return hidden

    workspace = Workspace(tmp_path, private=Private([tmp_path / "data"]))
    ended = await sandbox.run(("ls", "-A", "data"), workspace, Bounds(20.0), look=look)
    assert looked == ["/workspace/data"] and ended.stdout.total == 0 and not ended.status


def test_a_mount_of_it_elsewhere_is_hidden_as_well(tmp_path: Path) -> None:
    for name in ("work/mounted", "work/mounted-below", "data/run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data" / "run" / "secret").write_text(SECRET)
    (tmp_path / "data" / "token").write_text(SECRET)
    script = (
        "mount --bind data work/mounted && mount --bind data/run work/mounted-below || exit 77; "
        f"exec {sys.executable} -m tests.hostile.looking work data "
        "mounted/token mounted-below/secret mounted/run/secret"
    )
    done = in_mounts(tmp_path, script)
    assert done.stdout.splitlines() == ["denied"] * 3 + ["[]"], done.stderr


@pytest.mark.parametrize("swapped", ["around", "around/data"])
async def test_what_is_moved_away_stays_hidden_wherever_it_is(
    tmp_path: Path, sandbox: Bubblewrap, swapped: str
) -> None:
    """Somebody who may rename in the workspace, and not read the data, puts something else in its place."""
    work = tmp_path / "work"
    for name in ("around/data", "other/data"):
        (work / name / "run").mkdir(parents=True)
    for name in ("token", "run/key"):
        (work / "around" / "data" / name).write_text(SECRET)
    private = Private([work / "around" / "data"], clock=count().__next__)
    workspace = Roots([tmp_path], private).opened(str(work))
    (work / "plain").write_text("plain")
    with Exchange(work / swapped, work / swapped.replace("around", "other")):
        for _ in range(300):
            for name in ("around/data/token", "other/data/token", "other/data/run/key"):
                with pytest.raises((PathDenied, PathMissing)):
                    workspace.open_file(name)
    (work / "around").rename(work / "moved")
    (work / "around" / "data").mkdir(parents=True)
    with pytest.raises(PathDenied, match="belongs to MCC itself"):
        workspace.open_file("moved/data/token")
    script = ("sh", "-c", 'grep -rlF "$0" . ; cat plain', SECRET)
    ended = await sandbox.run(script, workspace, Bounds(20.0))
    assert ended.stdout.head == b"plain"


def test_what_is_gone_is_held_no_longer(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "key"
    private = Private([data, file], clock=count().__next__)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(50):
        data.mkdir()
        (tmp_path / "new").write_text(f"{number}")
        os.replace(tmp_path / "new", file)
        assert private.holds(data.stat()) and private.holds(file.stat())
        data.rmdir()
    assert len(os.listdir("/proc/self/fd")) <= before + 2


MOUNTED = {
    "the workspace is another mount of the home": ("mkdir alias && mount --bind home alias", "alias", "home/data"),
    "what is around the data is mounted in the workspace": (
        "mkdir -p work/disk && mount --bind home work/disk",
        "work",
        "home/data",
    ),
    "both are mounts of places on one disk": (
        "mkdir disk away && mount --bind home disk && mount --bind home/data away",
        "disk",
        "away",
    ),
    "something is mounted inside of the data": ("mount -t tmpfs none home/data/run", "home", "home/data"),
    "one private place lies in another": ("true", "home", "home/data home/data/run"),
    "a file of the data is a link to one outside": ("ln -s ../key home/data/token2", "home", "home/data"),
    "a file of the data has a second name in the workspace": (
        "mkdir work/a && ln home/data/token work/a/b",
        "work",
        "home/data",
    ),
    "a file of the data has a second name beside it": ("ln home/data/run/key home/notes", "home", "home/data"),
    "a private file has a second name": ("ln home/data/token home/notes", "home", "home/data/token home/data/run"),
    "the data lie among the system's programs": (
        "mount -t tmpfs none /usr/src && mv home/data /usr/src/",
        "home",
        "/usr/src/data",
    ),
}


@pytest.mark.parametrize(("mounting", "work", "private"), MOUNTED.values(), ids=MOUNTED.keys())
def test_a_sandbox_sees_it_through_no_mount(tmp_path: Path, mounting: str, work: str, private: str) -> None:
    found_sandbox()
    (tmp_path / "home" / "data" / "run").mkdir(parents=True)
    (tmp_path / "work").mkdir()
    for name in ("home/plain", "work/plain"):
        (tmp_path / name).write_text("plain")
    for name in ("home/data/token", "home/data/run/key"):
        (tmp_path / name).write_text(SECRET)
    (tmp_path / "home" / "key").write_text(SECRET if "token2" in mounting else "plain")
    look = f"exec {sys.executable} -m tests.hostile.sandboxed {SECRET} {work} {private}"
    done = in_mounts(tmp_path, f"{{ {mounting}; }} || exit 77; {look}")
    assert done.stdout == "looked\n", done.stderr


def in_mounts(directory: Path, script: str) -> "subprocess.CompletedProcess[str]":
    """Run it where it may mount things that nobody else sees; the test is skipped where that is not possible."""
    done = subprocess.run(
        ("unshare", "--map-root-user", "--mount", "sh", "-c", f"cd {directory} && {script}"),
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    return done


def test_what_is_besides_is_seen_by_who_was_given_it_and_by_nobody_who_comes_by_way_of_its_place(
    tmp_path: Path,
) -> None:
    data, clock = tmp_path / "data", count(step=10)
    inside = data / "worktrees" / "one"
    inside.mkdir(parents=True)
    (inside / "file").write_text("work")
    (data / "token").write_text(SECRET)
    private = Private([data], except_below=[data / "worktrees"], clock=lambda: float(next(clock)))
    given = Workspace(inside, private=private)
    assert given.open_file("file").read() == b"work"
    around = Workspace(tmp_path, private=private)
    for path in ("data/worktrees/one/file", "data/token"):
        with pytest.raises((PathDenied, PathMissing)):
            around.open_file(path)


def test_who_has_got_the_number_of_what_is_gone_is_not_private(tmp_path: Path) -> None:
    data, ticks = tmp_path / "data", iter([0.0, 0.5, 0.6, 5.0])
    (data / "scratch").mkdir(parents=True)
    private = Private([data], clock=lambda: next(ticks))
    known = os.stat(data / "scratch")
    assert private.holds(known)
    (data / "scratch").rename(tmp_path / "work")
    assert not private.holds(os.stat(tmp_path / "work")), "it is elsewhere now, as if it were another one"


def test_a_number_that_a_private_file_had_a_moment_ago_makes_no_other_file_private(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    work.mkdir()
    (data / "passing").write_text("written, and soon gone")
    (data / "staying").write_text("a secret")
    private = Private([data], clock=lambda: 0.0)  # no time goes by between one look and the next
    assert private.holds((data / "passing").stat()) and private.holds((data / "staying").stat())
    # As when it is deleted and an agent's file gets its number, which a test cannot ask of a file system.
    (data / "passing").rename(work / "plank.txt")
    os.link(data / "staying", work / "another name")
    assert not private.holds((work / "plank.txt").stat())
    assert private.holds((work / "another name").stat())
