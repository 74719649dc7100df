"""Git addresses as workspaces: fetched from a server on loopback, checked out for a session; the token stays secret."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from drone.access import CHECKOUTS, roots_of
from drone.checkouts.mirror import CannotFetch, Mirrors, NotNow
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.places.paths import PathError
from drone.settings import Settings
from drone.threads import OwnThreads
from mcc.configuration.workspaces import git_address
from tests.drone.checkouts.drone_site import checkouts_in, site
from tests.drone.tools.git_scene import Scene
from tests.waiting import eventually

TOKEN = "t0ken-that-nobody-sees"
SESSION = "0199a3c0-0000-7000-8000-000000000001"


async def test_an_address_is_checked_out_on_a_branch_of_the_session(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        there = Scene.existing(workspace.root)
        assert workspace.root.name == "shop" and (workspace.root / "a.txt").read_text() == "two\n"
        assert there.git("symbolic-ref", "HEAD") == "refs/heads/mcc/00000001"
        assert there.git("rev-parse", "HEAD") == scene.git("rev-parse", "main")
        assert there.git("config", "remote.origin.url") == here.served.address()
        (workspace.root / "a.txt").write_text("mine\n")
        asked = len(here.served.asked)
        again = await here.checkouts.opened(here.served.address() + "/", None, SESSION, OwnThreads())
        assert (again.root / "a.txt").read_text() == "mine\n" and len(here.served.asked) == asked
        other = await here.checkouts.opened(here.served.address(), "v1", "another-session", OwnThreads())
        assert (other.root / "a.txt").read_text() == "one\n" and other.root != workspace.root
        with pytest.raises(CannotFetch, match="session of its own"):
            await here.checkouts.opened(here.served.address(), "feature", SESSION, OwnThreads())
        with pytest.raises(CannotFetch, match="no branch, tag or commit"):
            await here.checkouts.opened(here.served.address(), "never-was", "third", OwnThreads())


async def test_a_checkout_in_the_data_directory_is_none_of_its_secrets(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    settings = Settings({"HOME": str(tmp_path)}, data_dir=tmp_path / "drone")
    private = roots_of(settings).private
    async with site(tmp_path, sandbox) as here:
        checkouts = replace(here.checkouts, directory=settings.data_dir / CHECKOUTS, private=private)
        workspace = await checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        os.close(workspace.open_directory(".git", symlinks=False))
        assert private.holds(settings.data_dir.stat()) and not private.holds(workspace.root.stat())


async def test_a_token_goes_to_the_server_and_is_stored_nowhere(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox, token=TOKEN, given=TOKEN) as here:
        workspace = await here.checkouts.opened(here.served.address(), "feature", SESSION, OwnThreads())
        assert (workspace.root / "a.txt").read_text() == "one\n"
        files = [path for path in here.data.rglob("*") if path.is_file()]
        assert files and not any(TOKEN.encode() in path.read_bytes() for path in files)
        config = (workspace.root / ".git" / "config").read_text()
        assert "credential" not in config and "insteadOf" not in config


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (None, "it wants a token: token_env of [[workspaces.git]] names its variable"),
        ("a-wrong-token-altogether", "is the token right"),
        ("of\nseveral lines", "give it as it is"),
    ],
)
async def test_without_the_right_token_nothing_is_checked_out(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene, given: str | None, advice: str
) -> None:
    async with site(tmp_path, sandbox, token=TOKEN, given=given) as here:
        with pytest.raises(CannotFetch) as refused:
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert given is None or given not in str(refused.value)
        assert advice in str(refused.value)


async def test_what_to_do_about_a_host_with_a_private_address_and_about_an_authority_of_ones_own_is_told(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        for allowed, advice in (
            (False, r"is not reached.*a table \[forges.NAME\]"),
            (True, "SSL_CERT_FILE of the drone"),
        ):
            at = checkouts_in(tmp_path / str(allowed), sandbox, here.served.port, b"", allow_private=allowed)
            with at as checkouts, pytest.raises(CannotFetch, match=advice):
                await checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        with pytest.raises(CannotFetch, match="is the name right"):
            await here.checkouts.opened(here.served.address("team/none"), None, SESSION, OwnThreads())


async def test_an_address_that_is_not_allowed_is_not_contacted(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox, pattern="/other/*") as here:
        with pytest.raises(CannotFetch, match="no such"):
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert here.served.asked == []


async def test_row_29_a_redirect_of_the_server_is_not_followed(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        here.served.redirect = f"https://169.254.169.254:{here.served.port}"
        with pytest.raises(CannotFetch):
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())


async def test_an_incomplete_checkout_is_made_anew(tmp_path: Path, sandbox: Bubblewrap, scene: Scene) -> None:
    async with site(tmp_path, sandbox) as here:
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        (workspace.root.parent / "checkout.json").unlink()
        (workspace.root / "a.txt").write_text("torn")
        again = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert (again.root / "a.txt").read_text() == "two\n"


async def test_a_temporary_server_error_is_retried_and_a_missing_repository_is_not(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        here.served.failing = [503, 429]
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert (workspace.root / "a.txt").exists() and here.served.failing == []
        here.served.failing = [503] * 9
        with pytest.raises(NotNow, match="503"):
            await here.checkouts.opened(here.served.address(), None, "second", OwnThreads())
        assert len(here.served.failing) == 6
        here.served.failing, before = [], len(here.served.asked)
        with pytest.raises(CannotFetch) as refused:
            await here.checkouts.opened(here.served.address("team/nothing"), None, SESSION, OwnThreads())
        assert not isinstance(refused.value, NotNow) and len(here.served.asked) <= before + 2


async def test_a_mirror_is_fetched_by_one_drone_at_a_time(tmp_path: Path, sandbox: Bubblewrap, scene: Scene) -> None:
    async with site(tmp_path, sandbox) as here:
        name = here.checkouts.mirrors.name(git_address(here.served.address()))
        lock = here.checkouts.mirrors.hold(name)
        with pytest.raises(NotNow, match="Another drone"):
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        os.close(lock)
        assert here.served.asked == []
        await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())


async def test_a_drone_waits_for_another_one_of_its_machine_that_fetches(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        patient = replace(here.checkouts, lock_seconds=600.0, pauses=())
        lock = patient.mirrors.hold(patient.mirrors.name(git_address(here.served.address())))
        waiting = asyncio.create_task(patient.opened(here.served.address(), None, SESSION, OwnThreads()))
        await asyncio.sleep(0)
        assert not waiting.done() and here.served.asked == []
        os.close(lock)
        assert (await waiting).root.is_dir()


class SlowMirrors(Mirrors):
    """Keeps who takes a lock waiting when it has it."""

    def hold(self, name: str) -> int:
        fd = super().hold(name)
        ENTERED.set()
        GO_ON.wait()
        return fd


ENTERED, GO_ON = threading.Event(), threading.Event()


async def test_who_is_cancelled_while_it_takes_the_lock_on_a_mirror_does_not_keep_it(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        mirrors = here.checkouts.mirrors
        slow = replace(here.checkouts, mirrors=SlowMirrors(mirrors.sandbox, mirrors.directory, mirrors.open))
        opening = asyncio.create_task(slow.opened(here.served.address(), None, SESSION, OwnThreads()))
        await eventually(ENTERED.is_set)
        opening.cancel()
        await asyncio.wait({opening})
        GO_ON.set()
        await eventually(lambda: is_free(mirrors, mirrors.name(git_address(here.served.address()))))


def is_free(mirrors: Mirrors, name: str) -> bool:
    try:
        os.close(mirrors.hold(name))
    except NotNow:
        return False
    return True


async def test_remains_of_a_killed_git_are_removed_and_a_damaged_mirror_is_made_anew(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        await here.checkouts.opened(here.served.address(), None, "first", OwnThreads())
        scene.commit("third", {"a.txt": "three\n"})
        scene.git("push", "-q", str(tmp_path / "served" / "team" / "shop"), "main")
        for lock in ("HEAD.lock", "config.lock", "packed-refs.lock", "refs/heads/main.lock"):
            (here.mirror / lock).touch()
        (here.mirror / "objects" / "pack" / "tmp_pack_x").write_text("half")
        again = await here.checkouts.opened(here.served.address(), None, "second", OwnThreads())
        assert (again.root / "a.txt").read_text() == "three\n"
        assert not list(here.mirror.rglob("*.lock")) and not list(here.mirror.rglob("tmp_*"))
        for pack in (here.mirror / "objects" / "pack").iterdir():
            pack.chmod(0o600)
            pack.write_bytes(b"")
        mended = await here.checkouts.opened(here.served.address(), "v1", "third", OwnThreads())
        assert (mended.root / "a.txt").read_text() == "one\n"


async def test_nothing_in_a_hostile_repository_runs_or_reaches_the_network(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    """Row 25 and related ones: filters, hooks, submodules, links, LFS, names of refs."""
    mark = tmp_path / "ran"
    hostile = {
        ".gitattributes": "*.txt filter=evil diff=evil merge=evil\n*.bin filter=lfs\n",
        ".gitmodules": f'[submodule "x"]\n\tpath = sub\n\turl = ext::sh -c touch {mark}\n\tupdate = !touch {mark}\n',
        ".lfsconfig": "[lfs]\n\turl = http://169.254.169.254/\n",
        "big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
        "hooks/post-checkout": f"#!/bin/sh\ntouch {mark}\n",
    }
    head = scene.git("rev-parse", "HEAD")
    scene.commit("hostile", hostile)
    (scene.root / "out").symlink_to("/etc/passwd")
    scene.git("add", "-A")
    scene.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    scene.git("commit", "-q", "-m", "links")
    bare = tmp_path / "served" / "team" / "shop"
    (bare / "hooks").mkdir(exist_ok=True)
    (bare / "hooks" / "post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    scene.git("push", "-q", str(bare), "main", "main:refs/heads/-x", "main:refs/heads/a;touch", "main:refs/heads/@here")
    async with site(tmp_path, sandbox) as here:
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        root = workspace.root
        assert (root / "big.bin").read_text() == hostile["big.bin"] and (root / "out").is_symlink()
        assert list((root / "sub").iterdir()) == [] and not (root / ".git" / "hooks").exists()
        config = (root / ".git" / "config").read_text()
        assert "filter" not in config and "submodule" not in config
        with pytest.raises(PathError), workspace.open_file("out"):
            pass
        assert not mark.exists() and all("/team/shop" in asked for asked in here.served.asked)


async def test_more_than_a_checkout_may_have_is_refused_before_it_is_written(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    """A tree of five levels with ten entries each: some kilobytes in a pack, a hundred thousand files."""
    blob = scene.git("rev-parse", "HEAD:a.txt")
    tree, kind = blob, "100644 blob"
    for _ in range(5):
        listing = "".join(f"{kind} {tree}\t{number}\n" for number in range(10))
        tree, kind = scene.git("mktree", fed=listing), "040000 tree"
    commit = scene.git("commit-tree", tree, "-m", "bomb")
    scene.git("push", "-q", str(tmp_path / "served" / "team" / "shop"), f"{commit}:refs/heads/bomb")
    async with site(tmp_path, sandbox) as here:
        here.checkouts = replace(here.checkouts, mirrors=replace(here.checkouts.mirrors, most_files=10_000))
        with pytest.raises(CannotFetch, match="too much for a checkout"):
            await here.checkouts.opened(here.served.address(), "bomb", SESSION, OwnThreads())
        assert not (here.data / "sessions").exists() or not list((here.data / "sessions").rglob("a.txt"))
