"""Checkouts that were not used for long, or take too much room, are deleted; what alone has somebody's work stays."""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from drone.agent.threads import OwnThreads
from drone.checkouts.mirror import LOCK, CannotFetch
from drone.checkouts.sessions import PAGE, SESSIONS, Checkout, Checkouts
from drone.sandbox.paths import PathError
from drone.sandbox.removing import remove
from drone.tools.display_text import display_path
from drone.tools.git_program import Git, names_in
from drone.tools.tool import ToolFailed
from mcc.configuration.places import private_opener
from mcc.configuration.workspaces import KEPT_CHECKOUTS, KeptCheckout, KeptCheckouts, git_address
from mcc.contracts.shape import to_json

MOST_COMMITS = 100
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A checkout in `place`, last used at `used` (seconds since the epoch); None where it was half made or deleted."""

    place: Path
    page: Checkout | None
    used: float
    size: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """`before`: what was not used since then goes, seconds since the epoch; also what was used least lately, while all
    take more than `most_bytes`. `free` tells whether no order of this session goes on; `alone` is held while a checkout
    of this name is deleted, and yields False where somebody is at work in it."""

    checkouts: Checkouts
    git: Git
    before: float
    most_bytes: float
    free: Callable[[str], Awaitable[bool]]
    alone: Callable[[str], AbstractAsyncContextManager[bool]]

    async def run(self, threads: OwnThreads) -> KeptCheckouts:
        """What was to be deleted and stays. Raises OSError, `StoreUnavailable`."""
        found = sorted(await threads.tool(lambda: list(self._found())), key=lambda one: one.used)
        mirrors = await threads.tool(lambda: _size(self.checkouts.mirrors.directory))
        total, kept, left = mirrors + sum(one.size for one in found), list[KeptCheckout](), list[Found]()
        for one in found:
            if one.used >= self.before and total <= self.most_bytes:
                left.append(one)
                continue
            why = await self._deleted(one, threads)
            if why is None:
                total -= one.size
                continue
            left.append(one)
            if why and one.page is not None:
                kept.append(KeptCheckout(place=str(one.place), address=one.page.address, why=why, bytes_=one.size))
        await threads.tool(self._drop_mirrors, left, total)
        told = KeptCheckouts(kept=tuple(kept))
        await threads.tool(self._tell, told)
        return told

    def _found(self) -> Iterator[Found]:
        """Blocks. Raises OSError."""
        sessions = self.checkouts.directory / SESSIONS
        for name in sorted(os.listdir(sessions)) if sessions.is_dir() else ():
            place = sessions / name
            try:
                page = Checkout.model_validate_json((place / PAGE).read_bytes())
                yield Found(place, page, (place / PAGE).stat().st_mtime, _size(place))
            except (FileNotFoundError, ValueError):
                yield Found(place, None, place.stat().st_mtime, _size(place))

    async def _deleted(self, one: Found, threads: OwnThreads) -> str | None:
        """None: it is gone; else why it stays, "" where it is needed."""
        async with self.alone(one.place.name) as alone:
            if not alone or (one.page is not None and not await self.free(one.page.session_id)):
                return ""
            if one.page is not None and (why := await self._only_here(one, one.page, threads)):
                return why
            await threads.tool(_empty, one)
        return None

    async def _only_here(self, one: Found, page: Checkout, threads: OwnThreads) -> str:
        """What of it nobody else has; "" when that is nothing."""
        try:
            workspace = await threads.tool(self.checkouts.workspace, one.place / git_address(page.address).name)
            git = await self.git.opened(workspace, threads)
            status = await git.output("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
            if changed := [name[3:] for name in names_in(status)]:
                more = f" and {len(changed) - _NAMED:,} more" if len(changed) > _NAMED else ""
                return f"not committed: {', '.join(map(display_path, changed[:_NAMED]))}{more}"
            asked = ("rev-list", f"--max-count={MOST_COMMITS + 1}", "--all", "--reflog", "--not", "--remotes=origin")
            own = (await git.output(*asked)).head.decode().split()
            if len(own) > MOST_COMMITS or (own and not await self.checkouts.pushed(page.address, own, threads)):
                return f"{len(own)} commit{'s' if len(own) > 1 else ''} that {page.address} has not"
        except (ToolFailed, PathError, CannotFetch, OSError) as problem:
            return f"what is in it cannot be told: {problem}"
        return ""

    def _drop_mirrors(self, left: list[Found], total: float) -> None:
        """Those of no checkout, which were not fetched for long, or for which there is no room. Blocks."""
        mirrors = self.checkouts.mirrors
        used = {mirrors.name(git_address(one.page.address)) for one in left if one.page is not None}
        for lock in mirrors.directory.glob(f"*{LOCK}") if mirrors.directory.is_dir() else ():
            name = lock.name.removesuffix(LOCK)
            if name in used or (lock.stat().st_mtime >= self.before and total <= self.most_bytes):
                continue
            fetched = lock.stat()
            try:
                held = mirrors.hold(name)
            except CannotFetch:
                continue
            try:
                os.utime(lock, (fetched.st_atime, fetched.st_mtime))
                mirrors.drop(name)
            finally:
                os.close(held)

    def _tell(self, told: KeptCheckouts) -> None:
        place = self.checkouts.directory / KEPT_CHECKOUTS.name
        if not told.kept:
            place.unlink(missing_ok=True)
            return
        draft = place.with_suffix(".new")
        with open(draft, "wb", opener=private_opener) as file:
            file.write(to_json(told))
        draft.replace(place)


def _empty(one: Found) -> None:
    """The directory stays, empty, until it is old as well: it says that this machine is where the session works."""
    if one.page is None and not os.listdir(one.place):
        one.place.rmdir()
        return
    gone = one.place.with_name(f"{one.place.name}.gone")
    remove(gone)
    one.place.rename(gone)
    if not one.place.name.endswith(".gone"):
        one.place.mkdir(mode=0o700)
    remove(gone)
    remove(gone.with_name(f"{gone.name}.gone"))


def _size(directory: Path) -> int:
    """Bytes of the files in it, as they are on disk; of what cannot be looked at none. Blocks."""
    total = 0
    for above, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(above, name)).st_blocks * 512
            except OSError:
                continue
    return total
