"""Tables for people: columns side by side; where the window is too narrow, each row takes several lines.

Only the last column, which holds text, is ever cut; ids and names are not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mcc.view.output import one_line, wrapped

CELL_CHARACTERS = 200
GAP = 2
LEAST = 16
"""The last column is not shrunk below this many characters: it moves to a line of its own instead."""


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
    characters: int = CELL_CHARACTERS,
    is_whole: bool = False,
) -> None:
    """Print rows under headings, or `empty` when there are none. Where stdout is no terminal, a row is one line.

    Cells are made `clean`, and hold at most so many `characters`. `is_whole`: the last column is not cut either.
    """
    from rich.console import Console
    from rich.text import Text

    cells = [[one_line(str(cell), characters) for cell in row] for row in rows]
    if not cells:
        print(empty)
        return
    console = Console(highlight=False)
    layout = Layout.of((columns, *cells), console.width if console.is_terminal else None, is_whole=is_whole)
    for style, row in (("bold", columns), *(("", row) for row in cells)):
        for line in layout.lines(row):
            console.print(Text(line, style), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns share which line of a row, and the width of each; the last column gets the width that is left.

    A column wider than `window` (None = unlimited) is wrapped onto further lines, indented.
    """

    lines_of_columns: Sequence[Sequence[int]]
    widths: Sequence[int]
    window: int | None

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]], window: int | None, *, is_whole: bool = False) -> "Layout":
        """A layout for `rows`, headings included, in a window of that many columns; None = unlimited. `is_whole`: the
        last column, where it is too wide to stand beside the others, has lines of its own."""
        from rich.cells import cell_len

        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        last = len(widths) - 1
        if window is None:
            return cls([range(len(widths))], widths, None)
        if is_whole and sum(widths) + GAP * last > window:
            return cls([range(last), range(last, last + 1)], widths, window)
        lines: list[list[int]] = [[]]
        left = window
        for number, width in enumerate(widths):
            least = min(width, LEAST) if number == last else width
            if lines[-1] and least > left:
                lines.append([])
                left = window - GAP
            lines[-1].append(number)
            if number == last:
                widths[last] = min(width, max(left, least))
            left -= width + GAP
        return cls(lines, widths, window)

    def lines(self, row: Sequence[str]) -> Iterator[str]:
        """The lines of one row, or of the headings: all but the first are indented, empty ones are left out."""
        from rich.cells import set_cell_size

        for number, columns in enumerate(self.lines_of_columns):
            cells = [self._cell(row[column], column) for column in columns]
            padded = (set_cell_size(cell, self.widths[column]) for cell, column in zip(cells, columns, strict=True))
            line = (" " * GAP).join(padded).rstrip()
            if line:
                yield from wrapped(" " * (GAP if number else 0) + line, self.window, 2 * GAP)

    def _cell(self, text: str, column: int) -> str:
        """A cell's text, cut to its column's width; only the last column's width can be too small."""
        from rich.cells import cell_len, set_cell_size

        width = self.widths[column]
        return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"
