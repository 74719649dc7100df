"""A repository that a command makes stays whole where it is harmless; what is not is set aside, and git still works."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from drone.sandbox.bubblewrap import Bubblewrap, Profile
from drone.sandbox.child import Bounds, EndedProgram
from drone.sandbox.places.paths import Workspace
from drone.sandbox.protection.new_repository import settings, what_is_left
from tests.drone.tools.git_scene import Scene

WRITES = Profile(write=True)


def left(directory: Path, name: str) -> list[str]:
    fd = os.open(directory, os.O_RDONLY)
    try:
        return sorted(what_is_left(fd, name))
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "lines",
    [
        "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
        "[core]\n\tignorecase = true\n\tprecomposeunicode = true\n\tsymlinks = false\n",
        "[extensions]\n\tobjectformat = sha256\n",
        "[init]\n\tdefaultBranch = main\n",
        "[user]\n\tname = Ann Lee\n\temail = ann@example.com\n",
        '[remote "origin"]\n\turl = https://example.com/a.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
        '[remote "origin"]\n\turl = ann@example.com:a.git\n',
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
        "# a comment\n; another\n\n[CORE]\n\tFileMode\n",
        "",
    ],
)
def test_a_harmless_configuration_stays(tmp_path: Path, lines: str) -> None:
    (tmp_path / "config").write_text(lines)
    assert left(tmp_path, "config") == []


@pytest.mark.parametrize(
    "lines",
    [
        "[core]\n\tfsmonitor = x\n",
        "[core]\n\thooksPath = ../x\n",
        "[core]\n\tworktree = ..\n",
        "[core] fsmonitor = x\n",
        "[core]\n\tbare = false\n[core]fsmonitor=x\n",
        "[core]\n\tbare = false \\\n\tfsmonitor = x\n",
        "[core]\n\tbare = false\r\tfsmonitor = x\n",
        "[core]\n\tbare = false\0\n",
        "[include]\n\tpath = ../x\n",
        '[includeIf "gitdir:x"]\n\tpath = ../x\n',
        "[alias]\n\tst = !x\n",
        '[filter "x"]\n\tclean = x\n',
        "[init]\n\ttemplateDir = ../x\n",
        '[remote "origin"]\n\turl = ext::sh -c x\n',
        '[remote "origin"]\n\turl = e"xt:":sh\n',
        '[remote "origin"]\n\turl = -ux\n',
        '[remote "origin"]\n\tuploadpack = x\n',
        '[remote "origin"]\n\tvcs = x\n',
        '[branch "main"]\n\tremote = ext::sh -c x\n',
        '[core "x"]\n\tbare = false\n',
        "[remote]\n\turl = https://example.com\n",
        "[remote.origin]\n\turl = https://example.com\n",
        '[remote "a\\"b"]\n\turl = x\n',
        "bare = false\n",
        "[core\n\tbare = false\n",
        "[core]\n\t= x\n",
        "\ufeff[core]\n\tbare = false\n",
        "[core]\n\tbare = false\n" + "#" * 100_000,
    ],
)
def test_any_other_configuration_is_left_aside(tmp_path: Path, lines: str) -> None:
    (tmp_path / "config").write_bytes(lines.encode())
    assert left(tmp_path, "config") == ["config"]


@pytest.mark.parametrize("line", ["[" * 50_000, '[a "' + '"' * 50_000, "a" * 50_000, "[core]\n" + "bare = x\n" * 9_000])
def test_long_lines_take_no_time(line: str) -> None:
    with suppress(ValueError):
        assert all(one.is_harmless for one in settings(line))


def test_a_configuration_that_is_no_file_of_its_own_does_not_stay(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    (tmp_path / "link").mkdir()
    (tmp_path / "link/config").symlink_to("../other")
    (tmp_path / "hard").mkdir()
    os.link(tmp_path / "other", tmp_path / "hard/config")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe/config")
    assert [left(tmp_path / name, "config") for name in ("link", "hard", "pipe")] == [["config"]] * 3


def test_only_sample_hooks_and_a_silent_exclude_stay(tmp_path: Path) -> None:
    for path in ("hooks/pre-push.sample", "hooks/pre-push", "hooks/deep.sample/x", "info/exclude"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("# a comment\n\n")
    (tmp_path / "hooks/link.sample").symlink_to("pre-push")
    assert left(tmp_path, "hooks") == ["hooks/deep.sample", "hooks/link.sample", "hooks/pre-push"]
    assert left(tmp_path, "info") == []
    (tmp_path / "info/exclude").write_text("# a comment\n*.py\n")
    assert left(tmp_path, "info") == ["info"]
    (tmp_path / "info/exclude").write_text("")
    (tmp_path / "info/attributes").touch()
    assert left(tmp_path, "info") == ["info"]
    (tmp_path / "commondir").write_text("../x")
    assert left(tmp_path, "commondir") == ["commondir"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


async def shell(sandbox: Bubblewrap, root: Path, script: str) -> EndedProgram:
    return await sandbox.run(("sh", "-ec", script), Workspace(root), Bounds(60.0), profile=WRITES)


AS_ANN = "-c user.name=Ann -c user.email=ann@example.com"
FLOWS = {
    "git init": "git init -q -b main .; touch a; git add a; git {ann} commit -qm One",
    "git init below": "git init -q -b main new; cd new; touch a; git add a; git {ann} commit -qm One",
    "git clone": "cp -r /workspace/given /tmp/given; git clone -q /tmp/given clone; cd clone; git log --format=%s",
    "git clone --bare": "git clone -q --bare given bare.git; git -C bare.git log --format=%s",
}


@pytest.mark.parametrize("flow", FLOWS)
async def test_what_a_command_makes_with_git_stays_whole(sandbox: Bubblewrap, root: Path, flow: str) -> None:
    if "clone" in flow:
        Scene(root / "given").commit("One", {"a": "a"})
    ended = await shell(sandbox, root, FLOWS[flow].format(ann=AS_ANN))
    assert (ended.status, ended.undone) == (0, ()), ended.stderr.head
    place = root / {"git init": ".", "git init below": "new", "git clone": "clone"}.get(flow, "bare.git")
    scene = Scene.existing(place)
    assert scene.git("log", "--format=%s") == "One" and scene.git("config", "core.repositoryformatversion") == "0"
    if flow != "git clone --bare":
        assert scene.git("status", "--short") == (
            "?? given/" if flow == "git init" and (root / "given").exists() else ""
        )
    again = await shell(sandbox, root, f"git -C {place.relative_to(root)} rev-parse HEAD")
    assert again.status == 0 and again.undone == ()


async def test_a_project_made_by_cargo_is_a_working_repository(sandbox: Bubblewrap, root: Path) -> None:
    # A compiler for one test is more than a machine of CI has to bring.
    if shutil.which("cargo", path="/usr/local/bin:/usr/bin:/bin") is None:
        pytest.skip("there is no cargo in the system")
    ended = await shell(sandbox, root, "cargo new -q --vcs git hello")
    assert (ended.status, ended.undone) == (0, ())
    assert "src/" in Scene.existing(root / "hello").git("status", "--short")


async def test_of_a_hostile_new_repository_the_rest_still_works(sandbox: Bubblewrap, root: Path) -> None:
    script = "git init -q new; cd new; git config core.fsmonitor x; echo x > .git/hooks/pre-commit"
    ended = await shell(sandbox, root, script)
    assert [told.partition(" ")[0] for told in ended.undone] == ["new/.git/config", "new/.git/hooks/pre-commit"]
    assert (root / "new/.git/hooks/pre-commit.sample").exists()
    Scene.existing(root / "new").commit("One", {"a": "a"})


async def test_an_existing_repository_gets_nothing_new(sandbox: Bubblewrap, root: Path) -> None:
    Scene(root / "old")
    shutil.rmtree(root / "old/.git/hooks")
    (root / "old/.git/config").unlink()
    ended = await shell(
        sandbox, root, "cd old; printf '[core]\\n\\tbare = false\\n' > .git/config; mkdir .git/hooks || true"
    )
    assert [told.partition(" ")[0] for told in ended.undone] == ["old/.git/config"]
    assert not (root / "old/.git/hooks").exists()
    assert Scene.existing(root / "old").git("status", "--short") == ""
