"""What worktrees ask of git: a commit of what a workspace holds, files for a worktree, a merge of both."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from drone.sandbox.guard import FIXED
from drone.sandbox.host_lock import MARKER
from drone.sandbox.paths import PathError, PathMissing, Workspace
from drone.sandbox.protected import Protected
from drone.sandbox.worktree import Worktree, common_of
from drone.tools.git_program import Checkout, names_in
from drone.tools.git_writing import IDENTITY, NAMES, excluded_paths, pathspecs, untracked
from drone.tools.tool import ToolFailed
from drone.worktrees.bringing import Change, changes_in

LARGEST_FILE = 50_000_000
"""Of a file that git does not track, for a worktree to begin with it."""

MOST_IGNORED, IGNORED_BYTES = 2_000, 50_000_000
"""What of the files that git ignores is saved before a worktree is deleted; with more it stays."""

_PATHS_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class Merge:
    """`changes` lead from what the workspace holds, the commit `ours`, to the merged `tree`, but for `conflicts`."""

    ours: str
    tree: str
    changes: tuple[Change, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """What a worktree holds: the commit `tip` of its ref, of this `tree`. `lost`: what is in no commit, so that the
    directory is all that has it."""

    tip: str
    tree: str
    lost: tuple[str, ...] = ()


class Repository:
    """git in one workspace, which may itself be a worktree. `scratch` is a directory for files of git's own;
    `protected`: what is in no snapshot unless git tracks it.

    Raises `ToolFailed`, `PathError`, OSError.
    """

    def __init__(self, checkout: Checkout, common: Workspace, scratch: Workspace, protected: Protected) -> None:
        self._checkout = checkout.with_environment(**IDENTITY).writable(common, scratch=scratch)
        self._scratch = scratch
        self._protected = protected
        self.workspace = checkout.workspace
        self.common = common

    @classmethod
    async def opened(cls, checkout: Checkout, scratch: Workspace, protected: Protected = FIXED) -> Self:
        checkout.needs_files()
        common = await checkout.threads.tool(common_of, checkout.workspace, checkout.repository.directory)
        return cls(checkout, common, scratch, protected)

    async def commit_of(self, name: str) -> str | None:
        """A ref of ours as a commit; None where there is none."""
        found = await self._checkout.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return _word(found.stdout.head) or None

    async def tree_of(self, commit: str) -> str:
        return await self._told("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    async def point(self, ref: str, commit: str) -> None:
        await self._checkout.output("update-ref", "--no-deref", ref, commit)

    async def drop(self, ref: str) -> None:
        await self._checkout.output("update-ref", "--no-deref", "-d", ref)

    async def snapshot(self, index: str, parents: Sequence[str], message: str) -> str:
        """A commit of what the workspace holds now, but for what git ignores, what is protected, and large files that
        git does not track. The repository's own index stays as it is."""
        await self._checkout.threads.tool(self._copy_index, index)
        here = self._checkout.with_environment(GIT_INDEX_FILE=f"/scratch/{index}")
        others = await untracked(here)
        left = await here.threads.tool(lambda: list(self._left_out(others)))
        out = await excluded_paths(here, others)
        await here.with_pathspec_magic().output("add", "--all", *pathspecs(["."], (*out, *left)))
        return await self.committed(await _written(here), parents, message)

    async def committed(self, tree: str, parents: Iterable[str], message: str) -> str:
        above = (word for parent in parents for word in ("-p", parent))
        return await self._told("commit-tree", tree, *above, "-m", message)

    async def merged(self, base: str, tip: str, message: str) -> Merge:
        """What the workspace holds and what `tip` made of `base`, as one; nothing is changed by it."""
        ours = await self.snapshot("ours", [base], message)
        asked = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--end-of-options", ours, tip)
        done = await self._checkout.run(*asked, bounds=NAMES)
        if done.status not in (0, 1) or done.stdout.left_out or done.timed_out:
            raise ToolFailed(f"git cannot merge: {_word(done.stderr.head) or f'exit status {done.status}'}")
        tree, *conflicts = done.stdout.head.decode("utf-8", "surrogateescape").split("\0")[:-1]
        raw = ("diff-tree", "-r", "-z", "--no-renames", "--end-of-options", ours, tree)
        changes = changes_in((await self._checkout.output(*raw, bounds=NAMES)).head)
        return Merge(ours, tree, tuple(changes), tuple(dict.fromkeys(filter(None, conflicts))))

    async def stage(self, merge: Merge, staged: Workspace, changes: Iterable[Change]) -> None:
        """Write the new files of these changes into an empty directory."""
        there = self._checkout.writable(self.common, scratch=self._scratch, staged=staged)
        here = there.with_environment(GIT_INDEX_FILE="/scratch/merged")
        await here.output("read-tree", merge.tree)
        for paths in _in_pieces(one.path for one in changes if one.status != "D" and not one.is_module):
            await here.output("checkout-index", "--force", "--prefix=/staged/", "--", *paths)

    def _left_out(self, others: Iterable[str]) -> Iterator[str]:
        """Untracked files that no worktree begins with. Blocks."""
        for path in others:
            if path.endswith("/"):
                continue
            if self._protected.refuses(path) or self._size(path) > LARGEST_FILE:
                yield path

    def _size(self, path: str) -> int:
        try:
            with self.workspace.open_file(path, symlinks=False) as file:
                return file.seek(0, 2)
        except PathError:
            return 0

    def _copy_index(self, name: str) -> None:
        """git's index for a start: what has not changed since it was written need not be read again. Blocks."""
        own = self.workspace.git if isinstance(self.workspace, Worktree) else self.common
        target = self._scratch.root / name
        target.unlink(missing_ok=True)
        try:
            with own.open_file("index", symlinks=False) as index:
                target.write_bytes(index.read())
        except PathMissing:
            return

    async def _told(self, *arguments: str) -> str:
        return _word((await self._checkout.output(*arguments)).head)


class OwnTree(Repository):
    """git in a worktree: it is filled, and saved."""

    async def fill(self, commit: str) -> None:
        """Its files, as they are in this commit; the directory is empty."""
        there = self._checkout.writable(self.common, tree=self.workspace.again()).with_environment(
            GIT_WORK_TREE="/tree"
        )
        await there.output("read-tree", "--reset", "-u", commit)

    async def save(self, ref: str, base: str, message: str) -> Saved:
        """Commit on its ref whatever is not yet: new files too, but for what git ignores."""
        others = await untracked(self._checkout)
        nested = [path for path in others if path.endswith("/")]
        await self._checkout.with_pathspec_magic().output(
            "add", "--all", *pathspecs(["."], await excluded_paths(self._checkout, others))
        )
        tree, tip = await _written(self._checkout), await self.commit_of(ref)
        if tip is None:  # it was empty, and what lies here is looked at once more
            tip = base
            await self.point(ref, base)
        if tree != await self.tree_of(tip):
            tip = await self.committed(tree, [tip], message)
            await self.point(ref, tip)
        return Saved(tip, tree, tuple(nested))

    async def save_ignored(self, ref: str, saved: Saved, message: str) -> tuple[list[str], bool]:
        """Commit on a ref beside its own what git ignores. Answers the names, and whether all of it is saved."""
        asked = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
        listed = await self._checkout.output(*asked, bounds=NAMES)
        names = [name for name in names_in(listed) if not name.startswith(f"{MARKER}/")]
        size = await self._checkout.threads.tool(self._sizes, names)
        plain = [name for name in names if not name.endswith("/")]
        if listed.left_out or len(plain) < len(names) or len(names) > MOST_IGNORED or size > IGNORED_BYTES:
            return names, False
        if names:
            await self._checkout.threads.tool(self._copy_index, "ignored")
            here = self._checkout.with_environment(GIT_INDEX_FILE="/scratch/ignored")
            for paths in _in_pieces(names):
                await here.output("add", "--force", "--", *paths)
            await self.point(f"{ref}.ignored", await self.committed(await _written(here), [saved.tip], message))
        return names, True

    def _sizes(self, names: Iterable[str]) -> int:
        return sum(map(self._size, names))


async def _written(checkout: Checkout) -> str:
    return _word((await checkout.output("write-tree")).head)


def _word(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()


def _in_pieces(paths: Iterable[str]) -> Iterator[list[str]]:
    """The paths, as many at a time as a command takes."""
    piece: list[str] = []
    size = 0
    for path in paths:
        piece.append(path)
        size += len(path) + 1
        if size > _PATHS_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
