"""The checkouts of a drone that may use repositories of a server on loopback, whose certificate it trusts."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from drone.checkouts.mirror import Mirrors, WithFiles
from drone.checkouts.sessions import Checkouts
from drone.egress.egress import BUNDLE, Egress
from drone.egress.plan import EgressPlan
from drone.sandbox.bubblewrap import Bubblewrap
from drone.sandbox.places.private import Private
from drone.sandbox.profile import Network
from mcc.configuration.workspaces import GitRemote, WorkspaceSettings
from tests.drone.checkouts.git_server import HOST, Served, git_server


@contextmanager
def checkouts_in(
    data: Path,
    sandbox: Bubblewrap,
    port: int,
    certificate: bytes,
    *,
    pattern: str = "/team/*",
    given: str | None = None,
    allow_private: bool = True,
) -> Iterator[Checkouts]:
    """The checkouts of a drone; `given` is its token for the server."""
    whole = f"{HOST}:{port}"
    private = [whole] if allow_private else []
    egress = Egress(EgressPlan(allow=[whole], allow_private=private, names={HOST: ["127.0.0.1"]}), sandbox.custody)

    def opened(hosts: Sequence[str]) -> Network:
        return WithFiles(egress.network_to(hosts), {BUNDLE: certificate})

    remote = GitRemote(address=f"https://{whole}{pattern}", token_env="TEAM_TOKEN" if given else None)
    mirrors = Mirrors(sandbox, data / "mirrors", opened)
    allowed = WorkspaceSettings(git=(remote,))
    try:
        yield Checkouts(mirrors, allowed, data, lambda name: given, Private(), pauses=(0.0, 0.0), lock_seconds=0.0)
    finally:
        egress.close()


@dataclass
class Site:
    served: Served
    checkouts: Checkouts
    data: Path

    @property
    def mirror(self) -> Path:
        (found,) = (path for path in (self.data / "mirrors").iterdir() if path.is_dir())
        return found


@asynccontextmanager
async def site(
    tmp_path: Path, sandbox: Bubblewrap, *, pattern: str = "/team/*", token: str | None = None, given: str | None = None
) -> AsyncIterator[Site]:
    authority = pytest.importorskip("drone.egress.authority").Authority([HOST])
    with git_server(tmp_path / "served", authority.context(HOST), token) as served:
        data = tmp_path / "data"
        with checkouts_in(data, sandbox, served.port, authority.certificate, pattern=pattern, given=given) as checkouts:
            yield Site(served, checkouts, data)
