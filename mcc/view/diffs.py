"""A unified diff of several files as people see it: the part of a path, its lines with styles, and line counts."""

from collections.abc import Iterator, Mapping, Sequence

from mcc.contracts.changes import ChangedFile
from mcc.contracts.invisible import escape_invisible
from mcc.contracts.line_ends import crlf_in_heads
from mcc.contracts.unified_diff import DiffLine, marked, parts

STYLES: Mapping[DiffLine, str] = {
    DiffLine.BEGINS: "bold",
    DiffLine.HEAD: "bold",
    DiffLine.HUNK: "cyan",
    DiffLine.ADDED: "green",
    DiffLine.REMOVED: "red",
    DiffLine.NOTE: "dim",
}


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
