"""Unused checkouts are deleted; those with unsaved work stay and are reported, and those in use stay."""

import math
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from drone.checkouts.sweep import Sweep
from drone.sandbox.bubblewrap import Bubblewrap
from drone.threads import OwnThreads
from drone.tools.git.program import Git
from mcc.configuration.workspaces import KEPT_CHECKOUTS, KeptCheckouts
from tests.drone.checkouts.drone_site import Site, site
from tests.drone.tools.git_scene import Scene


class Swept:
    """A sweep. `busy` sessions have an unfinished order; checkouts with these `names` are in use."""

    def __init__(self, here: Site, sandbox: Bubblewrap) -> None:
        self.here = here
        self.sandbox = sandbox
        self.busy: set[str] = set()
        self.names: set[str] = set()

    async def made(self, session: str) -> Scene:
        workspace = await self.here.checkouts.opened(self.here.served.address(), None, session, OwnThreads())
        return Scene.existing(workspace.root)

    async def run(self, before: float = math.inf, most: float = math.inf) -> KeptCheckouts:
        async def free(session: str) -> bool:
            return session not in self.busy

        @asynccontextmanager
        async def alone(name: str) -> AsyncIterator[bool]:
            yield name not in self.names

        git = Git(self.sandbox)
        return await Sweep(self.here.checkouts, git, before, most, free, alone).run(OwnThreads())


async def test_an_old_checkout_without_unsaved_work_is_deleted_and_made_anew_for_its_session(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        swept = Swept(here, sandbox)
        there = await swept.made("first")
        assert (await swept.run(before=0.0)).kept == () and there.root.exists()
        assert (await swept.run()).kept == () and not there.root.exists()
        assert not [path for path in (here.data / "mirrors").iterdir() if path.is_dir()]
        assert here.checkouts.has(there.root.parent.name)
        again = await swept.made("first")
        assert again.root == there.root and (again.root / "a.txt").exists()


async def test_unsaved_work_stays_and_is_reported_until_it_was_pushed(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        swept = Swept(here, sandbox)
        changed, new, ahead = [await swept.made(name) for name in ("changed", "new", "ahead")]
        changed.write({"a.txt": "mine\n"})
        new.write({"deep/new.txt": "mine\n"})
        ahead.commit("mine", {"a.txt": "mine\n"})
        kept = {Path(one.place).name: one.why for one in (await swept.run()).kept}
        assert kept[changed.root.parent.name] == "not committed: a.txt"
        assert kept[new.root.parent.name] == "not committed: deep/"
        assert kept[ahead.root.parent.name] == f"1 commit that {here.served.address()} does not have"
        told = KeptCheckouts.model_validate_json((here.data / KEPT_CHECKOUTS.name).read_bytes())
        assert {Path(one.place).name for one in told.kept} == set(kept)
        ahead.git("push", "-q", str(tmp_path / "served" / "team" / "shop"), "HEAD:refs/heads/merged")
        changed.git("checkout", "-q", "--", ".")
        new.git("clean", "-qfd")
        assert (await swept.run()).kept == () and not (here.data / KEPT_CHECKOUTS.name).exists()
        assert not ahead.root.exists() and not changed.root.exists() and not new.root.exists()


async def test_a_checkout_in_use_is_not_deleted(tmp_path: Path, sandbox: Bubblewrap, scene: Scene) -> None:
    async with site(tmp_path, sandbox) as here:
        swept = Swept(here, sandbox)
        waiting, inside = [await swept.made(name) for name in ("waiting", "inside")]
        swept.busy, swept.names = {"waiting"}, {inside.root.parent.name}
        assert (await swept.run()).kept == ()
        assert waiting.root.exists() and inside.root.exists()


async def test_when_space_is_short_the_least_recently_used_checkout_is_deleted_first(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        swept = Swept(here, sandbox)
        old, young = [await swept.made(name) for name in ("old", "young")]
        os.utime(old.root.parent / "checkout.json", (1.0, 1.0))
        blocks = [path.lstat().st_blocks * 512 for path in here.data.rglob("*") if path.is_file()]
        await swept.run(before=0.0, most=sum(blocks) - 1)
        assert not old.root.exists() and young.root.exists()
