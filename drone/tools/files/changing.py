"""Changes of files by tools: planned as a whole, checkpointed first, applied atomically, and never twice."""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from drone.agent.turns.call_ends import OUTCOME_UNKNOWN
from drone.checkpoints.diff import FileDiff, file_diff, judged_diff, on_one_line, quoted
from drone.checkpoints.recording import NOTHING_CHANGED, CheckpointView
from drone.sandbox.places.paths import PathDenied, PathError, Workspace, shown
from drone.sandbox.places.workspace_writer import Staged, WorkspaceWriter, own_path, regular
from drone.sandbox.protection.protected import GIT, Protected, plain
from drone.sandbox.protection.refusals import ChangedPath, git_directories_of, refusals
from drone.tools.files.listing import MAX_WHOLE_BYTES, workspace_of
from drone.tools.files.walk import read_up_to
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.display_text import display_path
from drone.tools.frame.tool import ToolContext, ToolFailed, threads_of
from mcc.contracts.journal import Outcome

NEW_FILE = 0o644
_PIECE = 1 << 20
_PRIVATE = "{} belongs to MCC itself (its data, configuration or secrets), and no tool changes that."
_MEANWHILE = "{} was changed by somebody else at this moment, and nothing was done. Read it again, then decide anew."
_STALE = "{} is not as it was when you last read or wrote it. Read it again, then decide anew."
_BORN_MEANWHILE = (
    "{} became a git directory at this moment, by this change and another one; this one was taken back. Make "
    "repositories with git init in a command."
)
_TOO_LARGE = "{} is larger than what can be kept and brought back, so no tool changes it."


@dataclass(frozen=True, slots=True)
class Existing:
    """A file's current content, or a link's (`data` is its target). `data` None: too large to be read."""

    data: bytes | None
    size: int
    mode: int
    is_link: bool = False

    @property
    def digest(self) -> str | None:
        return None if self.data is None else sha256(self.data).hexdigest()


Difference = Callable[[bytes | None, bytes | None, str], FileDiff]
"""The difference between two contents of the file at a path; None = no file."""


@dataclass(frozen=True, slots=True)
class PathEffect:
    """The new state of one path: a file with the content `after`, the file `moved_from`, or else no file."""

    path: str
    before: Existing | None
    after: bytes | None = None
    mode: int = NEW_FILE
    moved_from: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the file's new content; empty for a deleted file, and for a moved one, which is not read."""
        return "" if self.after is None else sha256(self.after).hexdigest()

    @property
    def diff(self) -> FileDiff:
        """The difference for models, and for the record."""
        return self._difference(quoted, file_diff)

    @property
    def judged(self) -> FileDiff:
        """The difference exactly, for the person who decides on it; it says so where nothing would change."""
        found = self._difference(on_one_line, judged_diff)
        return (
            found
            if found.text
            else FileDiff(f"{on_one_line(self.path)} is like that already and would not change\n", 0, 0)
        )

    def _difference(self, name: Callable[[str], str], difference: Difference) -> FileDiff:
        if self.moved_from is not None:
            return FileDiff(f"rename from {name(self.moved_from)}\nrename to {name(self.path)}\n", 0, 0)
        if self.before is not None and (self.before.data is None or self.before.is_link):
            what = "a link" if self.before.is_link else f"{self.before.size:,} bytes, which are not shown"
            made = difference(None, self.after, self.path)
            return FileDiff(f"--- {name(f'a/{self.path}')} ({what})\n{made.text}", made.added, 0)
        return difference(None if self.before is None else self.before.data, self.after, self.path)


Read = Callable[[str], Existing | None]
"""Returns what exists at a path, in the workspace's own spelling; None for nothing. Raises `PathError`."""

Plan = Callable[[Read], Sequence[PathEffect]]
"""Computes the effects of a call without changing anything. Raises `ToolFailed` and `PathError`."""


@dataclass(frozen=True, slots=True)
class Changing:
    """Changes of files in a workspace, for one call."""

    context: ToolContext
    protected: Protected

    @property
    def workspace(self) -> Workspace:
        return workspace_of(self.context)

    def resolve(self, path: str) -> str:
        """The path in the workspace's own spelling. Raises `PathError` if tools may not change it."""
        name = own_path(self.workspace, path)
        if GIT in map(plain, name.split("/")):
            raise PathDenied(f"{shown(name)} is git's own: it is changed by git's tools alone.")
        if (refused := self.protected.refuses(name)) is not None:
            raise PathDenied(refused)
        return name

    def check_content(self, path: str, data: bytes) -> None:
        """Raise `PathDenied` if this path may not get this content."""
        refused = self.protected.refused_content(path, data.decode("utf-8", "replace"))
        if refused is not None:
            raise PathDenied(refused)

    def check_fresh(self, path: str, existing: Existing | None) -> None:
        """Raise `ToolFailed` if the file differs from what the calling agent last read or wrote."""
        known = last_seen(self.context, path)
        if known is not None and known != ("" if existing is None else existing.digest):
            raise ToolFailed(_STALE.format(display_path(path)))

    async def planned(self, plan: Plan) -> Sequence[PathEffect]:
        """The effects of the plan on the current files; nothing is changed. Raises as the plan does, and `PathDenied`
        for what no tool may change."""
        return await threads_of(self.context).tool(self._planned, plan)

    def _planned(self, plan: Plan) -> Sequence[PathEffect]:
        effects = plan(self._current)
        _check(self.workspace, self.protected, effects)
        return effects

    async def carry_out(self, paths: Sequence[str], plan: Plan, after: Aftermath) -> Sequence[PathEffect]:
        """Save the files in a checkpoint, if the order has them, then apply the plan; `paths` are all it may change.
        What cannot be recorded then is told by `after`.

        If an earlier run of the call was cut off, the plan is made again from the checkpoint and its missing effects
        are applied. Raises `ToolFailed`: with nothing done, or with the outcome unknown if files were changed by others
        after the earlier run began.
        """
        checkpoints = self.context.checkpoints
        if checkpoints is None:
            effects = await self.planned(plan)
            await threads_of(self.context).tool(apply, self.workspace, self.protected, effects)
            return effects
        async with checkpoints.order.writing:
            # After a call that was cut off, the files may have half of its effects: the plan is made again from the
            # checkpoint.
            effects = () if await checkpoints.begun() else await self.planned(plan)
            await checkpoints.before(self.context.call_id, [os.fsencode(path) for path in paths])
            # Right before the effect: saving the files may have taken longer than the lease lasts.
            await checkpoints.turn.journal.confirm_held()
            effects = await threads_of(self.context).tool(self._apply_missing, effects, plan)
            await after.recorded(checkpoints.changed(), NOTHING_CHANGED)
        return effects

    def _apply_missing(self, planned: Sequence[PathEffect], plan: Plan) -> Sequence[PathEffect]:
        """Apply the effects that no earlier run of the call applied; `planned` is empty if there was an earlier run."""
        assert self.context.checkpoints is not None
        with self.context.checkpoints.order.view(self.context.call_id) as kept:
            effects = planned or plan(lambda path: _read_kept(kept, path))
            missing = []
            for effect in effects:
                before, now = _identity_before(kept, effect.path), identity(self.workspace, effect.path)
                if now == before:
                    missing.append(effect)
                elif now != _identity_after(kept, effect):
                    if planned:
                        raise ToolFailed(_MEANWHILE.format(display_path(effect.path)))
                    raise ToolFailed(OUTCOME_UNKNOWN, Outcome.OUTCOME_UNKNOWN)
        if not planned:
            for parent in {effect.path.rpartition("/")[0] for effect in effects}:
                # The call that was cut off may have left files that it had not yet put in place.
                WorkspaceWriter(self.workspace).sweep(parent)
        apply(self.workspace, self.protected, missing)
        return effects

    def _current(self, path: str) -> Existing | None:
        status = WorkspaceWriter(self.workspace).status(path)
        if status is None:
            return None
        if self.workspace.private.holds(status):
            raise PathDenied(_PRIVATE.format(shown(path)))
        if stat.S_ISLNK(status.st_mode):
            return Existing(_target(self.workspace, path), status.st_size, 0, is_link=True)
        regular(status, path)
        with self.workspace.open_file(path, symlinks=False) as file:
            size, mode = os.fstat(file.fileno()).st_size, stat.S_IMODE(status.st_mode) & 0o777
            data = read_up_to(file.fileno(), MAX_WHOLE_BYTES + 1)
        if not os.access(path, os.W_OK, dir_fd=self.workspace.fd, follow_symlinks=False):
            raise PathError(f"{shown(path)} is read-only.")
        return Existing(data if len(data) <= MAX_WHOLE_BYTES else None, size, mode)


def last_seen(context: ToolContext, path: str) -> str | None:
    """SHA-256 (hex) of the file as the agent's calls last read or wrote it, empty if they found or left no file.

    None if no call of the agent has read or written it.
    """
    record = None if context.turn is None else context.turn.tree.begun(context.origin.record_id)
    seen = (receipt.files.get(path) for receipt in reversed(record.receipts)) if record is not None else ()
    return next((digest for digest in seen if digest is not None), None)


def _read_kept(kept: CheckpointView, path: str) -> Existing | None:
    """What existed at a path when the checkpoint was made."""
    node = kept.node(path)
    if node is None:
        return None
    if node.kind not in ("file", "link"):
        raise ToolFailed(_TOO_LARGE.format(display_path(path)))
    return Existing(kept.content(node, MAX_WHOLE_BYTES), node.size, node.mode & 0o777, node.kind == "link")


Identity = tuple[str, bytes] | None
"""Kind and SHA-256 of what a path holds, to compare states of it; None for nothing."""


def _identity_before(kept: CheckpointView, path: str) -> Identity:
    node = kept.node(path)
    if node is not None and node.kind == "left_out":
        raise ToolFailed(_TOO_LARGE.format(display_path(path)))
    return None if node is None else (node.kind, b"" if node.kind == "directory" else node.digest)


def _identity_after(kept: CheckpointView, effect: PathEffect) -> Identity:
    if effect.moved_from is not None:
        return _identity_before(kept, effect.moved_from)
    return None if effect.after is None else ("file", sha256(effect.after).digest())


def identity(workspace: Workspace, path: str) -> Identity:
    """The identity of what the path holds now. Raises `PathError`."""
    status = WorkspaceWriter(workspace).status(path)
    if status is None:
        return None
    if stat.S_ISLNK(status.st_mode):
        return "link", sha256(_target(workspace, path)).digest()
    if not stat.S_ISREG(status.st_mode):
        return "directory", b""
    digest = sha256()
    with workspace.open_file(path, symlinks=False) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return "file", digest.digest()


def _target(workspace: Workspace, path: str) -> bytes:
    parent, _, name = path.rpartition("/")
    directory = workspace.open_directory(parent or ".", symlinks=False)
    try:
        return os.fsencode(os.readlink(name, dir_fd=directory))
    finally:
        os.close(directory)


def _check(workspace: Workspace, protected: Protected, effects: Sequence[PathEffect]) -> None:
    """Raises `PathDenied` for an effect that no tool may have."""
    refused = refusals(workspace.fd, protected, path_changes(effects))
    if refused:
        raise PathDenied(next(iter(refused.values())))


def path_changes(effects: Sequence[PathEffect]) -> list[ChangedPath]:
    return [ChangedPath(one.path, one.after is not None or one.moved_from is not None) for one in effects]


def apply(workspace: Workspace, protected: Protected, effects: Sequence[PathEffect]) -> None:
    """Apply all effects or none: if one fails, those before it are reverted. Blocks. Raises `PathError`."""
    _check(workspace, protected, effects)
    before = git_directories_of(workspace.fd, path_changes(effects))
    placing = WorkspaceWriter(workspace)
    staged: dict[str, Staged] = {}
    done: list[PathEffect] = []
    try:
        for effect in effects:
            if effect.after is not None:
                staged[effect.path] = placing.stage(effect.path, [effect.after], effect.mode)
        for effect in effects:
            _apply_one(placing, effect, staged)
            done.append(effect)
        # Two calls side by side could each put half of a git directory there.
        if new := sorted(git_directories_of(workspace.fd, path_changes(effects)) - before):
            raise PathDenied(_BORN_MEANWHILE.format(shown(new[0] or ".")))
    except BaseException:
        for file in staged.values():
            file.drop()
        for effect in reversed(done):
            # As much as can be taken back; what was wrong first is what is told.
            with suppress(PathError):
                _revert(placing, effect)
        raise


def _apply_one(placing: WorkspaceWriter, effect: PathEffect, staged: dict[str, Staged]) -> None:
    if effect.path in staged:
        staged.pop(effect.path).place()
    elif effect.moved_from is not None:
        placing.move(effect.moved_from, effect.path)
    elif placing.status(effect.path) is not None:
        placing.remove(effect.path)


def _revert(placing: WorkspaceWriter, effect: PathEffect) -> None:
    before = effect.before
    if effect.moved_from is not None:
        placing.move(effect.path, effect.moved_from)
    elif before is None:
        placing.remove(effect.path)
    elif before.is_link and before.data is not None:
        placing.link(effect.path, before.data)
    elif before.data is not None:
        placing.put(effect.path, [before.data], before.mode)


def seen_of(effects: Sequence[PathEffect]) -> Mapping[str, str]:
    """The new SHA-256 (hex) of each changed file by path, for `ToolFinished.files`; moved files are left out."""
    return {effect.path: effect.digest for effect in effects if effect.moved_from is None}
