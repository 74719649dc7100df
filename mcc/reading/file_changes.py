"""What an order changed in a file: the hunks of a diff, coloured, and the lines that somebody comments on."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from mcc.contracts.changes import Changes
from mcc.contracts.fence import unfenced
from mcc.contracts.invisible import escape_invisible_json
from mcc.contracts.reading import ChangesOfOrder, FileChanges, ListedFile, ShownHunk
from mcc.contracts.shape import to_json
from mcc.contracts.unified_diff import DiffHunk, HunkLine, hunks, parts, path_of
from mcc.rendering.nodes import INVISIBLE, visible_pieces
from mcc.rendering.renderer import Source, TextRenderer

LINES, CHARACTERS = 1_000, 100_000
"""Lines and characters of one answer about a file: where each character is a part of its own, that is some 1.5 MB."""

CALL_LINES, CALL_CHARACTERS = 200, 20_000
"""Lines and characters of a call's own change that its row shows."""

LINE_CHARACTERS = 2_000
"""What is shown of one line."""

FILES, FILES_BYTES = 200, 1_000_000
"""Files of one answer."""

LIST_BYTES, NAMES_BYTES = 100_000, 10_000
"""Of each list of an order's changes, and of the conflicts in one of its worktrees, where they are told in short."""

BINARY = "Binary files "

Item = TypeVar("Item")


def changes_of(changes: Changes, diff: str, skip: int = 0) -> ChangesOfOrder:
    """The files after the first `skip`, each with whether it is binary, which its part of the diff says."""
    told = parts(diff)[skip:]
    files = [
        ListedFile(
            path=file.path,
            change=file.change,
            source=file.source,
            added=file.added,
            removed=file.removed,
            binary=place < len(told) and told[place].startswith(BINARY),
        )
        for place, file in enumerate(changes.files[skip : skip + FILES])
    ]
    shown = _fitting(files, FILES_BYTES)
    end = skip + len(shown)
    first = None if skip else shortened(changes)
    return ChangesOfOrder(
        base=changes.base,
        branch=changes.branch,
        commits=first.commits if first else (),
        worktrees=first.worktrees if first else (),
        files=shown,
        next_cursor=str(end) if end < len(changes.files) else None,
    )


def shortened(changes: Changes) -> Changes:
    """`changes` with as much of each of its lists as is told at once."""
    worktrees = [
        one.model_copy(update={"conflicts": _fitting(one.conflicts, NAMES_BYTES)}) for one in changes.worktrees
    ]
    lists = {"files": changes.files, "commits": changes.commits, "checkpoints": changes.checkpoints}
    short = {name: _fitting(each, LIST_BYTES) for name, each in {**lists, "worktrees": worktrees}.items()}
    return changes.model_copy(update=short)


def _fitting(items: Sequence[Item], most: int) -> tuple[Item, ...]:
    """The first items, as many as have `most` bytes together as an answer tells them; one at least."""
    size = 0
    for end, item in enumerate(items):
        size += len(escape_invisible_json(to_json(item)))
        if end and size > most:
            return tuple(items[:end])
    return tuple(items)


def hunks_of_files(changes: Changes, diff: str, paths: Collection[str]) -> Mapping[str, Sequence[DiffHunk]]:
    """The hunks of the files at these paths, by path; without those that the order has not changed."""
    made: dict[str, Sequence[DiffHunk]] = {file.path: () for file in changes.files if file.path in paths}
    for part, file in zip(parts(diff), changes.files, strict=False):
        if file.path in made:
            made[file.path] = hunks(part)
    return made


async def shown_file(renderer: TextRenderer, path: str, made: Sequence[DiffHunk], skip: int) -> FileChanges:
    """The hunks after their first `skip` lines, `LINES` and `CHARACTERS` at most, coloured as the file's name says."""
    window = _window(made, skip, LINES, CHARACTERS)
    sides = [[line for line in hunk.lines if line.sign != sign] for hunk in window for sign in ("-", "+")]
    sources = [Source("\n".join(map(_beginning, side)), name=path) for side in sides]
    coloured = iter(await renderer.lines(sources))
    shown: list[ShownHunk] = []
    for hunk in window:
        new, old = iter(next(coloured)), iter(next(coloured))
        lines = []
        for line in hunk.lines:
            # A line that stayed is in both sides.
            after = next(new, []) if line.sign != "-" else None
            before = next(old, []) if line.sign != "+" else None
            parts = after if after is not None else before or []
            lines.append((line.sign, line.old, line.new, [*parts, *_rest(line)]))
        shown.append(ShownHunk(header=hunk.header, lines=tuple(lines)))
    end = skip + _size(window)
    suffix = PurePath(path).suffix.removeprefix(".")
    return FileChanges(
        path=path, language=suffix or None, hunks=tuple(shown), next_cursor=str(end) if end < _size(made) else None
    )


def _size(made: Sequence[DiffHunk]) -> int:
    return sum(len(hunk.lines) for hunk in made)


def _beginning(line: HunkLine) -> str:
    return line.text[:LINE_CHARACTERS]


def _rest(line: HunkLine) -> list[tuple[str | None, str]]:
    """What says that a line goes on; in the class of what is not in the file."""
    more = len(line.text) - LINE_CHARACTERS
    return [(INVISIBLE, f"{more:,} more characters")] if more > 0 else []


def _window(made: Sequence[DiffHunk], skip: int, count: int, characters: int) -> Sequence[DiffHunk]:
    """The hunks with their lines after the first `skip`: at most `count`, and those with which `characters` are
    reached."""
    window: list[DiffHunk] = []
    place = 0
    for hunk in made:
        lines: list[HunkLine] = []
        for line in hunk.lines[max(0, skip - place) :]:
            if count < 1 or characters < 1:
                break
            lines.append(line)
            count, characters = count - 1, characters - len(_beginning(line))
        place += len(hunk.lines)
        if lines:
            window.append(DiffHunk(hunk.header, lines))
    return window


def changes_in(content: str) -> Sequence[tuple[str, Sequence[DiffHunk]]]:
    """The files that the result of a writing tool tells of, each with its path and hunks."""
    return [(path_of(part), hunks(part)) for part in parts(unfenced(content))]


def shown_call(content: str) -> Sequence[FileChanges]:
    """The same as shown in the call's row: not coloured, `CALL_LINES` and `CALL_CHARACTERS` at most."""
    lines, characters = CALL_LINES, CALL_CHARACTERS
    files: list[FileChanges] = []
    for path, made in changes_in(content):
        window = _window(made, 0, lines, characters)
        lines -= _size(window)
        characters -= sum(len(_beginning(line)) for hunk in window for line in hunk.lines)
        shown = tuple(
            ShownHunk(
                header=hunk.header,
                lines=tuple(
                    (line.sign, line.old, line.new, [*visible_pieces(_beginning(line)), *_rest(line)])
                    for line in hunk.lines
                ),
            )
            for hunk in window
        )
        more = _size(made) > _size(window)
        files.append(FileChanges(path=path, language=None, hunks=shown, next_cursor="0" if more else None))
    return files


def lines_between(made: Sequence[DiffHunk], side: str, first: int, last: int) -> Sequence[HunkLine] | None:
    """The lines `first` to `last` of the new or old file; None where the diff does not show all of them."""
    lines = [
        line
        for hunk in made
        for line in hunk.lines
        if (number := line.new if side == "new" else line.old) is not None and first <= number <= last
    ]
    return lines if lines and len(lines) == last - first + 1 else None
