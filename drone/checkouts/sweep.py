"""The sweep deletes checkouts that are old or take too much space, except those with work that exists nowhere else."""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from drone.checkouts.mirror import LOCK, CannotFetch
from drone.checkouts.sessions import PAGE, SESSIONS, Checkout, Checkouts
from drone.sandbox.places.paths import PathError
from drone.sandbox.places.workspace_writer import delete_tree
from drone.threads import OwnThreads
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolFailed
from drone.tools.git.program import Git, names_in
from mcc.configuration.places import private_opener
from mcc.configuration.workspaces import KEPT_CHECKOUTS, KeptCheckout, KeptCheckouts, git_address
from mcc.contracts.shape import to_json

MOST_COMMITS = 100
_NAMED = 3


@dataclass(frozen=True, slots=True)
class FoundCheckout:
    """A checkout in `place`, last used at `used` (seconds since the epoch), of `size` bytes. `page` is None where the
    checkout is incomplete or was deleted."""

    place: Path
    page: Checkout | None
    used: float
    size: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """One sweep. It deletes checkouts last used before `before` (seconds since the epoch) and, while all together take
    more than `most_bytes`, the least recently used ones. `free` tells whether a session has no unfinished order.
    `alone` is held while a checkout of this name is deleted, and yields False where somebody works in it."""

    checkouts: Checkouts
    git: Git
    before: float
    most_bytes: float
    free: Callable[[str], Awaitable[bool]]
    alone: Callable[[str], AbstractAsyncContextManager[bool]]

    async def run(self, threads: OwnThreads) -> KeptCheckouts:
        """Sweep; answers the checkouts that should have been deleted but hold unsaved work. Raises OSError,
        `StoreUnavailable`."""
        checkouts = sorted(await threads.tool(lambda: list(self._found())), key=lambda at: at.used)
        mirrors = await threads.tool(lambda: _size(self.checkouts.mirrors.directory))
        kept, left = list[KeptCheckout](), list[FoundCheckout]()
        total = mirrors + sum(checkout.size for checkout in checkouts)
        for checkout in checkouts:
            if checkout.used >= self.before and total <= self.most_bytes:
                left.append(checkout)
                continue
            why = await self._delete(checkout, threads)
            if why is None:
                total -= checkout.size
                continue
            left.append(checkout)
            if why and checkout.page is not None:
                place, address = str(checkout.place), checkout.page.address
                kept.append(KeptCheckout(place=place, address=address, why=why, bytes_=checkout.size))
        await threads.tool(self._drop_mirrors, left, total)
        report = KeptCheckouts(kept=tuple(kept))
        await threads.tool(self._write_report, report)
        return report

    def _found(self) -> Iterator[FoundCheckout]:
        """All checkouts on this machine. Blocks. Raises OSError."""
        sessions = self.checkouts.directory / SESSIONS
        for name in sorted(os.listdir(sessions)) if sessions.is_dir() else ():
            place = sessions / name
            try:
                page = Checkout.model_validate_json((place / PAGE).read_bytes())
                yield FoundCheckout(place, page, (place / PAGE).stat().st_mtime, _size(place))
            except (FileNotFoundError, ValueError):
                yield FoundCheckout(place, None, place.stat().st_mtime, _size(place))

    async def _delete(self, one: FoundCheckout, threads: OwnThreads) -> str | None:
        """Delete a checkout. None: it is deleted; otherwise the reason why it stays, "" where it is in use."""
        async with self.alone(one.place.name) as alone:
            if not alone or (one.page is not None and not await self.free(one.page.session_id)):
                return ""
            if one.page is not None and (why := await self._unsaved_work(one, one.page, threads)):
                return why
            await threads.tool(_empty, one)
        return None

    async def _unsaved_work(self, one: FoundCheckout, page: Checkout, threads: OwnThreads) -> str:
        """What in the checkout exists nowhere else, in words; "" where nothing does."""
        try:
            workspace = await threads.tool(self.checkouts.workspace, one.place / git_address(page.address).name)
            git = await self.git.opened(workspace, threads)
            status = await git.output("status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal")
            if changed := [name[3:] for name in names_in(status)]:
                more = f" and {len(changed) - _NAMED:,} more" if len(changed) > _NAMED else ""
                return f"not committed: {', '.join(map(display_path, changed[:_NAMED]))}{more}"
            arguments = (
                "rev-list",
                f"--max-count={MOST_COMMITS + 1}",
                "--all",
                "--reflog",
                "--not",
                "--remotes=origin",
            )
            commits = (await git.output(*arguments)).head.decode().split()
            if len(commits) > MOST_COMMITS or (
                commits and not await self.checkouts.pushed(page.address, commits, threads)
            ):
                return f"{len(commits)} commit{'s' if len(commits) > 1 else ''} that {page.address} does not have"
        except (ToolFailed, PathError, CannotFetch, OSError) as problem:
            return f"what is in it cannot be seen: {problem}"
        return ""

    def _drop_mirrors(self, left: list[FoundCheckout], total: float) -> None:
        """Delete mirrors that no checkout uses and that are old or take too much space. Blocks."""
        mirrors = self.checkouts.mirrors
        used = {mirrors.name(git_address(checkout.page.address)) for checkout in left if checkout.page is not None}
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
                # `hold` set the time of the lock file, which stands for the last fetch.
                os.utime(lock, (fetched.st_atime, fetched.st_mtime))
                mirrors.drop(name)
            finally:
                os.close(held)

    def _write_report(self, report: KeptCheckouts) -> None:
        place = self.checkouts.directory / KEPT_CHECKOUTS.name
        if not report.kept:
            place.unlink(missing_ok=True)
            return
        draft = place.with_suffix(".new")
        with open(draft, "wb", opener=private_opener) as file:
            file.write(to_json(report))
        draft.replace(place)


def _empty(one: FoundCheckout) -> None:
    """Delete the content of a checkout. Its empty directory stays until it is old as well: it shows that the session
    works on this machine."""
    if one.page is None and not os.listdir(one.place):
        one.place.rmdir()
        return
    # Renamed first: a process killed while it deletes leaves nothing that looks like a checkout.
    gone = one.place.with_name(f"{one.place.name}.gone")
    delete_tree(gone)
    one.place.rename(gone)
    if not one.place.name.endswith(".gone"):
        one.place.mkdir(mode=0o700)
    delete_tree(gone)
    delete_tree(gone.with_name(f"{gone.name}.gone"))


def _size(directory: Path) -> int:
    """Bytes that the files in a directory take on disk; unreadable files count as none. Blocks."""
    total = 0
    for above, _, files in os.walk(directory):
        for name in files:
            try:
                total += os.lstat(os.path.join(above, name)).st_blocks * 512
            except OSError:
                continue
    return total
