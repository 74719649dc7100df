"""A unified diff of several files: its lines by what they are, its parts by file, and their hunks with line numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from mcc.contracts.line_ends import hunk_counts


class DiffLine(Enum):
    """What a line of a diff is. `BEGINS`: the first line of a file's part."""

    BEGINS = "begins"
    HEAD = "head"
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"
    KEPT = "kept"
    NOTE = "note"


_SIGNS = {"+": DiffLine.ADDED, "-": DiffLine.REMOVED}
_BEGIN = ("--- ", "rename from ", "Binary files ")
_CUT = "[not all is shown"


def marked(diff: str) -> Iterator[tuple[DiffLine, str]]:
    """Each line with what it is. The lines of a hunk are counted as its head says: a line of a file can look like the
    head of another file."""
    old = new = 0
    for line in diff.removesuffix("\n").split("\n"):
        sign = line[:1]
        if (old or new) and sign in ("+", "-", " "):
            old, new = old - (sign != "+"), new - (sign != "-")
            yield _SIGNS.get(sign, DiffLine.KEPT), line
        elif (counts := hunk_counts(line)) is not None:
            old, new = counts
            yield DiffLine.HUNK, line
        elif line.startswith(_BEGIN):
            yield DiffLine.BEGINS, line
        elif line.startswith(("+++ ", "rename to ")):
            yield DiffLine.HEAD, line
        else:
            yield DiffLine.NOTE, line


def parts(diff: str) -> Sequence[str]:
    """The parts of the files, in the order of `Changes.files`; what says that not all is shown is none."""
    files: list[list[str]] = []
    for kind, line in marked(diff):
        if kind is DiffLine.BEGINS:
            files.append([])
        if files and not (kind is DiffLine.NOTE and line.startswith(_CUT)):
            files[-1].append(line)
    return ["".join(f"{line}\n" for line in lines) for lines in files]


@dataclass(frozen=True, slots=True)
class HunkLine:
    """`sign`: " ", "+" or "-"; `old` and `new`: its number in either file, from 1 on, None where it is not there."""

    sign: str
    old: int | None
    new: int | None
    text: str


@dataclass(slots=True)
class DiffHunk:
    header: str
    lines: list[HunkLine] = field(default_factory=list)


def hunks(part: str) -> Sequence[DiffHunk]:
    """The hunks of one file's part."""
    made: list[DiffHunk] = []
    old = new = 0
    for kind, line in marked(part):
        match kind:
            case DiffLine.HUNK:
                made.append(DiffHunk(line))
                first = [place[1:].partition(",")[0] for place in line.split(" ", 3)[1:3]]
                old, new = (int(number) if number.isascii() and number.isdecimal() else 0 for number in first)
            case DiffLine.ADDED:
                made[-1].lines.append(HunkLine("+", None, new, line[1:]))
                new += 1
            case DiffLine.REMOVED:
                made[-1].lines.append(HunkLine("-", old, None, line[1:]))
                old += 1
            case DiffLine.KEPT:
                made[-1].lines.append(HunkLine(" ", old, new, line[1:]))
                old, new = old + 1, new + 1
    return made


def path_of(part: str) -> str:
    """The path that a file's part names after the change, before it where the file was deleted; "" for none."""
    names = [line.split(" ", 1)[1].partition("\t")[0] for line in part.split("\n")[:2] if line[:4] in ("--- ", "+++ ")]
    kept = [name for name in reversed(names) if name != "/dev/null"]
    return kept[0].partition("/")[2] if kept else ""
