"""The checkouts of sessions: each session works in one of its own, on a branch of its own, order after order."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drone.agent.threads import OwnThreads
from drone.checkouts.mirror import CannotFetch, Mirrors, NotNow, is_broken
from drone.sandbox.paths import Workspace
from drone.sandbox.private import Private
from drone.sandbox.workspace_writer import delete_tree
from mcc.configuration.places import make_private_directory, private_opener
from mcc.configuration.workspaces import GitAddress, Workspaces, git_address
from mcc.contracts.shape import Closed, to_json

SESSIONS = "sessions"
BRANCH = "mcc/"
PAGE = "checkout.json"
_DIGITS = 8
PAUSES = (1.0, 4.0, 15.0)
"""Seconds between the tries to fetch what may be there in a moment."""
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
    pauses: tuple[float, ...] = PAUSES

    def name(self, address: GitAddress, session_id: str) -> str:
        """What stands for the checkout of a session wherever checkouts are told apart; another on another machine."""
        host = f"{os.uname().nodename} {self.directory}"
        return hashlib.sha256(f"{host}\0{session_id}\0{address.text}".encode()).hexdigest()[:40]

    def has(self, name: str) -> bool:
        """Whether the checkout of this name is, or was, on this machine. Blocks."""
        return (self.directory / SESSIONS / name).is_dir()

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
        return await threads.tool(self.workspace, place / address.name)

    def workspace(self, root: Path) -> Workspace:
        """Blocks. Raises OSError, `PathError`."""
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return Workspace(root, fd=fd, private=self.private)

    async def _made(
        self, address: GitAddress, ref: str | None, session_id: str, place: Path, threads: OwnThreads
    ) -> Checkout:
        """Tried again after each of the pauses, while it may work."""
        for pause in self.pauses:
            try:
                return await self._tried(address, ref, session_id, place, threads)
            except NotNow:
                await asyncio.sleep(pause)
        return await self._tried(address, ref, session_id, place, threads)

    async def _tried(
        self, address: GitAddress, ref: str | None, session_id: str, place: Path, threads: OwnThreads
    ) -> Checkout:
        token, name = self._token(address), self.mirrors.name(address)
        async with self.busy.setdefault(name, asyncio.Lock()):
            lock = await threads.tool(self.mirrors.hold, name)
            try:
                mirror = await threads.tool(self.mirrors.opened, name)
                begins = await self.mirrors.fetch(address, token, mirror)
                commit = await self._commit(mirror, address, ref or begins)
                branch = f"{BRANCH}{session_id[:_DIGITS]}"
                root = await threads.tool(_empty, place, address.name)
                await self.mirrors.check_out(mirror, root, address.text, commit, branch)
            except CannotFetch as problem:
                if is_broken(problem):
                    await threads.tool(self.mirrors.drop, name)
                    raise NotNow(f"{problem} It is fetched anew.") from problem
                raise
            finally:
                os.close(lock)
        made = Checkout(address=address.text, session_id=session_id, ref=ref, commit=commit, branch=branch)
        await threads.tool(_complete, place, made)
        return made

    async def pushed(self, address: str, commits: Sequence[str], threads: OwnThreads) -> bool:
        """Whether the other side has these commits now. Raises `CannotFetch`, `PathError`, OSError."""
        there = git_address(address)
        token, name = self._token(there), self.mirrors.name(there)
        async with self.busy.setdefault(name, asyncio.Lock()):
            lock = await threads.tool(self.mirrors.hold, name)
            try:
                mirror = await threads.tool(self.mirrors.opened, name)
                await self.mirrors.fetch(there, token, mirror)
                return await self.mirrors.has_all(mirror, commits)
            finally:
                os.close(lock)

    def _token(self, address: GitAddress) -> str | None:
        """Raises `CannotFetch`."""
        remote = self.allowed.remote(address)
        if remote is None:
            raise CannotFetch(_NOT_ALLOWED.format(address.text))
        token = None if remote.token_env is None else self.key(remote.token_env)
        if remote.token_env is not None and not token:
            raise CannotFetch(f"{remote.token_env}, which has the token for {address.text}, is not set on this drone.")
        return token

    async def _commit(self, mirror: Workspace, address: GitAddress, ref: str | None) -> str:
        if ref is None:
            raise CannotFetch(f"{address.text} does not say which branch it begins with: name one as ref.")
        for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            try:
                return (await self.mirrors.done(mirror, *asked)).strip()
            except NotNow:
                raise
            except CannotFetch:
                continue
        raise CannotFetch(f"{address.text} has no branch, tag or commit {ref!r}.")


def _page(place: Path) -> Checkout | None:
    """None where there is none. What is there is used from now on."""
    try:
        os.utime(place / PAGE)
        return Checkout.model_validate_json((place / PAGE).read_bytes())
    except FileNotFoundError:
        return None


def _empty(place: Path, name: str) -> Workspace:
    """What was left half made goes. Blocks. Raises OSError."""
    if place.exists():
        delete_tree(place)
    make_private_directory(place / name)
    return Workspace(place / name)


def _complete(place: Path, made: Checkout) -> None:
    draft = place / "checkout.new"
    with open(draft, "wb", opener=private_opener) as page:
        page.write(to_json(made))
        page.flush()
        os.fsync(page.fileno())
    draft.replace(place / PAGE)
