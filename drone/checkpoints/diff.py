"""Unified diffs of files, with bounded work: beyond the bound, all old lines are removed and all new ones added."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

CONTEXT = 3
_MOST_CHANGES = 1_000
_MOST_STEPS = 2_000_000
"""Most changed lines, and most comparisons, within which the shortest edit script is searched for."""

_SNIFFED = 8_192
NO_END = "\\ No newline at end of file"


class Block(NamedTuple):
    """Lines `old` to `old_end` of the first text are replaced by `new` to `new_end` of the second; counted from 0, ends
    exclusive."""

    old: int
    old_end: int
    new: int
    new_end: int


@dataclass(frozen=True, slots=True)
class FileDiff:
    """`text` in the format of `diff -u`, empty without a difference; lines `added` and `removed`, 0 for binary
    files."""

    text: str
    added: int
    removed: int


def file_diff(before: bytes | None, after: bytes | None, path: str, source: str | None = None) -> FileDiff:
    """The difference between two contents of a file, None = no file. `source`: its former path, if it was moved."""
    if before == after:
        return FileDiff("", 0, 0)
    old_name = "/dev/null" if before is None else f"a/{quoted(source or path)}"
    new_name = "/dev/null" if after is None else f"b/{quoted(path)}"
    if _is_binary(before) or _is_binary(after):
        return FileDiff(f"Binary files {old_name} and {new_name} differ\n", 0, 0)
    old, new = _lines(before), _lines(after)
    found = list(blocks(old, new))
    head = f"--- {old_name}\n+++ {new_name}\n"
    added = sum(one.new_end - one.new for one in found)
    removed = sum(one.old_end - one.old for one in found)
    return FileDiff(head + "".join(_hunks(old, new, found)), added, removed)


def quoted(path: str) -> str:
    """A path on one line: unchanged when it is printable, otherwise escaped."""
    return path if path.isprintable() else ascii(path)[1:-1]


def _is_binary(data: bytes | None) -> bool:
    return data is not None and b"\0" in data[:_SNIFFED]


def _lines(data: bytes | None) -> list[bytes]:
    return [] if data is None else data.splitlines(keepends=True) if b"\r" not in data else _split(data)


def _split(data: bytes) -> list[bytes]:
    """Split at line feeds only, unlike `splitlines`: a carriage return belongs to its line."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def blocks(old: Sequence[object], new: Sequence[object]) -> Iterator[Block]:
    """The blocks in which two texts differ, in order."""
    first, last_old, last_new = 0, len(old), len(new)
    while first < min(last_old, last_new) and old[first] == new[first]:
        first += 1
    while min(last_old, last_new) > first and old[last_old - 1] == new[last_new - 1]:
        last_old, last_new = last_old - 1, last_new - 1
    if first == last_old and first == last_new:
        return
    inner = _shortest(old[first:last_old], new[first:last_new])
    if inner is None:
        yield Block(first, last_old, first, last_new)
        return
    for one in inner:
        yield Block(one.old + first, one.old_end + first, one.new + first, one.new_end + first)


def _shortest(old: Sequence[object], new: Sequence[object]) -> list[Block] | None:
    """The shortest edit script (E. Myers, An O(ND) Difference Algorithm, 1986); None beyond the bounds."""
    if not old or not new:
        return [Block(0, len(old), 0, len(new))]
    numbers: dict[object, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    furthest, trace, steps = {1: 0}, list[dict[int, int]](), 0
    for changes in range(min(len(a) + len(b), _MOST_CHANGES) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-changes, changes + 1, 2):
            down = _is_insertion(furthest, diagonal, changes)
            x = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y, steps = x + 1, y + 1, steps + 1
            furthest[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _backtrack(trace, len(a), len(b))
        steps += changes
        if steps > _MOST_STEPS:
            return None
    return None


def _is_insertion(furthest: dict[int, int], diagonal: int, changes: int) -> bool:
    """Whether the furthest point on a diagonal is reached by inserting a line, otherwise by removing one."""
    return diagonal == -changes or (diagonal != changes and furthest[diagonal - 1] < furthest[diagonal + 1])


def _backtrack(trace: list[dict[int, int]], x: int, y: int) -> list[Block]:
    """The blocks of the edit script that ends at (x, y), from the furthest points after each change."""
    found: list[Block] = []
    for changes in range(len(trace) - 1, 0, -1):
        furthest, diagonal = trace[changes], x - y
        down = _is_insertion(furthest, diagonal, changes)
        before = diagonal + 1 if down else diagonal - 1
        from_x = furthest[before]
        from_y = from_x - before
        end_x, end_y = (from_x, from_y + 1) if down else (from_x + 1, from_y)
        if found and (found[-1].old, found[-1].new) == (end_x, end_y):
            found[-1] = Block(from_x, found[-1].old_end, from_y, found[-1].new_end)
        else:
            found.append(Block(from_x, end_x, from_y, end_y))
        x, y = from_x, from_y
    return found[::-1]


def _hunks(old: Sequence[bytes], new: Sequence[bytes], found: Sequence[Block]) -> Iterator[str]:
    group: list[Block] = []
    for one in found:
        if group and one.old - group[-1].old_end > 2 * CONTEXT:
            yield _hunk(old, new, group)
            group = []
        group.append(one)
    if group:
        yield _hunk(old, new, group)


def _hunk(old: Sequence[bytes], new: Sequence[bytes], group: Sequence[Block]) -> str:
    start, end = max(0, group[0].old - CONTEXT), min(len(old), group[-1].old_end + CONTEXT)
    new_start, new_end = group[0].new - (group[0].old - start), group[-1].new_end + (end - group[-1].old_end)
    lines = [f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"]
    at = start
    for one in group:
        lines += [_line(" ", line) for line in old[at : one.old]]
        lines += [_line("-", line) for line in old[one.old : one.old_end]]
        lines += [_line("+", line) for line in new[one.new : one.new_end]]
        at = one.old_end
    lines += [_line(" ", line) for line in old[at:end]]
    return "".join(lines)


def _range(start: int, end: int) -> str:
    count = end - start
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def _line(sign: str, line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return f"{sign}{text}" if text.endswith("\n") else f"{sign}{text}\n{NO_END}\n"
