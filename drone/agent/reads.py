"""What `read_file` shows of a file: a head and numbered lines, written here and found again in a journal."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mcc.rules.patterns import Pattern

READ_FILE = "read_file"

_HEAD = Pattern(r'^(?P<path>"[^\n]*"|[^"\n][^\n]*), lines (?P<first>\d+)-(?P<last>\d+)(?: of [\d,]+)?, [\d,]+ bytes')
_CUT = " [cut: "


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a file as they were shown, the first of them with number `first`; `path` as the tool spelled it."""

    path: str
    first: int
    lines: tuple[str, ...]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def holds(self, line: int) -> bool:
        return self.first <= line <= self.last


def numbered(number: int, line: str) -> str:
    return f"{number}\t{line}\n"


def head(path: str, first: int, last: int, total: int | None, size: int, notes: Sequence[str] = ()) -> str:
    """The line above the numbered ones; `path` on one line, `size` in bytes."""
    of = f" of {total:,}" if total is not None else ""
    return ", ".join((f"{path}, lines {first}-{last}{of}, {size:,} bytes", *notes)) + "\n"


def cut_mark(missing: int) -> str:
    """What stands at the end of a line of which so many bytes are not shown."""
    return f"{_CUT}{missing:,} more bytes]"


def passages(content: str) -> Iterator[Passage]:
    """The passages in a result of `read_file` without its fence, in their order; marks of cut lines are taken off."""
    path, first, lines = "", 0, list[str]()
    for line in content.split("\n"):
        number, tab, text = line.partition("\t")
        if tab and number.isdecimal():
            if path and int(number) == first + len(lines):
                lines.append(text.rpartition(_CUT)[0] if text.endswith(" more bytes]") and _CUT in text else text)
            continue
        if lines:
            yield Passage(path, first, tuple(lines))
            path, lines = "", []
        if (found := _HEAD.match(line)) is not None:
            path, first = _plain(found["path"]), int(found["first"])
    if lines:
        yield Passage(path, first, tuple(lines))


def _plain(path: str) -> str:
    """A path as the tools write it on one line, as it is."""
    if not path.startswith('"'):
        return path
    try:
        return str(json.loads(path))
    except ValueError:
        return path
