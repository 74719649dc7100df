"""A session's branch on its way to its git address: compared with what is there, and pushed without force."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from drone.checkouts.mirror import CannotFetch, Mirrors, NotNow, is_broken
from drone.checkouts.sessions import Checkouts
from drone.sandbox.child import Bounds
from drone.sandbox.places.paths import Workspace
from drone.threads import OwnThreads
from drone.tools.git.program import PATCH
from mcc.configuration.workspaces import GitAddress

PUSH_SECONDS, MOST_PUSHED_BYTES = 300.0, 200_000_000
"""The longest push, and the most bytes of objects that one brings."""

MOST_COMMITS, MOST_FILES = 100, 10_000
"""How many commits and files of a branch are told."""

DIFF_BYTES = 2_000_000
_LISTED = Bounds(60.0, 4_000_000, 0)
_SHOWN = Bounds(60.0, DIFF_BYTES, 0)

_BEHIND = ("non-fast-forward", "fetch first", "[rejected]")
"""Texts in git's messages where the remote's branch has commits that were not known when the push began."""


class CannotPush(Exception):
    """The branch cannot be brought to its address, now or later; the message is a sentence that says why."""


@dataclass(frozen=True, slots=True)
class PushedFile:
    """A file that differs between the base and the branch; no lines are counted in a binary one."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class BranchLook:
    """What a commit would bring to its address. `default`: the branch that the address begins with. `ahead`: commits
    that the base lacks. `tip`: where the branch stands there, None = nowhere; `others`: commits on it that this one
    does not have. `subjects`: of the first commits, newest first."""

    base: str
    base_commit: str
    default: str | None
    ahead: int
    tip: str | None
    others: int
    subjects: Sequence[str] = ()
    files: Sequence[PushedFile] = ()
    diff: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class BranchPush:
    """Brings commits of a checkout to its git address. `token` is seen by the git of the mirror alone, which reads the
    checkout's objects and nothing else of it. A push takes at most `seconds`, and brings at most `most_bytes`."""

    checkouts: Checkouts
    address: GitAddress
    checkout: Workspace
    threads: OwnThreads
    token: str | None = field(default=None, repr=False)
    seconds: float = PUSH_SECONDS
    most_bytes: int = MOST_PUSHED_BYTES

    async def look(self, commit: str, base: str | None, branch: str, *, begun_with: str | None = None) -> BranchLook:
        """Fetch, and compare the commit with its base and with what is on the branch. `base` None: `begun_with` where
        that is a branch, else the default branch.

        Raises `CannotPush`, `NotNow`, `PathError`, OSError.
        """
        async with self._mirror() as mirror:
            default = await self._mirrors.fetch(self.address, self.token, mirror)
            name, base_commit = base, None
            if name is None and begun_with is not None:
                name, base_commit = begun_with, await self._tip(mirror, begun_with)
            if base is None and base_commit is None:
                name = default
            if name is None:
                raise CannotPush(f"{self.address.text} does not say which branch it begins with: name one as base.")
            base_commit = base_commit or await self._tip(mirror, name)
            if base_commit is None:
                raise CannotPush(f"{self.address.text} has no branch {name!r} to which this could be brought.")
            ahead = await self._count(mirror, commit, base_commit)
            subjects, files, diff = await self._told(mirror, base_commit, commit) if ahead else ((), (), "")
            tip = await self._tip(mirror, branch)
            others = 0 if tip is None else await self._count(mirror, tip, commit)
            return BranchLook(name, base_commit, default, ahead, tip, others, subjects, files, diff)

    async def push(self, commit: str, branch: str) -> None:
        """Push the commit to the branch, which is made where it is not there. Pushing again changes nothing.

        Raises `CannotPush`, `NotNow`, `PathError`, OSError.
        """
        async with self._mirror() as mirror:
            sized = ("rev-list", "--objects", "--disk-usage", commit, "--not", "--all")
            size = int((await self._mirrors.git(mirror, *sized, beside=self.checkout)).strip() or 0)
            if size > self.most_bytes:
                raise CannotPush(
                    f"What would be pushed has {size:,} bytes, and at most {self.most_bytes:,} are: leave large "
                    "files out of the commits."
                )
            quietly = ("--quiet", "--no-verify", "--no-follow-tags", "--no-recurse-submodules")
            target = f"{commit}:refs/heads/{branch}"
            arguments = ("-c", "push.gpgSign=false", "push", *quietly, "--end-of-options", self.address.text, target)
            try:
                await self._mirrors.remote_git(
                    self.address, self.token, mirror, *arguments, beside=self.checkout, bounds=Bounds(self.seconds)
                )
            except NotNow:
                raise
            except CannotFetch as problem:
                if any(words in str(problem) for words in _BEHIND) and "remote rejected" not in str(problem):
                    raise NotNow(f"Somebody pushed to {branch} at the same time.") from problem
                raise

    @property
    def _mirrors(self) -> Mirrors:
        return self.checkouts.mirrors

    @asynccontextmanager
    async def _mirror(self) -> AsyncIterator[Workspace]:
        """The mirror, with its lock held. Raises `CannotPush`, `NotNow`, `PathError`, OSError."""
        if self.token is not None and any(mark in self.token for mark in "\r\n\0"):
            raise CannotPush(f"The token for {self.address.text} has several lines; give it as it is.")
        name = self._mirrors.name(self.address)
        async with self.checkouts.held(name, self.threads):
            try:
                yield await self.threads.tool(self._mirrors.opened, name)
            except NotNow:
                raise
            except CannotFetch as problem:
                if is_broken(problem):
                    await self.threads.tool(self._mirrors.drop, name)
                    raise NotNow(f"{problem} It is fetched anew.") from problem
                raise CannotPush(str(problem)) from problem

    async def _tip(self, mirror: Workspace, branch: str) -> str | None:
        """The commit of a branch at the last fetch; None where there is no such branch."""
        arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"refs/heads/{branch}^{{commit}}")
        try:
            return (await self._mirrors.git(mirror, *arguments)).strip()
        except NotNow:
            raise
        except CannotFetch:
            return None

    async def _count(self, mirror: Workspace, commit: str, without: str) -> int:
        """How many commits the first one has that the second lacks."""
        counted = ("rev-list", "--count", commit, f"^{without}")
        return int(await self._mirrors.git(mirror, *counted, beside=self.checkout))

    async def _told(
        self, mirror: Workspace, base_commit: str, commit: str
    ) -> tuple[Sequence[str], Sequence[PushedFile], str]:
        """Subjects, files and diff of what the commit has and its base lacks."""
        git, beside = self._mirrors.git, self.checkout
        logged = ("log", f"--max-count={MOST_COMMITS}", "--format=%s", commit, f"^{base_commit}")
        subjects = (await git(mirror, *logged, beside=beside, bounds=_LISTED)).splitlines()
        between = f"{base_commit}...{commit}"
        try:
            await git(mirror, "merge-base", base_commit, commit, beside=beside)
        except NotNow:
            raise
        except CannotFetch:
            between = f"{base_commit}..{commit}"
        counted = ("diff", "--no-ext-diff", "--no-textconv", "--no-renames", "--numstat", "-z", between)
        numbers = await git(mirror, *counted, beside=beside, bounds=_LISTED)
        diff = await git(mirror, "diff", *PATCH, "--full-index", between, beside=beside, bounds=_SHOWN)
        return subjects, tuple(_files_in(numbers)), diff


def _files_in(numbers: str) -> Sequence[PushedFile]:
    """The files in the output of `git diff --numstat -z --no-renames`. Raises `CannotPush` where they are too many to
    be told: rules and people decide on all of them."""
    *lines, rest = numbers.split("\0")
    if rest or len(lines) > MOST_FILES:
        raise CannotPush(f"More than {MOST_FILES:,} files differ, which nobody can decide on: deliver in parts.")
    files = []
    for line in lines:
        added, removed, path = line.split("\t", 2)
        counts = (int(added), int(removed)) if added.isdigit() and removed.isdigit() else (None, None)
        files.append(PushedFile(path, *counts))
    return files
