"""The watch: protected paths that appear while a program runs are put aside at the next look."""

import mmap
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from drone.sandbox.protection.protected import Protected
from drone.sandbox.protection.quarantine import Quarantine, Top, contents
from drone.sandbox.protection.survey import survey
from drone.sandbox.protection.watch import WALK_SECONDS, WatchedTop
from tests.drone.tools.git_scene import Scene

HOSTILE = "[core]\n\tfsmonitor = x\n"
HARMLESS = "[core]\n\tbare = false\n"


class Watched:
    """A workspace that is watched; the clock stands still."""

    def __init__(self, root: Path, most: int = 1_000) -> None:
        self.root, self.now = root, 100.0
        fd = os.open(root, os.O_RDONLY)
        before = survey(fd, Protected())
        self.quarantine = Quarantine(Top(fd, "/workspace", before, contents(fd, before.attributes)), Protected())
        self.top = WatchedTop(self.quarantine, Event(), most=most, clock=lambda: self.now)
        self.top.look()

    def write(self, path: str, content: str = "x") -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)
        return place

    def look(self) -> set[str]:
        """The paths that were put aside so far."""
        self.top.look()
        return self.aside()

    def aside(self) -> set[str]:
        return {sentence.partition(" ")[0] for sentence in self.quarantine.sentences}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    (made / "sub/deep").mkdir(parents=True)
    return made


@pytest.fixture
def watched(root: Path) -> Iterator[Watched]:
    one = Watched(root)
    yield one
    one.top.close()
    os.close(one.quarantine.top.fd)


def repository(watched: Watched) -> None:
    for path in ("HEAD", "objects/x", "refs/x"):
        watched.write(f"sub/.git/{path}")
    watched.write("sub/.git/config", HOSTILE)


def moved_in(watched: Watched) -> None:
    elsewhere = watched.root.parent / "elsewhere"
    (elsewhere / "app").mkdir(parents=True)
    (elsewhere / "app/.envrc").write_text("x")
    elsewhere.rename(watched.root / "sub/new")


def renamed_above(watched: Watched) -> None:
    (watched.root / "sub").rename(watched.root / "other")
    watched.look()
    watched.write("other/deep/.cursor/mcp.json")


def completed(watched: Watched) -> None:
    watched.write("sub/bare/config", HOSTILE)
    for name in ("objects", "refs"):
        (watched.root / "sub/bare" / name).mkdir()
    assert watched.look() == set(), "until it has a HEAD it is a directory like others"
    watched.write("sub/bare/HEAD")


MADE: dict[str, tuple[Callable[[Watched], object], str]] = {
    "a repository": (repository, "sub/.git/config"),
    "a file": (lambda watched: watched.write("sub/deep/.claude"), "sub/deep/.claude"),
    "deep in new directories": (lambda watched: watched.write("a/b/c/.vscode/tasks.json"), "a/b/c/.vscode"),
    "moved in": (moved_in, "sub/new/app/.envrc"),
    "below a renamed directory": (renamed_above, "other/deep/.cursor"),
    "completed by its HEAD": (completed, "sub/bare/config"),
    "drivers": (lambda watched: watched.write("sub/.gitattributes", "* filter=x\n"), "sub/.gitattributes"),
    "a gitfile": (lambda watched: watched.write("sub/deep/.git", "gitdir: x\n"), "sub/deep/.git"),
}


@pytest.mark.parametrize("how", MADE)
def test_what_appears_is_put_aside_at_the_next_look(watched: Watched, how: str) -> None:
    make, path = MADE[how]
    make(watched)
    assert watched.look() == {path} and not os.path.lexists(watched.root / path)
    assert watched.top.is_watched and watched.look() == {path}


@pytest.mark.parametrize("how", MADE)
def test_a_large_workspace_is_walked_each_five_seconds(root: Path, how: str) -> None:
    watched = Watched(root, most=2)
    assert not watched.top.is_watched
    make, path = MADE[how]
    make(watched)
    assert path not in watched.look(), "it is not time yet"
    watched.now += WALK_SECONDS
    assert watched.look() == {path}
    os.close(watched.quarantine.top.fd)


def test_a_harmless_configuration_is_looked_at_again_each_time(watched: Watched) -> None:
    """It can be changed so that the kernel tells of nothing: through a mapping, or through another name."""
    Scene(watched.root / "sub")
    config = watched.root / "sub/.git/config"
    config.write_text(HARMLESS.ljust(len(HOSTILE)))
    assert watched.look() == set()
    with open(config, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        assert watched.look() == set()
        mapped[:] = HOSTILE.ljust(len(mapped)).encode()
        assert watched.look() == {"sub/.git/config"}


def test_a_configuration_with_a_second_name_does_not_stay(watched: Watched) -> None:
    Scene(watched.root / "sub")
    os.link(watched.root / "sub/.git/config", watched.root / "sub/plain")
    assert watched.look() == {"sub/.git/config"}


def test_what_waits_in_the_root_is_in_quarantine_at_the_end(watched: Watched) -> None:
    watched.write("sub/.claude/settings.json")
    watched.look()
    waiting = [path.name for path in watched.root.iterdir() if path.name.startswith(".mcc-refused-")]
    assert len(waiting) == 1 and not (watched.root / ".mcc-workspace").exists(), "the program could write there"
    watched.quarantine.finish()
    (told,) = watched.quarantine.sentences
    to = told.removeprefix("sub/.claude is protected: what was made there is now ").removesuffix(".")
    assert to.startswith(".mcc-workspace/refused/") and (watched.root / to / "settings.json").read_text() == "x"
    assert sorted(path.name for path in watched.root.iterdir()) == [".mcc-workspace", "sub"]


def test_the_quarantine_is_used_at_once_where_the_program_cannot_write_to_it(root: Path) -> None:
    (root / ".mcc-workspace").mkdir()
    watched = Watched(root)
    watched.write("sub/.claude/settings.json")
    watched.look()
    assert len(list((root / ".mcc-workspace/refused").iterdir())) == 1
    watched.write("sub/.claude/settings.json")
    watched.look()
    assert len(list((root / ".mcc-workspace/refused").iterdir())) == 2
    watched.top.close()
    os.close(watched.quarantine.top.fd)


def test_ordinary_work_goes_on(watched: Watched) -> None:
    Scene(watched.root / "sub/part").commit("First", {"a.txt": "a", "objects/b": "b", "src/config/c": "c"})
    for number in range(50):
        watched.write(f"made/{number}/file")
    assert watched.look() == set()
    assert Scene.existing(watched.root / "sub/part").git("status", "--short") == ""


def test_more_messages_than_are_kept_lead_to_a_walk(watched: Watched) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the kernel keeps too many messages here to send more of them")
    names = [watched.root / f"file-{number % 2}" for number in range(limit + 2)]
    for path in names:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
    watched.write("sub/.claude")
    assert watched.look() == set()
    watched.now += WALK_SECONDS
    assert watched.look() == {"sub/.claude"}
