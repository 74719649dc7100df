"""The tools that change files of a workspace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from drone.agent.toolset import Output, Preview
from drone.sandbox.paths import PathError
from drone.sandbox.protected import Protected
from drone.tools.changing import NEW_FILE, Changing, Effect, Existing, Plan, Read, seen_of
from drone.tools.display_text import pictured, written
from drone.tools.files import MAX_WHOLE_BYTES
from drone.tools.patch import FilePatch, applied, parsed
from drone.tools.text_files import TextFile, ended, replaced
from drone.tools.tool import ToolContext, ToolFailed, tool
from drone.tools.walk import plural
from mcc.contracts.shape import Text

DIFF = 6_000
"""Characters of a diff that a model is told; the whole is kept as an artifact."""

_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one call is about."""

    changing: Changing
    paths: Sequence[str]
    plan: Plan

    async def preview(self) -> Preview:
        effects = await self.changing.planned(self.plan)
        return Preview("diff", "".join(effect.diff.text for effect in effects))

    async def done(self) -> Output:
        return told(await self.changing.done(self.paths, self.plan))


def told(effects: Sequence[Effect]) -> Output:
    """What was done, a line a file, and the diff."""
    lines, diffs = [], []
    sources = {effect.moved_from for effect in effects}
    for effect in effects:
        if effect.path in sources:
            continue
        diff = effect.diff
        lines.append(f"{written(effect.path)}: {_in_words(effect, diff.added, diff.removed)}")
        diffs.append(diff.text)
    text = "\n".join([*lines, *(text.rstrip("\n") for text in diffs if text)])
    return Output(pictured(text)[0], files=seen_of(effects))


def _in_words(effect: Effect, added: int, removed: int) -> str:
    if effect.moved_from is not None:
        return f"moved here from {written(effect.moved_from)}"
    if effect.after is None:
        return "deleted; it can be brought back with mcc orders revert"
    if effect.before is None:
        return f"created, {plural(added, 'line')}"
    if effect.before.data == effect.after:
        return "it was so already, and nothing was changed"
    return f"{plural(added, 'line')} added, {removed:,} removed"


@dataclass(frozen=True, slots=True)
class WritingTools:
    """The tools, with what no tool may change."""

    protected: Protected

    def tools(self) -> tuple[Callable[..., object], ...]:
        return (self.write_file, self.edit_file, self.apply_patch, self.move_file, self.delete_file)

    async def _would_write(self, context: ToolContext, path: Text, content: Text) -> Preview:
        return await self._write(context, path, content).preview()

    async def _would_edit(
        self, context: ToolContext, path: Text, old: Text, new: Text, replace_all: bool = False
    ) -> Preview:
        return await self._edit(context, path, old, new, replace_all).preview()

    async def _would_patch(self, context: ToolContext, patch: Text) -> Preview:
        return await self._patch(context, patch).preview()

    async def _would_move(self, context: ToolContext, source: Text, target: Text) -> Preview:
        return await self._move(context, source, target).preview()

    async def _would_delete(self, context: ToolContext, path: Text) -> Preview:
        return await self._delete(context, path).preview()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_would_write)
    async def write_file(self, context: ToolContext, path: Text, content: Text) -> Output:
        """Write a whole file of the workspace, a new one or in place of what is there.

        For a change of a file edit_file is shorter. Line ends and byte order mark stay as they are.
        """
        return await self._write(context, path, content).done()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_would_edit)
    async def edit_file(
        self, context: ToolContext, path: Text, old: Text, new: Text, replace_all: bool = False
    ) -> Output:
        """Replace a piece of a file of the workspace.

        Args:
            old: The exact text, without line numbers; it must be there once.
            new: What takes its place.
            replace_all: Replace it wherever it is.
        """
        return await self._edit(context, path, old, new, replace_all).done()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_would_patch)
    async def apply_patch(self, context: ToolContext, patch: Text) -> Output:
        """Apply a unified diff to files of the workspace: all of it, or nothing where a part does not fit.

        Args:
            patch: For each file --- a/PATH, +++ b/PATH (or /dev/null) and parts that begin with @@.
        """
        return await self._patch(context, patch).done()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", preview=_would_move)
    async def move_file(self, context: ToolContext, source: Text, target: Text) -> Output:
        """Move or rename a file of the workspace; nothing may be at the target."""
        return await self._move(context, source, target).done()

    @tool(idempotent=True, seconds=_SECONDS, effects="write", max_result=DIFF, preview=_would_delete)
    async def delete_file(self, context: ToolContext, path: Text) -> Output:
        """Delete a file of the workspace."""
        return await self._delete(context, path).done()

    def _write(self, context: ToolContext, path: str, content: str) -> _Wish:
        changing = Changing(context, self.protected)
        name = changing.own(path)
        return _Wish(changing, [name], partial(_written, changing, name, content))

    def _edit(self, context: ToolContext, path: str, old: str, new: str, replace_all: bool) -> _Wish:
        changing = Changing(context, self.protected)
        name = changing.own(path)
        return _Wish(changing, [name], partial(_edited, changing, name, (old, new), replace_all))

    def _patch(self, context: ToolContext, patch: str) -> _Wish:
        changing = Changing(context, self.protected)
        parts = [_owned(changing, part) for part in parsed(patch)]
        paths = [name for part in parts for name in (part.source, part.target) if name is not None]
        if twice := sorted({name for name in paths if sum(name in (one.source, one.target) for one in parts) > 1}):
            raise ToolFailed(f"The patch is about {written(twice[0])} more than once: put its parts together.")
        return _Wish(changing, list(dict.fromkeys(paths)), partial(_patched, changing, parts))

    def _move(self, context: ToolContext, source: str, target: str) -> _Wish:
        changing = Changing(context, self.protected)
        old, new = changing.own(source), changing.own(target)
        if old == new:
            raise ToolFailed("source and target are the same file.")
        return _Wish(changing, [old, new], partial(_moved, changing, old, new))

    def _delete(self, context: ToolContext, path: str) -> _Wish:
        changing = Changing(context, self.protected)
        name = changing.own(path)
        return _Wish(changing, [name], partial(_deleted, changing, name))


def _written(changing: Changing, path: str, content: str, read: Read) -> Sequence[Effect]:
    there = _file(read(path), path)
    changing.fresh(path, there)
    data = _encoded(content, path)
    if there is not None and there.data is not None and b"\0" not in there.data:
        before = TextFile.of(there.data, written(path))
        same_ends = before.line_end == "\r\n" and "\r\n" not in content
        data = before.with_text(ended(content, "\r\n") if same_ends else content.removeprefix("\ufeff")).data
    changing.check(path, data)
    return [Effect(path, there, data, NEW_FILE if there is None else there.mode)]


def _edited(changing: Changing, path: str, change: tuple[str, str], everywhere: bool, read: Read) -> Sequence[Effect]:
    there = _file(read(path), path)
    changing.fresh(path, there)
    if there is None:
        raise ToolFailed(f"{written(path)} does not exist; write_file makes a new file.")
    _encoded(change[1], path)
    after, _ = replaced(_text(there, path), *change, written(path), everywhere=everywhere)
    changing.check(path, after.data)
    return [Effect(path, there, after.data, there.mode)]


def _owned(changing: Changing, part: FilePatch) -> FilePatch:
    source = None if part.source is None else changing.own(part.source)
    return FilePatch(source, None if part.target is None else changing.own(part.target), part.hunks)


def _patched(changing: Changing, parts: Sequence[FilePatch], read: Read) -> Sequence[Effect]:
    return [effect for part in parts for effect in _by_one(changing, part, read)]


def _by_one(changing: Changing, part: FilePatch, read: Read) -> list[Effect]:
    source = None if part.source is None else _file(read(part.source), part.source)
    if part.source is not None:
        changing.fresh(part.source, source)
        if source is None:
            raise ToolFailed(f"{written(part.source)} does not exist, and the patch changes it.")
    if part.target not in (None, part.source) and part.target is not None and read(part.target) is not None:
        raise ToolFailed(f"{written(part.target)} exists already, and the patch makes it.")
    after = applied(part, None if source is None else _text(source, part.source or ""))
    if part.target is None:
        if after.text:
            raise ToolFailed(f"{written(part.source or '')} has lines that the patch, which deletes it, does not name.")
        return [Effect(part.source or "", source)]
    _encoded(after.text, part.target)
    changing.check(part.target, after.data)
    changed = Effect(part.target, source if part.target == part.source else None, after.data)
    if source is None:
        return [changed]
    changed = Effect(changed.path, changed.before, changed.after, source.mode)
    return [changed] if part.target == part.source else [changed, Effect(part.source or "", source)]


def _moved(changing: Changing, source: str, target: str, read: Read) -> Sequence[Effect]:
    there = read(source)
    if there is None:
        raise ToolFailed(f"{written(source)} does not exist.")
    if not there.is_link:
        changing.fresh(source, there)
    if read(target) is not None:
        raise ToolFailed(f"{written(target)} exists already; nothing is replaced by moving a file.")
    if there.data is not None:
        changing.check(target, there.data)
    return [Effect(target, None, moved_from=source), Effect(source, there)]


def _deleted(changing: Changing, path: str, read: Read) -> Sequence[Effect]:
    there = read(path)
    if there is None:
        raise ToolFailed(f"{written(path)} does not exist.")
    if not there.is_link:
        changing.fresh(path, there)
    return [Effect(path, there)]


def _file(there: Existing | None, path: str) -> Existing | None:
    if there is not None and there.is_link:
        raise PathError(f"{written(path)} is a symbolic link, and nothing is written through one: name its target.")
    return there


def _text(there: Existing, path: str) -> TextFile:
    if there.data is None:
        raise ToolFailed(f"{written(path)} has {there.size:,} bytes; more than {MAX_WHOLE_BYTES:,} are not edited.")
    return TextFile.of(there.data, written(path))


def _encoded(content: str, path: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"The text for {written(path)} has half a character at {error.start:,}.") from error
