"""git for worktrees: committing the state of a workspace, filling a worktree with files, merging both."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from drone.sandbox.places.paths import PathError, PathMissing, Workspace
from drone.sandbox.places.workspace_key import MARKER
from drone.sandbox.places.worktree import Worktree, common_of
from drone.sandbox.protection.guard import FIXED
from drone.sandbox.protection.protected import Protected
from drone.tools.frame.tool import ToolFailed
from drone.tools.git.program import GitCheckout, names_in
from drone.tools.git.writing import IDENTITY, NAMES, excluded_paths, pathspecs, untracked
from drone.worktrees.file_changes import FileChange, parse_changes

LARGEST_FILE = 50_000_000
"""Largest untracked file in bytes that a worktree begins with."""

MOST_IGNORED, IGNORED_BYTES = 2_000, 50_000_000
"""Most files, and most bytes, of ignored files that are saved before a worktree is deleted; with more it stays."""

_PATHS_BYTES = 60_000


@dataclass(frozen=True, slots=True)
class Merge:
    """`changes` lead from the state of the workspace, the commit `ours`, to the merged `tree`, except `conflicts`."""

    ours: str
    tree: str
    changes: tuple[FileChange, ...]
    conflicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """The saved state of a worktree: the commit `tip` of its ref, with this `tree`. `lost`: paths that are in no
    commit, so that only the directory has them."""

    tip: str
    tree: str
    lost: tuple[str, ...] = ()


class WorkspaceGit:
    """git in one workspace, which may itself be a worktree. `scratch` is a directory for index files; `protected`:
    paths that no snapshot includes unless git tracks them.

    Methods raise `ToolFailed`, `PathError`, OSError.
    """

    def __init__(self, checkout: GitCheckout, common: Workspace, scratch: Workspace, protected: Protected) -> None:
        self._checkout = checkout.with_environment(**IDENTITY).writable(common, scratch=scratch)
        self._scratch = scratch
        self._protected = protected
        self.workspace = checkout.workspace
        self.common = common

    @classmethod
    async def opened(cls, checkout: GitCheckout, scratch: Workspace, protected: Protected = FIXED) -> Self:
        checkout.needs_files()
        common = await checkout.threads.tool(common_of, checkout.workspace, checkout.repository.directory)
        return cls(checkout, common, scratch, protected)

    async def commit_of(self, name: str) -> str | None:
        """The commit of a ref or other name that MCC itself chose; None where it does not exist."""
        found = await self._checkout.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return _word(found.stdout.head) or None

    async def tree_of(self, commit: str) -> str:
        return await self._word_of("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    async def point(self, ref: str, commit: str) -> None:
        await self._checkout.output("update-ref", "--no-deref", ref, commit)

    async def drop(self, ref: str) -> None:
        await self._checkout.output("update-ref", "--no-deref", "-d", ref)

    async def snapshot(self, index: str, parents: Sequence[str], message: str) -> str:
        """Commit the current state of the workspace, without ignored files, protected paths and large untracked files.
        The repository's own index does not change."""
        await self._checkout.threads.tool(self._copy_index, index)
        here = self._checkout.with_environment(GIT_INDEX_FILE=f"/scratch/{index}")
        others = await untracked(here)
        left = await here.threads.tool(lambda: list(self._left_out(others)))
        out = await excluded_paths(here, others)
        await here.with_pathspec_magic().output("add", "--all", *pathspecs(["."], (*out, *left)))
        return await self.committed(await _written(here), parents, message)

    async def committed(self, tree: str, parents: Iterable[str], message: str) -> str:
        above = (word for parent in parents for word in ("-p", parent))
        return await self._word_of("commit-tree", tree, *above, "-m", message)

    async def merged(self, base: str, tip: str, message: str) -> Merge:
        """Merge the state of the workspace with the changes from `base` to `tip`; changes no file."""
        ours = await self.snapshot("ours", [base], message)
        arguments = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", "--end-of-options", ours, tip)
        done = await self._checkout.run(*arguments, bounds=NAMES)
        if done.status not in (0, 1) or done.stdout.left_out or done.timed_out:
            raise ToolFailed(f"git cannot merge: {_word(done.stderr.head) or f'exit status {done.status}'}")
        tree, *conflicts = done.stdout.head.decode("utf-8", "surrogateescape").split("\0")[:-1]
        raw = ("diff-tree", "-r", "-z", "--no-renames", "--end-of-options", ours, tree)
        changes = parse_changes((await self._checkout.output(*raw, bounds=NAMES)).head)
        return Merge(ours, tree, tuple(changes), tuple(dict.fromkeys(filter(None, conflicts))))

    async def stage(self, merge: Merge, staged: Workspace, changes: Iterable[FileChange]) -> None:
        """Write the new files of these changes into the empty directory `staged`."""
        there = self._checkout.writable(self.common, scratch=self._scratch, staged=staged)
        here = there.with_environment(GIT_INDEX_FILE="/scratch/merged")
        await here.output("read-tree", merge.tree)
        for paths in _in_pieces(one.path for one in changes if one.status != "D" and not one.is_module):
            await here.output("checkout-index", "--force", "--prefix=/staged/", "--", *paths)

    def _left_out(self, others: Iterable[str]) -> Iterator[str]:
        """The untracked files that no worktree begins with: protected ones and large ones. Blocks."""
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
        """Copy the repository's index to start from: git then reads only files that changed since. Blocks."""
        source = self.workspace.git if isinstance(self.workspace, Worktree) else self.common
        target = self._scratch.root / name
        target.unlink(missing_ok=True)
        try:
            with source.open_file("index", symlinks=False) as index:
                target.write_bytes(index.read())
        except PathMissing:
            return

    async def _word_of(self, *arguments: str) -> str:
        return _word((await self._checkout.output(*arguments)).head)


class WorktreeRepository(WorkspaceGit):
    """git in a worktree: filling it with files, and saving it."""

    async def fill(self, commit: str) -> None:
        """Write the files of this commit into the worktree, which must be empty."""
        there = self._checkout.writable(self.common, tree=self.workspace.again())
        there = there.with_environment(GIT_WORK_TREE="/tree")
        await there.output("read-tree", "--reset", "-u", commit)

    async def save(self, ref: str, base: str, message: str) -> Saved:
        """Commit all changes to the worktree's ref, new files too, but no ignored ones."""
        others = await untracked(self._checkout)
        nested = [path for path in others if path.endswith("/")]
        await self._checkout.with_pathspec_magic().output(
            "add", "--all", *pathspecs(["."], await excluded_paths(self._checkout, others))
        )
        tree, tip = await _written(self._checkout), await self.commit_of(ref)
        if tip is None:  # the ref was deleted when an earlier save found no changes
            tip = base
            await self.point(ref, base)
        if tree != await self.tree_of(tip):
            tip = await self.committed(tree, [tip], message)
            await self.point(ref, tip)
        return Saved(tip, tree, tuple(nested))

    async def save_ignored(self, ref: str, saved: Saved, message: str) -> tuple[list[str], bool]:
        """Commit the ignored files to a second ref, `REF.ignored`. Answers their names, and whether all are saved."""
        arguments = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
        listed = await self._checkout.output(*arguments, bounds=NAMES)
        names = [name for name in names_in(listed) if not name.startswith(f"{MARKER}/")]
        size = await self._checkout.threads.tool(lambda: sum(map(self._size, names)))
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


async def _written(checkout: GitCheckout) -> str:
    return _word((await checkout.output("write-tree")).head)


def _word(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()


def _in_pieces(paths: Iterable[str]) -> Iterator[list[str]]:
    """The paths in groups that fit a command line."""
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
