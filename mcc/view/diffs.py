"""A unified diff of several files: its lines by what they are, and its parts by file."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from mcc.contracts.changes import ChangedFile
from mcc.contracts.invisible import escape_invisible
from mcc.contracts.line_ends import crlf_in_heads, hunk_counts


class DiffLine(Enum):
    """What a line of a diff is. `BEGINS`: the first line of a file's part."""

    BEGINS = "begins"
    HEAD = "head"
    HUNK = "hunk"
    ADDED = "added"
    REMOVED = "removed"
    KEPT = "kept"
    NOTE = "note"


STYLES: Mapping[DiffLine, str] = {
    DiffLine.BEGINS: "bold",
    DiffLine.HEAD: "bold",
    DiffLine.HUNK: "cyan",
    DiffLine.ADDED: "green",
    DiffLine.REMOVED: "red",
    DiffLine.NOTE: "dim",
}

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


def of_path(diff: str, files: Sequence[ChangedFile], path: str) -> str:
    """The parts of the file at `path`, or of all below it."""
    return "".join(part for part, file in zip(parts(diff), files, strict=False) if is_at(file, path))


def is_at(file: ChangedFile, path: str) -> bool:
    """Whether a file is at `path` or below it, or was before it was renamed."""
    wanted = path.removeprefix("./").rstrip("/")
    names = [name for name in (file.path, file.source) if name is not None]
    return wanted in ("", ".") or any(name == wanted or name.startswith(f"{wanted}/") for name in names)


def shown_lines(diff: str) -> Iterator[tuple[str, str]]:
    """The lines of a diff for people, each with the style it is shown in; `clean`."""
    for kind, line in marked(crlf_in_heads(diff)):
        yield STYLES.get(kind, ""), escape_invisible(line)


def stat_lines(files: Sequence[ChangedFile]) -> Iterator[tuple[str, str]]:
    """A line for each changed file, and one for all of them; `clean`."""
    width = max((len(f"{file.added:,}") + len(f"{file.removed:,}") for file in files), default=0) + 3
    for file in files:
        moved = f" (from {file.source})" if file.source is not None else ""
        counts = f"+{file.added:,} −{file.removed:,}"
        yield "", escape_invisible(f"{counts:<{width}}  {file.change:<8}  {file.path}{moved}".replace("\n", "\\n"))
    added, removed = sum(file.added for file in files), sum(file.removed for file in files)
    yield "bold", f"{len(files):,} {'file' if len(files) == 1 else 'files'}, +{added:,} −{removed:,} lines"
