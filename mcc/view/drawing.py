"""A picture on a terminal that is drawn again and again: only lines that changed are written, each in place."""

from collections.abc import Callable

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from mcc.view.glyphs import in_plain

BEGIN, END = "\x1b[?2026h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?2026l"
"""Around what is written at once: terminals that know mode 2026 show all of it in one step. No cursor is seen, and no
line wraps, however wide the terminal draws it."""
SHOW_CURSOR, ERASE_REST_OF_LINE, ERASE_BELOW = "\x1b[?25h", "\x1b[K", "\x1b[J"


class Drawing:
    """What of a picture stands on the terminal. The cursor waits at the beginning of the line below it."""

    def __init__(self, console: Console, write: Callable[[str], object]) -> None:
        self._console = console
        self._write = write
        self._lines: list[str] = []
        self._size = (0, 0)

    def show(self, picture: RenderableType) -> None:
        """Make the terminal show `picture`, which has fewer lines than the window."""
        size = self._console.size
        lines, up, moved = self._drawn(picture), self._rows(size.width), size != self._size
        changes: list[str] = []
        at = -up
        for number, line in enumerate(lines):
            if moved or number >= len(self._lines) or line != self._lines[number]:
                changes.append(_to(number - up - at) + line + ERASE_REST_OF_LINE + "\r\n")
                at = number - up + 1
        if moved or len(lines) < len(self._lines):
            changes.append(_to(len(lines) - up - at) + ERASE_BELOW)
            at = len(lines) - up
        if changes:
            self._write("".join((BEGIN, "\r", _to(-up), *changes, _to(len(lines) - up - at), END)))
        self._lines, self._size = lines, size

    def leave(self, last: RenderableType | None = None) -> None:
        """Take the picture away, and put `last` in its place, all of it; the cursor is seen again."""
        lines = self._drawn(last) if last is not None else []
        up = self._rows(self._console.size.width)
        written = "".join(f"{line}\r\n" for line in lines)
        self._write(f"{BEGIN}\r{_to(-up)}{ERASE_BELOW}{SHOW_CURSOR}{written}{END}")
        self._lines, self._size = [], (0, 0)

    def _drawn(self, picture: RenderableType) -> list[str]:
        with self._console.capture() as captured:
            self._console.print(picture, crop=False, soft_wrap=False)
        text = captured.get()
        if not (encoding := self._console.encoding).lower().startswith("utf"):
            text = in_plain(text, encoding)
        return text.removesuffix("\n").split("\n") if text else []

    def _rows(self, width: int) -> int:
        """How many rows of the window the picture takes: terminals wrap its lines where the window became narrower."""
        if width >= self._size[0]:
            return len(self._lines)
        return sum(max(1, -(-cell_len(Text.from_ansi(line).plain) // width)) for line in self._lines)


def _to(rows: int) -> str:
    """So many rows further down, at the same column; up for a number below zero."""
    return f"\x1b[{rows}B" if rows > 0 else f"\x1b[{-rows}A" if rows < 0 else ""
