"""Git addresses as workspaces: fetched from a server on loopback, checked out for a session; nobody sees the token."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from drone.agent.threads import OwnThreads
from drone.checkouts.mirror import CannotFetch, Mirrors, WithFiles
from drone.checkouts.sessions import Checkouts
from drone.egress.egress import BUNDLE, Egress
from drone.egress.plan import Plan
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.network import Network
from drone.sandbox.private import Private
from mcc.configuration.workspaces import GitRemote, Workspaces
from tests.drone.checkouts.git_server import HOST, Served, git_server
from tests.drone.tools.git_scene import Scene

TOKEN = "t0ken-that-nobody-sees"
SESSION = "0199a3c0-0000-7000-8000-000000000001"


@pytest.fixture(scope="module")
def sandbox() -> Bubblewrap:
    found = Bubblewrap.found()
    problem = "bubblewrap is not installed" if found is None else found.problem(("git", "--version"))
    if problem and "CI" not in os.environ:
        pytest.skip(problem)
    assert found is not None and problem is None
    return found


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    scene = Scene(tmp_path / "origin")
    scene.commit("first", {"a.txt": "one\n"})
    scene.git("tag", "v1")
    scene.commit("second", {"a.txt": "two\n"})
    scene.git("branch", "feature", "HEAD~1")
    scene.git("clone", "-q", "--bare", ".", str(tmp_path / "served" / "team" / "shop"))
    return scene


@dataclass
class Site:
    served: Served
    checkouts: Checkouts
    data: Path


@asynccontextmanager
async def site(
    tmp_path: Path, sandbox: Bubblewrap, *, pattern: str = "/team/*", token: str | None = None, given: str | None = None
) -> AsyncIterator[Site]:
    authority = pytest.importorskip("drone.egress.authority").Authority([HOST])
    with git_server(tmp_path / "served", authority.context(HOST), token) as served:
        whole = f"{HOST}:{served.port}"
        egress = Egress(Plan(allow=[whole], allow_private=[whole], names={HOST: ["127.0.0.1"]}), sandbox.custody)

        def opened(hosts: Sequence[str]) -> Network:
            return WithFiles(egress.of_hosts(hosts), {BUNDLE: authority.certificate})

        named = {"token_env": "TEAM_TOKEN"} if given else {}
        allowed = Workspaces(git=(GitRemote(address=f"https://{whole}{pattern}", **named),))
        mirrors = Mirrors(sandbox, tmp_path / "data" / "mirrors", opened)
        checkouts = Checkouts(mirrors, allowed, tmp_path / "data", lambda name: given, Private())
        try:
            yield Site(served, checkouts, tmp_path / "data")
        finally:
            egress.close()


async def test_an_address_is_checked_out_on_a_branch_of_the_session(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        there = Scene.there(workspace.root)
        assert workspace.root.name == "shop" and (workspace.root / "a.txt").read_text() == "two\n"
        assert there.git("symbolic-ref", "HEAD") == "refs/heads/mcc/0199a3c0"
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


async def test_a_token_goes_to_the_server_and_stands_nowhere(tmp_path: Path, sandbox: Bubblewrap, scene: Scene) -> None:
    async with site(tmp_path, sandbox, token=TOKEN, given=TOKEN) as here:
        workspace = await here.checkouts.opened(here.served.address(), "feature", SESSION, OwnThreads())
        assert (workspace.root / "a.txt").read_text() == "one\n"
        files = [path for path in here.data.rglob("*") if path.is_file()]
        assert files and not any(TOKEN.encode() in path.read_bytes() for path in files)
        config = (workspace.root / ".git" / "config").read_text()
        assert "credential" not in config and "insteadOf" not in config


@pytest.mark.parametrize("given", [None, "a-wrong-token-altogether", "of\nseveral lines"])
async def test_without_the_right_token_there_is_nothing(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene, given: str | None
) -> None:
    async with site(tmp_path, sandbox, token=TOKEN, given=given) as here:
        with pytest.raises(CannotFetch) as refused:
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert given is None or given not in str(refused.value)


async def test_an_address_that_is_not_allowed_is_not_asked(tmp_path: Path, sandbox: Bubblewrap, scene: Scene) -> None:
    async with site(tmp_path, sandbox, pattern="/other/*") as here:
        with pytest.raises(CannotFetch, match="no such"):
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert here.served.asked == []


async def test_row_29_a_server_that_sends_elsewhere_is_not_followed(
    tmp_path: Path, sandbox: Bubblewrap, scene: Scene
) -> None:
    async with site(tmp_path, sandbox) as here:
        here.served.redirect = f"https://169.254.169.254:{here.served.port}"
        with pytest.raises(CannotFetch):
            await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())


async def test_what_was_left_half_made_is_made_anew(tmp_path: Path, sandbox: Bubblewrap, scene: Scene) -> None:
    async with site(tmp_path, sandbox) as here:
        workspace = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        (workspace.root.parent / "checkout.json").unlink()
        (workspace.root / "a.txt").write_text("torn")
        again = await here.checkouts.opened(here.served.address(), None, SESSION, OwnThreads())
        assert (again.root / "a.txt").read_text() == "two\n"
