"""A terminal for tests: pyte, which wraps its lines anew when its window becomes narrower or wider, as terminals do."""

import io
from collections.abc import Sequence

import pyte
from rich.console import Console, ConsoleDimensions
from rich.text import Text


class Terminal:
    """A window with what was written to it; rows that left it at its upper end are gone."""

    def __init__(self, width: int, height: int, encoding: str = "utf-8") -> None:
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)
        self.written: list[str] = []
        self.console = Console(
            file=io.TextIOWrapper(io.BytesIO(), encoding), force_terminal=True, color_system=None, highlight=False
        )
        self._tell_size()

    def write(self, text: str) -> None:
        self.written.append(text)
        self._stream.feed(text)

    @property
    def rows(self) -> list[str]:
        """What is seen, without blank rows at the lower end."""
        rows = [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def cursor(self) -> tuple[int, bool]:
        """The row of the cursor, and whether it is seen."""
        return self._screen.cursor.y, not self._screen.cursor.hidden

    def resize(self, width: int, height: int) -> None:
        """Rows that the program ended stay rows; one that is wider than the window takes several."""
        screen = self._screen
        above = [piece for row in screen.display[: screen.cursor.y] for piece in _wrapped(row.rstrip(), width)]
        hidden = screen.cursor.hidden
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)
        self._stream.feed("\x1b[?25l" if hidden else "")
        self._stream.feed("".join(f"{row}\r\n" for row in above))
        self._tell_size()

    def _tell_size(self) -> None:
        self.console.size = ConsoleDimensions(self._screen.columns, self._screen.lines)


def _wrapped(row: str, width: int) -> Sequence[str]:
    """The row in pieces that fit."""
    pieces, rest = [], Text(row)
    while rest.cell_len > width:
        piece = rest.copy()
        piece.truncate(width)
        pieces.append(piece.plain)
        rest = rest[len(piece.plain) :]
    return [*pieces, rest.plain]
