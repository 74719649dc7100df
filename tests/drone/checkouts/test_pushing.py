"""A session's branch is compared with its address and pushed: without force, and the token stays secret."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from drone.checkouts.mirror import NotNow
from drone.checkouts.pushing import BranchPush, CannotPush
from drone.sandbox.bubblewrap import Bubblewrap
from drone.threads import OwnThreads
from mcc.configuration.workspaces import git_address
from tests.drone.checkouts.drone_site import Site, site
from tests.drone.tools.git_scene import Scene

SESSION = "0199a3c0-0000-7000-8000-000000000001"
TOKEN = "t0ken-that-nobody-sees"
BRANCH = "mcc/work"


@asynccontextmanager
async def begun(
    tmp_path: Path, sandbox: Bubblewrap, *, token: str | None = None
) -> AsyncIterator[tuple[Site, Scene, BranchPush]]:
    bare = Scene.existing(tmp_path / "served" / "team" / "shop")
    bare.git("config", "http.receivepack", "true")
    async with site(tmp_path, sandbox, token=token, given=token) as here:
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        push = BranchPush(here.checkouts, git_address(here.served.address()), workspace, OwnThreads(), token)
        yield here, Scene.existing(workspace.root), push


async def test_a_commit_is_looked_at_and_pushed_and_pushing_again_changes_nothing(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with begun(tmp_path, sandbox, token=TOKEN) as (here, checkout, push):
        commit = checkout.commit("mended", {"a.txt": "three\n", "b.bin": b"\0\1"})
        look = await push.look(commit, None, BRANCH)
        assert (look.base, look.default, look.ahead, look.tip, look.others) == ("main", "main", 1, None, 0)
        assert list(look.subjects) == ["mended"] and "+three" in look.diff
        assert [(file.path, file.added, file.removed) for file in look.files] == [
            ("a.txt", 1, 1),
            ("b.bin", None, None),
        ]
        await push.push(commit, BRANCH)
        bare = Scene.existing(tmp_path / "served" / "team" / "shop")
        assert bare.git("rev-parse", BRANCH) == commit and bare.git("fsck", "--strict") == ""
        await push.push(commit, BRANCH)
        again = await push.look(commit, "main", BRANCH)
        assert (again.tip, again.others) == (commit, 0)
        files = [path for path in here.data.rglob("*") if path.is_file()]
        assert not any(TOKEN.encode() in path.read_bytes() for path in files)


async def test_a_branch_with_commits_of_others_is_counted_and_never_overwritten(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with begun(tmp_path, sandbox) as (_, checkout, push):
        commit = checkout.commit("mended", {"a.txt": "three\n"})
        bare = Scene.existing(tmp_path / "served" / "team" / "shop")
        scene.commit("theirs", {"c.txt": "1\n"})
        theirs = scene.commit("theirs too", {"c.txt": "2\n"})
        scene.git("push", "-q", str(bare.root), f"{theirs}:refs/heads/{BRANCH}")
        look = await push.look(commit, None, BRANCH)
        assert (look.tip, look.others) == (theirs, 2)
        with pytest.raises(NotNow, match="same time"):
            await push.push(commit, BRANCH)
        assert bare.git("rev-parse", BRANCH) == theirs


async def test_a_branch_that_was_deleted_meanwhile_is_made_again(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with begun(tmp_path, sandbox) as (_, checkout, push):
        commit = checkout.commit("mended", {"a.txt": "three\n"})
        await push.push(commit, BRANCH)
        bare = Scene.existing(tmp_path / "served" / "team" / "shop")
        bare.git("update-ref", "-d", f"refs/heads/{BRANCH}")
        await push.push(commit, BRANCH)
        assert bare.git("rev-parse", BRANCH) == commit


async def test_what_the_server_refuses_is_told_and_what_it_cannot_do_now_may_be_tried_again(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with begun(tmp_path, sandbox) as (here, checkout, push):
        commit = checkout.commit("mended", {"a.txt": "three\n"})
        hook = tmp_path / "served" / "team" / "shop" / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\necho 'GH006: Protected branch' >&2\nexit 1\n")
        hook.chmod(0o755)
        with pytest.raises(CannotPush, match="Protected branch"):
            await push.push(commit, BRANCH)
        here.served.failing = [503] * 9
        with pytest.raises(NotNow, match="503"):
            await push.push(commit, BRANCH)
        here.served.failing = []
        with pytest.raises(CannotPush, match="no branch 'never-was'"):
            await push.look(commit, "never-was", BRANCH)


async def test_a_checkouts_own_configuration_and_hooks_take_no_part_in_a_push(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with begun(tmp_path, sandbox) as (here, checkout, push):
        commit = checkout.commit("mended", {"a.txt": "three\n"})
        checkout.git("config", "url.https://elsewhere.example.org/.insteadOf", here.served.address())
        checkout.git("config", "core.hooksPath", "hooks")
        checkout.git("config", "uploadpack.packObjectsHook", "false")
        hook = checkout.root / "hooks" / "pre-push"
        hook.parent.mkdir()
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        await push.push(commit, BRANCH)
        assert Scene.existing(tmp_path / "served" / "team" / "shop").git("rev-parse", BRANCH) == commit
