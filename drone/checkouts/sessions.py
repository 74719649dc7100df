"""The checkouts of sessions: each session has a checkout and a branch of its own, which all its orders use."""

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from drone.checkouts.mirror import CannotFetch, Mirrors, NotNow, is_broken
from drone.sandbox.places.paths import Workspace
from drone.sandbox.places.private import Private
from drone.sandbox.places.workspace_writer import delete_tree
from drone.threads import OwnThreads
from mcc.configuration.places import make_private_directory, private_opener
from mcc.configuration.workspaces import GitAddress, WorkspaceSettings, git_address
from mcc.contracts.shape import Closed, to_json

SESSIONS = "sessions"
BRANCH = "mcc/"
PAGE = "checkout.json"
DIGITS = 8
PAUSES = (1.0, 4.0, 15.0)
"""Seconds between tries, when a fetch fails for a reason that may be temporary."""
LOCK_SECONDS, LOCK_LOOK_SECONDS = 60.0, 0.1
_NOT_ALLOWED = "{} is no git address that orders may name on this drone: its mcc.toml has no such [[workspaces.git]]."


def session_digits(session_id: str) -> str:
    """What tells the branches of sessions apart: its last digits, which are random. Its first ones are the time, and
    sessions of one minute share them."""
    return session_id[-DIGITS:]


class Checkout(Closed):
    """The checkout of a session: `commit` of `ref` (None = the remote's default branch), on the session's `branch`."""

    address: str
    session_id: str
    ref: str | None = None
    commit: str
    branch: str


@dataclass(frozen=True, slots=True)
class Checkouts:
    """The checkouts on this machine, in `directory`. `key` answers the secret in the environment variable of this name;
    `allowed` are the git addresses that orders may use."""

    mirrors: Mirrors
    allowed: WorkspaceSettings
    directory: Path
    key: Callable[[str], str | None]
    private: Private
    busy: dict[str, asyncio.Lock] = field(default_factory=dict)
    """A lock for each mirror by its name: one task at a time may fetch."""
    pauses: tuple[float, ...] = PAUSES
    lock_seconds: float = LOCK_SECONDS
    """For so long another drone of this machine is waited for."""

    def name(self, address: GitAddress, session_id: str) -> str:
        """The name that identifies the checkout of a session: a digest that includes this machine's host name, so that
        every machine has another one."""
        host = f"{os.uname().nodename} {self.directory}"
        return hashlib.sha256(f"{host}\0{session_id}\0{address.text}".encode()).hexdigest()[:40]

    def has(self, name: str) -> bool:
        """Whether the checkout of this name is or was on this machine. Blocks."""
        return (self.directory / SESSIONS / name).is_dir()

    async def opened(self, workspace: str, ref: str | None, session_id: str, threads: OwnThreads) -> Workspace:
        """The checkout of this session, made if it does not exist. Raises `CannotFetch`, `PathError`, OSError."""
        address = git_address(workspace)
        place = self.directory / SESSIONS / self.name(address, session_id)
        page = await threads.tool(_read_page, place)
        if page is None:
            page = await self._make(address, ref, session_id, place, threads)
        if ref is not None and page.ref != ref:
            held = page.ref or "the default branch"
            raise CannotFetch(f"This session works on {held} of {address.text}; name {ref} in a session of its own.")
        return await threads.tool(self.workspace, place / address.name)

    async def page(self, workspace: str, session_id: str, threads: OwnThreads) -> Checkout | None:
        """What the checkout of this session holds; None where there is none. Raises OSError."""
        address = git_address(workspace)
        return await threads.tool(_read_page, self.directory / SESSIONS / self.name(address, session_id))

    def workspace(self, root: Path) -> Workspace:
        """Open the directory of a checkout. Blocks. Raises OSError, `PathError`."""
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return Workspace(root, fd=fd, private=self.private)

    async def _make(
        self, address: GitAddress, ref: str | None, session_id: str, place: Path, threads: OwnThreads
    ) -> Checkout:
        """Make the checkout; temporary failures are retried after each pause."""
        for pause in self.pauses:
            try:
                return await self._try(address, ref, session_id, place, threads)
            except NotNow:
                await asyncio.sleep(pause)
        return await self._try(address, ref, session_id, place, threads)

    async def _try(
        self, address: GitAddress, ref: str | None, session_id: str, place: Path, threads: OwnThreads
    ) -> Checkout:
        token, name = self._token(address), self.mirrors.name(address)
        async with self.held(name, threads):
            try:
                mirror = await threads.tool(self.mirrors.opened, name)
                begins = await self.mirrors.fetch(address, token, mirror)
                commit = await self._commit(mirror, address, ref or begins)
                branch = f"{BRANCH}{session_digits(session_id)}"
                root = await threads.tool(_empty_directory, place, address.name)
                await self.mirrors.check_out(mirror, root, address.text, commit, branch)
            except CannotFetch as problem:
                if is_broken(problem):
                    await threads.tool(self.mirrors.drop, name)
                    raise NotNow(f"{problem} It is fetched anew.") from problem
                raise
        made = Checkout(address=address.text, session_id=session_id, ref=ref, commit=commit, branch=branch)
        await threads.tool(_write_page, place, made)
        return made

    async def pushed(self, address: str, commits: Sequence[str], threads: OwnThreads) -> bool:
        """Fetch, and tell whether the remote has these commits. Raises `CannotFetch`, `PathError`, OSError."""
        there = git_address(address)
        token, name = self._token(there), self.mirrors.name(there)
        async with self.held(name, threads):
            mirror = await threads.tool(self.mirrors.opened, name)
            await self.mirrors.fetch(there, token, mirror)
            return await self.mirrors.has_all(mirror, commits)

    @asynccontextmanager
    async def held(self, name: str, threads: OwnThreads) -> AsyncIterator[None]:
        """Inside, this task alone uses the mirror of this name, of all tasks and all drones of this machine. Raises
        `NotNow` where another drone keeps it for `lock_seconds`, OSError."""
        async with self.busy.setdefault(name, asyncio.Lock()):
            lock = _TakenLock(partial(self.mirrors.hold, name))
            try:
                await self._take(lock, threads)
                yield
            finally:
                lock.give_back()

    async def _take(self, lock: "_TakenLock", threads: OwnThreads) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + self.lock_seconds
        while True:
            try:
                return await threads.tool(lock.take)
            except NotNow:
                if loop.time() >= give_up:
                    raise
            await asyncio.sleep(LOCK_LOOK_SECONDS)

    def _token(self, address: GitAddress) -> str | None:
        """The token for an address, None where it needs none. Raises `CannotFetch` for an address that is not allowed,
        or whose token is not set."""
        remote = self.allowed.remote(address)
        if remote is None:
            raise CannotFetch(_NOT_ALLOWED.format(address.text))
        token = None if remote.token_env is None else self.key(remote.token_env)
        if remote.token_env is not None and not token:
            raise CannotFetch(
                f"{remote.token_env}, which has the token for {address.text}, is not set on this drone: set it where "
                "the drone starts."
            )
        return token

    async def _commit(self, mirror: Workspace, address: GitAddress, ref: str | None) -> str:
        """The commit of a branch, tag or commit name, tried in this order. Raises `CannotFetch`."""
        if ref is None:
            raise CannotFetch(f"{address.text} does not say which branch it begins with: name one as ref.")
        for name in (f"refs/heads/{ref}", f"refs/tags/{ref}", ref):
            arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            try:
                return (await self.mirrors.git(mirror, *arguments)).strip()
            except NotNow:
                # The mirror could not be asked, which says nothing of the name.
                raise
            except CannotFetch:
                continue
        raise CannotFetch(f"{address.text} has no branch, tag or commit {ref!r}.")


def _read_page(place: Path) -> Checkout | None:
    """The page of a checkout, None where there is none. Updates its time stamp: the checkout counts as used now."""
    try:
        os.utime(place / PAGE)
        return Checkout.model_validate_json((place / PAGE).read_bytes())
    except FileNotFoundError:
        return None


def _empty_directory(place: Path, name: str) -> Workspace:
    """An empty directory for a checkout; remains of an interrupted one are deleted. Blocks. Raises OSError."""
    if place.exists():
        delete_tree(place)
    make_private_directory(place / name)
    return Workspace(place / name)


def _write_page(place: Path, made: Checkout) -> None:
    """Write the page, which marks the checkout as complete. Blocks. Raises OSError."""
    draft = place / "checkout.new"
    with open(draft, "wb", opener=private_opener) as page:
        page.write(to_json(made))
        page.flush()
        # The page says that the checkout is whole, so it must not survive a crash as an empty file.
        os.fsync(page.fileno())
    draft.replace(place / PAGE)


class _TakenLock:
    """A lock that is taken in a thread. Given back while it is being taken, as when whoever waits for it is cancelled,
    it is let go once it is there."""

    def __init__(self, hold: Callable[[], int]) -> None:
        self._hold = hold
        self._fd: int | None = None
        self._over = False
        self._changing = threading.Lock()

    def take(self) -> None:
        """Raises what `hold` does."""
        fd = self._hold()
        with self._changing:
            if not self._over:
                self._fd = fd
                return
        os.close(fd)

    def give_back(self) -> None:
        with self._changing:
            fd, self._fd, self._over = self._fd, None, True
        if fd is not None:
            os.close(fd)
