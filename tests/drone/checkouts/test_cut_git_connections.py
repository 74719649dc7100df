"""A connection to a git server that ends at any byte of either side is a failure that may be gone at the next try."""

import os
from pathlib import Path

import pytest

from drone.checkouts.mirror import CannotFetch, NotNow
from drone.checkouts.pushing import BranchPush, CannotPush
from drone.sandbox.bubblewrap import Bubblewrap
from drone.threads import OwnThreads
from mcc.configuration.workspaces import git_address
from tests.drone.checkouts.drone_site import checkouts_in
from tests.drone.checkouts.git_server import HOST, git_server
from tests.drone.tools.git_scene import Scene
from tests.faults.doors.cutting import CuttingProxy

SESSION = "0199a3c0-0000-7000-8000-000000000001"
CUTS = int(os.environ.get("GIT_CUTS", "10"))
"""Of fetches, and as many of pushes; some minutes for 500."""


async def test_a_fetch_or_push_whose_connection_is_cut_may_be_tried_again_and_brings_the_commit(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    authority = pytest.importorskip("drone.egress.authority").Authority([HOST])
    bare = Scene.existing(tmp_path / "served" / "team" / "shop")
    bare.git("config", "http.receivepack", "true")
    threads, wrong, pushed = OwnThreads(), list[str](), 0
    with git_server(tmp_path / "served", authority.context(HOST)) as served:
        proxy = CuttingProxy(("127.0.0.1", served.port), "git")
        await proxy.start()
        address = f"https://{HOST}:{proxy.port}/team/shop"
        with checkouts_in(tmp_path / "data", sandbox, proxy.port, authority.certificate) as checkouts:
            workspace = await checkouts.opened(address, None, SESSION, threads)
            checkout = Scene.existing(workspace.root)
            push = BranchPush(checkouts, git_address(address), workspace, threads)
            proxy.share = 0.5
            for number in range(2 * CUTS):
                commit = checkout.commit(f"mended {number}", {"a.txt": f"{number}\n"})
                for work in (push.look(commit, None, "mcc/x"), push.push(commit, "mcc/x")):
                    proxy.cuts = proxy.cut + 1
                    try:
                        await work
                    except NotNow:
                        continue
                    except (CannotFetch, CannotPush) as problem:
                        wrong.append(str(problem))
                proxy.cuts = proxy.cut
                await push.push(commit, "mcc/x")
                pushed += bare.git("rev-parse", "mcc/x") == commit
        await proxy.stop()
    assert wrong == [] and proxy.cut >= CUTS and pushed == 2 * CUTS
