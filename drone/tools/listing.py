"""Listings that fit: directories opened breadth first while there is room, the others folded into a count."""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import takewhile

from drone.tools.display_text import written
from drone.tools.walk import Found, Kind

_MARKS = {Kind.LINK: " (symbolic link)", Kind.OTHER: " (not a regular file)"}


def folded(found: Sequence[Found], most: int) -> list[str]:
    """At most `most` lines for what a walk found, in its order, and one more that says what is not shown.

    Where `found` names directories, each is a line of its own; where it names files alone, only those that are folded.
    """
    if len(found) <= most:
        return [_line(one) for one in found]
    lines, hidden = _Tree(found).lines(most)
    if (more := len(lines) - most) > 0:
        return [*lines[:most], f"[{more:,} more are not shown. Name a directory below, or raise limit.]"]
    files = plural(hidden, "file")
    return [*lines, f"[{files} in folded directories: not shown. Name a directory as path, or raise limit.]"]


class _Tree:
    """What was found, by the directory in which it lies; those above that were not found themselves are added."""

    def __init__(self, found: Sequence[Found]) -> None:
        self._named = {one.path for one in found if one.kind is Kind.DIRECTORY}
        self._top = _common([one.path.rpartition("/")[0] for one in found])
        self._below: dict[str, dict[str, Found]] = defaultdict(dict)
        self._files: dict[str, int] = defaultdict(int)
        for one in found:
            self._put(one)

    def _put(self, one: Found) -> None:
        path, is_new, is_file = one.path, True, one.kind is not Kind.DIRECTORY
        while path != self._top:
            above = path.rpartition("/")[0]
            if is_new:
                is_new = path not in self._below[above]
                self._below[above].setdefault(path, one if path == one.path else Found(path, Kind.DIRECTORY))
            self._files[above] += is_file
            if not (is_new or is_file):
                return
            path = above

    def opened(self, most: int) -> set[str]:
        """The directories whose entries are shown, so that there are at most so many lines; always the topmost."""
        opened, waiting = {self._top}, deque(self._directories(self._top))
        lines = len(self._below[self._top])
        while waiting:
            directory = waiting.popleft()
            more = len(self._below[directory]) - (directory not in self._named)
            if lines + more <= most:
                lines += more
                opened.add(directory)
                waiting.extend(self._directories(directory))
        return opened

    def _directories(self, directory: str) -> list[str]:
        return [path for path, one in self._below[directory].items() if one.kind is Kind.DIRECTORY]

    def lines(self, most: int) -> tuple[list[str], int]:
        """The lines, each directory before what is in it, and how many files are in folded directories."""
        opened, hidden = self.opened(most), 0
        lines: list[str] = []
        stack = list(reversed(self._below[self._top].values()))
        while stack:
            one = stack.pop()
            if one.path in opened:
                lines.extend([_line(one)] if one.path in self._named else [])
                stack.extend(reversed(self._below[one.path].values()))
                continue
            files = self._files.get(one.path, 0)
            lines.append(_line(one) + (f" ({plural(files, 'file')})" if files else ""))
            hidden += files
        return lines, hidden


def plural(number: int, word: str) -> str:
    many = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number:,} {word if number == 1 else many}"


def _line(found: Found) -> str:
    if found.kind is Kind.DIRECTORY:
        return written(found.path + "/")
    return written(found.path) + _MARKS.get(found.kind, "")


def _common(directories: Sequence[str]) -> str:
    """The directory that holds all of these."""
    parts = [directory.split("/") for directory in directories]
    same = zip(min(parts), max(parts), strict=False)
    return "/".join(name for name, _ in takewhile(lambda names: names[0] == names[1], same))
