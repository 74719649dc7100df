"""Tables for people: columns side by side, or where the window is too narrow a row on several lines.

Ids and names are never cut: only the last column is, which holds text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mcc.view.output import one_line, wrapped

CELL_CHARACTERS = 200
GAP = 2
LEAST = 16
"""To less than so many columns of the window the last column is not shrunk: it goes to a line of its own."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Rows under headings; `empty` is said when there are none. Anywhere but on a terminal a row is one line."""
    from rich.console import Console
    from rich.text import Text

    cells = [[one_line(str(cell), CELL_CHARACTERS) for cell in row] for row in rows]
    if not cells:
        print(empty)
        return
    console = Console(highlight=False)
    layout = Layout.of((columns, *cells), console.width if console.is_terminal else None)
    for style, row in (("bold", columns), *(("", row) for row in cells)):
        for line in layout.lines(row):
            console.print(Text(line, style), soft_wrap=True)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns stand on which line of a row; `widths` of all, the last one's as much as is left for it. A column
    that is wider than the window (None = as wide as need be) goes on on further lines, indented."""

    lines_of_columns: Sequence[Sequence[int]]
    widths: Sequence[int]
    window: int | None

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]], window: int | None) -> "Layout":
        """`window`: how wide it is; None = as wide as need be."""
        from rich.cells import cell_len

        widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
        last = len(widths) - 1
        if window is None:
            return cls([range(len(widths))], widths, None)
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
        """A row, or the headings; what stands on later lines is indented, and a line of nothing is left out."""
        from rich.cells import set_cell_size

        for number, columns in enumerate(self.lines_of_columns):
            cells = [self._cell(row[column], column) for column in columns]
            padded = (set_cell_size(cell, self.widths[column]) for cell, column in zip(cells, columns, strict=True))
            line = (" " * GAP).join(padded).rstrip()
            if line:
                yield from wrapped(" " * (GAP if number else 0) + line, self.window, 2 * GAP)

    def _cell(self, text: str, column: int) -> str:
        """A text of the last column as much as there is room for."""
        from rich.cells import cell_len, set_cell_size

        width = self.widths[column]
        return text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}…"
