"""The checkouts of sessions: each session works in one of its own, on a branch of its own, order after order."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from drone.agent.threads import OwnThreads
from drone.checkouts.mirror import CannotFetch, Mirrors
from drone.sandbox.paths import Workspace
from drone.sandbox.private import Private
from mcc.configuration.places import make_private_directory, private_opener
from mcc.configuration.workspaces import GitAddress, Workspaces, git_address
from mcc.contracts.shape import Closed, to_json

SESSIONS = "sessions"
BRANCH = "mcc/"
PAGE = "checkout.json"
_DIGITS = 8
_NOT_ALLOWED = "{} is no git address that orders may name on this drone: its mcc.toml has no such [[workspaces.git]]."


class Checkout(Closed):
    """What was checked out for a session: `commit` of `ref` (None: of the branch that the other side begins with)."""

    address: str
    session_id: str
    ref: str | None = None
    commit: str
    branch: str


@dataclass(frozen=True, slots=True)
class Checkouts:
    """Those of this machine, in `directory`. `key` answers the secret of this name."""

    mirrors: Mirrors
    allowed: Workspaces
    directory: Path
    key: Callable[[str], str | None]
    private: Private
    busy: dict[str, asyncio.Lock] = field(default_factory=dict)
    """Of each mirror: fetched by one at a time."""

    def name(self, address: GitAddress, session_id: str) -> str:
        """What stands for the checkout of a session wherever checkouts are told apart; another on another machine."""
        host = f"{os.uname().nodename} {self.directory}"
        return hashlib.sha256(f"{host}\0{session_id}\0{address.text}".encode()).hexdigest()[:40]

    def has(self, name: str) -> bool:
        """Whether this machine has the checkout of this name. Blocks."""
        return (self.directory / SESSIONS / name / PAGE).exists()

    async def opened(self, workspace: str, ref: str | None, session_id: str, threads: OwnThreads) -> Workspace:
        """The checkout of this session, made if it is not there. Raises `CannotFetch`, `PathError`, OSError."""
        address = git_address(workspace)
        place = self.directory / SESSIONS / self.name(address, session_id)
        there = await threads.tool(_page, place)
        if there is None:
            there = await self._made(address, ref, session_id, place, threads)
        if ref is not None and there.ref != ref:
            held = there.ref or "where the other side begins"
            raise CannotFetch(f"This session works on {held} of {address.text}; name {ref} in a session of its own.")
        return await threads.tool(self._workspace, place / address.name)

    def _workspace(self, root: Path) -> Workspace:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return Workspace(root, fd=fd, private=self.private)

    async def _made(
        self, address: GitAddress, ref: str | None, session_id: str, place: Path, threads: OwnThreads
    ) -> Checkout:
        remote = self.allowed.remote(address)
        if remote is None:
            raise CannotFetch(_NOT_ALLOWED.format(address.text))
        token = None if remote.token_env is None else self.key(remote.token_env)
        if remote.token_env is not None and not token:
            raise CannotFetch(f"{remote.token_env}, which has the token for {address.text}, is not set on this drone.")
        mirror = Workspace(await threads.tool(self.mirrors.place, address))
        async with self.busy.setdefault(str(mirror.root), asyncio.Lock()):
            begins = await self.mirrors.fetch(address, token, mirror)
            commit = await self._commit(mirror, address, ref or begins)
            branch = f"{BRANCH}{session_id[:_DIGITS]}"
            root = await threads.tool(_empty, place, address.name)
            await self.mirrors.check_out(mirror, root, address.text, commit, branch)
        made = Checkout(address=address.text, session_id=session_id, ref=ref, commit=commit, branch=branch)
        await threads.tool(_complete, place, made)
        return made

    async def _commit(self, mirror: Workspace, address: GitAddress, ref: str | None) -> str:
        if ref is None:
            raise CannotFetch(f"{address.text} does not say which branch it begins with: name one as ref.")
        for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            try:
                return (await self.mirrors.done(mirror, *asked)).strip()
            except CannotFetch:
                continue
        raise CannotFetch(f"{address.text} has no branch, tag or commit {ref!r}.")


def _page(place: Path) -> Checkout | None:
    try:
        return Checkout.model_validate_json((place / PAGE).read_bytes())
    except FileNotFoundError:
        return None


def _empty(place: Path, name: str) -> Workspace:
    """What was left half made goes. Blocks. Raises OSError."""
    if place.exists():
        shutil.rmtree(place)
    make_private_directory(place / name)
    return Workspace(place / name)


def _complete(place: Path, made: Checkout) -> None:
    draft = place / "checkout.new"
    with open(draft, "wb", opener=private_opener) as page:
        page.write(to_json(made))
        page.flush()
        os.fsync(page.fileno())
    draft.replace(place / PAGE)
