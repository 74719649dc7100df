"""Unified diffs of files, with bounded work: beyond the bound, all old lines are removed and all new ones added."""

import codecs
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from mcc.contracts.line_ends import CRLF

CONTEXT = 3
_MOST_CHANGES = 1_000
_MOST_STEPS = 2_000_000
"""Most changed lines, and most comparisons, within which the shortest edit script is searched for."""

_SNIFFED = 8_192
_UTF_16 = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
NO_END = "\\ No newline at end of file"


class DiffBlock(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class _Decoded:
    """A file's text, and the form of the file that the text does not show: "UTF-16-LE", or ""."""

    text: str
    form: str = ""

    @property
    def ends_as_crlf(self) -> bool:
        """Whether no line ends with a line feed alone, and nothing else holds a carriage return."""
        return self.text.count("\r\n") == self.text.count("\n") == self.text.count("\r")

    def lines(self) -> list[str]:
        """Split at line feeds only, unlike `splitlines`: any other character belongs to its line."""
        parts = self.text.split("\n")
        lines = [part + "\n" for part in parts[:-1]]
        return [*lines, parts[-1]] if parts[-1] else lines


_NO_FILE = _Decoded("")


def file_diff(before: bytes | None, after: bytes | None, path: str) -> FileDiff:
    """The difference between two contents of a file, None = no file; bytes that are not UTF-8 appear as U+FFFD.

    Text in UTF-16 with a byte order mark is compared as text; its encoding stands behind its name.
    """
    if before == after:
        return FileDiff("", 0, 0)
    old, new = _readable(before), _readable(after)
    names = [f"{mark}/{quoted(path)}" for mark in "ab"]
    for at, file in enumerate((old, new)):
        names[at] += f"\t({file.form})" if file is not None and file.form else ""
    if old is None or new is None or (old.form != new.form and old.text == new.text):
        old_name, new_name = _names(names, before, after)
        return FileDiff(f"Binary files {old_name} and {new_name} differ\n", 0, 0)
    return _text_diff(old, new, _names(names, before, after))


def judged_diff(before: bytes | None, after: bytes | None, path: str) -> FileDiff:
    """As `file_diff`, exactly, for a person who decides on it: contents or paths that differ have texts that differ.

    Names and lines are as they are, bytes that are not UTF-8 are lone surrogates, and binary files are told by their
    digests. Where every line of the file ends with CR LF, its head says `(CRLF)`, and the lines are without the CR.
    """
    if before == after:
        return FileDiff("", 0, 0)
    names = [on_one_line(f"{mark}/{path}") for mark in "ab"]
    old, new = _decoded(before), _decoded(after)
    if old is None or new is None:
        old_name, new_name = _names(names, before, after)
        digests = " and ".join("nothing" if data is None else sha256(data).hexdigest() for data in (before, after))
        return FileDiff(f"Binary files {old_name} and {new_name} differ\n(sha256 {digests})\n", 0, 0)
    crlf = old.ends_as_crlf and new.ends_as_crlf and "\r" in old.text + new.text
    if crlf:
        old, new = (replace(side, text=side.text.replace("\r\n", "\n")) for side in (old, new))
    for at, file in enumerate((old, new)):
        # After a tab, where every reader of diffs expects the name to be over.
        if forms := [form for form in (file.form, CRLF if crlf else "") if form]:
            names[at] += f"\t({', '.join(forms)})"
    return _text_diff(old, new, _names(names, before, after))


def _names(names: Sequence[str], before: bytes | None, after: bytes | None) -> tuple[str, str]:
    return "/dev/null" if before is None else names[0], "/dev/null" if after is None else names[1]


def _text_diff(old_file: _Decoded, new_file: _Decoded, names: tuple[str, str]) -> FileDiff:
    old, new = old_file.lines(), new_file.lines()
    found = list(blocks(old, new))
    head = f"--- {names[0]}\n+++ {names[1]}\n"
    added = sum(one.new_end - one.new for one in found)
    removed = sum(one.old_end - one.old for one in found)
    return FileDiff(head + "".join(_hunks(old, new, found)), added, removed)


def quoted(path: str) -> str:
    """A path on one line: unchanged when it is printable, otherwise escaped."""
    return path if path.isprintable() else ascii(path)[1:-1]


def on_one_line(path: str) -> str:
    """A path as it is; in git's quotes where it has several lines, or a tab, or seems quoted. No two look the same."""
    if not path.startswith('"') and "\n" not in path and "\t" not in path:
        return path
    return f'"{path.translate(_QUOTED)}"'


_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"})


def _readable(data: bytes | None) -> _Decoded | None:
    """The text of a file for readers, who need not tell all contents apart; None for a binary file."""
    if data is None:
        return _NO_FILE
    for mark, encoding in _UTF_16:
        if data.startswith(mark):
            with suppress(UnicodeDecodeError):
                return _Decoded(data[len(mark) :].decode(encoding), encoding.upper())
    return None if b"\0" in data[:_SNIFFED] else _Decoded(data.decode("utf-8", "replace"))


def _decoded(data: bytes | None) -> _Decoded | None:
    """None for a binary file."""
    if data is None:
        return _NO_FILE
    for mark, encoding in _UTF_16:
        if data.startswith(mark):
            with suppress(UnicodeDecodeError):
                return _Decoded(data.decode(encoding), encoding.upper())
    try:
        return _Decoded(data.decode())
    except UnicodeDecodeError:
        return None if b"\0" in data[:_SNIFFED] else _Decoded(data.decode("utf-8", "surrogateescape"))


def blocks(old: Sequence[object], new: Sequence[object]) -> Iterator[DiffBlock]:
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
        yield DiffBlock(first, last_old, first, last_new)
        return
    for block in inner:
        yield DiffBlock(block.old + first, block.old_end + first, block.new + first, block.new_end + first)


def _shortest(old: Sequence[object], new: Sequence[object]) -> list[DiffBlock] | None:
    """The shortest edit script (E. Myers, An O(ND) Difference Algorithm, 1986); None beyond the bounds."""
    if not old or not new:
        return [DiffBlock(0, len(old), 0, len(new))]
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


def _backtrack(trace: list[dict[int, int]], x: int, y: int) -> list[DiffBlock]:
    """The blocks of the edit script that ends at (x, y), from the furthest points after each change."""
    blocks: list[DiffBlock] = []
    for changes in range(len(trace) - 1, 0, -1):
        furthest, diagonal = trace[changes], x - y
        down = _is_insertion(furthest, diagonal, changes)
        before = diagonal + 1 if down else diagonal - 1
        from_x = furthest[before]
        from_y = from_x - before
        end_x, end_y = (from_x, from_y + 1) if down else (from_x + 1, from_y)
        if blocks and (blocks[-1].old, blocks[-1].new) == (end_x, end_y):
            blocks[-1] = DiffBlock(from_x, blocks[-1].old_end, from_y, blocks[-1].new_end)
        else:
            blocks.append(DiffBlock(from_x, end_x, from_y, end_y))
        x, y = from_x, from_y
    return blocks[::-1]


def _hunks(old: Sequence[str], new: Sequence[str], found: Sequence[DiffBlock]) -> Iterator[str]:
    group: list[DiffBlock] = []
    for block in found:
        if group and block.old - group[-1].old_end > 2 * CONTEXT:
            yield _hunk(old, new, group)
            group = []
        group.append(block)
    if group:
        yield _hunk(old, new, group)


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[DiffBlock]) -> str:
    start, end = max(0, group[0].old - CONTEXT), min(len(old), group[-1].old_end + CONTEXT)
    new_start, new_end = group[0].new - (group[0].old - start), group[-1].new_end + (end - group[-1].old_end)
    lines = [f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"]
    at = start
    for block in group:
        lines += [_line(" ", line) for line in old[at : block.old]]
        lines += [_line("-", line) for line in old[block.old : block.old_end]]
        lines += [_line("+", line) for line in new[block.new : block.new_end]]
        at = block.old_end
    lines += [_line(" ", line) for line in old[at:end]]
    return "".join(lines)


def _range(start: int, end: int) -> str:
    count = end - start
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def _line(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n{NO_END}\n"
