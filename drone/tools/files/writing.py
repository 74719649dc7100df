"""The tools that change files of a workspace: write, edit, patch, move and delete."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from drone.agent.turns.toolset import Output, Preview
from drone.sandbox.places.paths import PathError
from drone.sandbox.protection.protected import Protected
from drone.tools.files.changing import NEW_FILE, Changing, Existing, PathEffect, Plan, Read, seen_of
from drone.tools.files.listing import MAX_WHOLE_BYTES
from drone.tools.files.patch import FilePatch, applied, parsed
from drone.tools.files.text_files import TextFile, replaced, with_line_ends
from drone.tools.files.walk import plural
from drone.tools.frame.aftermath import Aftermath
from drone.tools.frame.display_text import display_path, show_controls
from drone.tools.frame.tool import ToolContext, ToolFailed, tool
from mcc.contracts.shape import Text

DIFF = 6_000
"""Characters of a diff that a model is shown; the whole is kept as an artifact."""

_SECONDS = 300.0
_RECORD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Request:
    """One call: the `paths` that its `plan` may change."""

    changing: Changing
    paths: Sequence[str]
    plan: Plan

    async def preview(self) -> Preview:
        effects = await self.changing.planned(self.plan)
        return Preview("diff", "".join(effect.judged.text for effect in effects))

    async def apply(self) -> Output:
        after = Aftermath(self.changing.context.turn, self.changing.context.stop, seconds=_RECORD_SECONDS)
        return after.told(_result(await self.changing.carry_out(self.paths, self.plan, after)))


def _result(effects: Sequence[PathEffect]) -> Output:
    """One line for each changed file, then the diffs."""
    lines, diffs = [], []
    sources = {effect.moved_from for effect in effects}
    for effect in effects:
        if effect.path in sources:
            continue
        diff = effect.diff
        lines.append(f"{display_path(effect.path)}: {_summary(effect, diff.added, diff.removed)}")
        diffs.append(diff.text)
    text = "\n".join([*lines, *(text.rstrip("\n") for text in diffs if text)])
    return Output(show_controls(text)[0], files=seen_of(effects))


def _summary(effect: PathEffect, added: int, removed: int) -> str:
    if effect.moved_from is not None:
        return f"moved here from {display_path(effect.moved_from)}"
    if effect.after is None:
        return "deleted; it can be brought back with mcc orders revert"
    if effect.before is None:
        return f"created, {plural(added, 'line')}"
    if effect.before.data == effect.after:
        return "it was so already, and nothing was changed"
    return f"{plural(added, 'line')} added, {removed:,} removed"


@dataclass(frozen=True, slots=True)
class WritingTools:
    """The tools; `protected` are the paths that no tool may change."""

    protected: Protected

    def tools(self) -> tuple[Callable[..., object], ...]:
        return (self.write_file, self.edit_file, self.apply_patch, self.move_file, self.delete_file)

    async def _preview_write(self, context: ToolContext, path: Text, content: Text) -> Preview:
        return await self._write(context, path, content).preview()

    async def _preview_edit(
        self, context: ToolContext, path: Text, old: Text, new: Text, replace_all: bool = False
    ) -> Preview:
        return await self._edit(context, path, old, new, replace_all).preview()

    async def _preview_patch(self, context: ToolContext, patch: Text) -> Preview:
        return await self._patch(context, patch).preview()

    async def _preview_move(self, context: ToolContext, source: Text, target: Text) -> Preview:
        return await self._move(context, source, target).preview()

    async def _preview_delete(self, context: ToolContext, path: Text) -> Preview:
        return await self._delete(context, path).preview()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_preview_write)
    async def write_file(self, context: ToolContext, path: Text, content: Text) -> Output:
        """Write a whole file of the workspace, a new one or in place of what is there.

        For a change of a file edit_file is shorter. Line ends and byte order mark stay as they are.
        """
        return await self._write(context, path, content).apply()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_preview_edit)
    async def edit_file(
        self, context: ToolContext, path: Text, old: Text, new: Text, replace_all: bool = False
    ) -> Output:
        """Replace a piece of a file of the workspace.

        Args:
            old: The exact text, without line numbers; it must be there once.
            new: What takes its place.
            replace_all: Replace it wherever it is.
        """
        return await self._edit(context, path, old, new, replace_all).apply()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_preview_patch)
    async def apply_patch(self, context: ToolContext, patch: Text) -> Output:
        """Apply a unified diff to files of the workspace: all of it, or nothing where a part does not fit.

        Args:
            patch: For each file --- a/PATH, +++ b/PATH (or /dev/null) and parts that begin with @@.
        """
        return await self._patch(context, patch).apply()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", preview=_preview_move)
    async def move_file(self, context: ToolContext, source: Text, target: Text) -> Output:
        """Move or rename a file of the workspace; nothing may be at the target."""
        return await self._move(context, source, target).apply()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_preview_delete)
    async def delete_file(self, context: ToolContext, path: Text) -> Output:
        """Delete a file of the workspace."""
        return await self._delete(context, path).apply()

    def _write(self, context: ToolContext, path: str, content: str) -> _Request:
        changing = Changing(context, self.protected)
        name = changing.resolve(path)
        return _Request(changing, [name], partial(_plan_write, changing, name, content))

    def _edit(self, context: ToolContext, path: str, old: str, new: str, replace_all: bool) -> _Request:
        changing = Changing(context, self.protected)
        name = changing.resolve(path)
        return _Request(changing, [name], partial(_plan_edit, changing, name, (old, new), replace_all))

    def _patch(self, context: ToolContext, patch: str) -> _Request:
        changing = Changing(context, self.protected)
        parts = [_resolved(changing, part) for part in parsed(patch)]
        paths = [name for part in parts for name in (part.source, part.target) if name is not None]
        if twice := sorted({name for name in paths if sum(name in (part.source, part.target) for part in parts) > 1}):
            raise ToolFailed(f"The patch is about {display_path(twice[0])} more than once: put its parts together.")
        return _Request(
            changing,
            list(dict.fromkeys(paths)),
            lambda read: [effect for part in parts for effect in _plan_file_patch(changing, part, read)],
        )

    def _move(self, context: ToolContext, source: str, target: str) -> _Request:
        changing = Changing(context, self.protected)
        old, new = changing.resolve(source), changing.resolve(target)
        if old == new:
            raise ToolFailed("source and target are the same file.")
        return _Request(changing, [old, new], partial(_plan_move, changing, old, new))

    def _delete(self, context: ToolContext, path: str) -> _Request:
        changing = Changing(context, self.protected)
        name = changing.resolve(path)
        return _Request(changing, [name], partial(_plan_delete, changing, name))


def _plan_write(changing: Changing, path: str, content: str, read: Read) -> Sequence[PathEffect]:
    existing = _not_a_link(read(path), path)
    changing.check_fresh(path, existing)
    data = _encoded(content, path)
    if existing is not None and existing.data is not None and b"\0" not in existing.data:
        before = TextFile.of(existing.data, display_path(path))
        same_ends = before.line_end == "\r\n" and "\r\n" not in content
        data = before.with_text(with_line_ends(content, "\r\n") if same_ends else content.removeprefix("\ufeff")).data
    changing.check_content(path, data)
    return [PathEffect(path, existing, data, NEW_FILE if existing is None else existing.mode)]


def _plan_edit(
    changing: Changing, path: str, change: tuple[str, str], everywhere: bool, read: Read
) -> Sequence[PathEffect]:
    existing = _not_a_link(read(path), path)
    changing.check_fresh(path, existing)
    if existing is None:
        raise ToolFailed(f"{display_path(path)} does not exist; write_file makes a new file.")
    _encoded(change[1], path)
    after, _ = replaced(_text(existing, path), *change, display_path(path), everywhere=everywhere)
    changing.check_content(path, after.data)
    return [PathEffect(path, existing, after.data, existing.mode)]


def _resolved(changing: Changing, part: FilePatch) -> FilePatch:
    source = None if part.source is None else changing.resolve(part.source)
    return FilePatch(source, None if part.target is None else changing.resolve(part.target), part.hunks)


def _plan_file_patch(changing: Changing, part: FilePatch, read: Read) -> list[PathEffect]:
    source = None if part.source is None else _not_a_link(read(part.source), part.source)
    if part.source is not None:
        changing.check_fresh(part.source, source)
        if source is None:
            raise ToolFailed(f"{display_path(part.source)} does not exist, and the patch changes it.")
    moved = part.target != part.source
    if part.target is not None and moved and read(part.target) is not None:
        raise ToolFailed(f"{display_path(part.target)} exists already, and the patch makes it.")
    after = applied(part, None if source is None else _text(source, part.source or ""))
    if part.target is None:
        if after.text:
            raise ToolFailed(
                f"{display_path(part.source or '')} has lines that the patch, which deletes it, does not name."
            )
        return [PathEffect(part.source or "", source)]
    # Only what the patch adds: the file around it may hold bytes that are no UTF-8, and keeps them.
    _encoded("\n".join(line for hunk in part.hunks for line in hunk.added), part.target)
    changing.check_content(part.target, after.data)
    mode = NEW_FILE if source is None else source.mode
    changed = PathEffect(part.target, None if moved else source, after.data, mode)
    return [changed, PathEffect(part.source or "", source)] if moved and source is not None else [changed]


def _plan_move(changing: Changing, source: str, target: str, read: Read) -> Sequence[PathEffect]:
    existing = read(source)
    if existing is None:
        raise ToolFailed(f"{display_path(source)} does not exist.")
    if not existing.is_link:
        changing.check_fresh(source, existing)
    if read(target) is not None:
        raise ToolFailed(f"{display_path(target)} exists already; nothing is replaced by moving a file.")
    if existing.data is not None:
        changing.check_content(target, existing.data)
    return [PathEffect(target, None, moved_from=source), PathEffect(source, existing)]


def _plan_delete(changing: Changing, path: str, read: Read) -> Sequence[PathEffect]:
    existing = read(path)
    if existing is None:
        raise ToolFailed(f"{display_path(path)} does not exist.")
    if not existing.is_link:
        changing.check_fresh(path, existing)
    return [PathEffect(path, existing)]


def _not_a_link(existing: Existing | None, path: str) -> Existing | None:
    """The file unchanged. Raises `PathError` if it is a link."""
    if existing is not None and existing.is_link:
        raise PathError(
            f"{display_path(path)} is a symbolic link, and nothing is written through one: name its target."
        )
    return existing


def _text(existing: Existing, path: str) -> TextFile:
    if existing.data is None:
        raise ToolFailed(
            f"{display_path(path)} has {existing.size:,} bytes; more than {MAX_WHOLE_BYTES:,} are not edited."
        )
    return TextFile.of(existing.data, display_path(path))


def _encoded(content: str, path: str) -> bytes:
    """The text as UTF-8. Raises `ToolFailed` for lone surrogates."""
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"The text for {display_path(path)} has half a character at {error.start:,}.") from error
