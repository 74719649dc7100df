"""Lines of a tree: words on the left, as many as there is room for; figures on the right, each in its own column."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from mcc.contracts.usage import Usage
from mcc.view import figures

NARROW, NARROWEST = 72, 36
"""Below so many columns figures are written short; below so many there is room for times alone."""
KEPT = 16
"""So much of a title, and of what is said of it, stays where there is not room enough for both."""

LEAST = 5
"""Of words with less room than this nothing is shown."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a window of this width."""

    console: Console
    width: int

    def figures(self, seconds: str, usage: Usage | None = None) -> str:
        """Figures of a row as they stand at the right end of its line; rows without `usage` have a time alone."""
        if self.width < NARROWEST:
            return f"{seconds:>9}" if self.width > 2 * 9 else ""
        tokens = cost = ""
        if usage is not None:
            none = not usage.total_tokens and not usage.cost_usd and usage.model_calls
            cost = "" if none else figures.brief_cost(usage)
            total = usage.total_tokens
            wide = "no tokens" if none else f"{total:,} tokens" if total < 1_000_000 else ""
            tokens = wide if self.width >= NARROW and wide else figures.brief_tokens(total)
        return f"{seconds:>9}{tokens:>16}{cost:>10}" if self.width >= NARROW else f"{seconds:>8}{tokens:>6}{cost:>8}"

    def line(self, guide: str, name: Text, title: Text, said: Text, figures: str) -> Text:
        """A row on one line: where the window is too narrow, first the title gives way, then what is said, as long as
        words of both can be read; then all of the title, then all that is said."""
        room = self.width - cell_len(guide) - cell_len(figures)
        for part, least in ((title, KEPT), (said, KEPT), (title, 0), (said, 0)):
            over = name.cell_len + title.cell_len + said.cell_len - room
            if over > 0:
                left = max(least, part.cell_len - over)
                part.truncate(left if left >= LEAST else 0, overflow="ellipsis")
        words = Text.assemble(name, title, said)
        words.truncate(max(1, room), overflow="ellipsis", pad=True)
        line = Text.assemble((guide, "dim"), words, (figures, "dim"))
        line.rstrip()
        return line

    def below(self, guide: str, glyph: tuple[str, str], text: str, style: str = "") -> Iterator[Text]:
        """Words of their own lines, all of them, beginning with a glyph."""
        room = max(8, self.width - cell_len(guide) - 2)
        for number, line in enumerate(Text(text, style).wrap(self.console, room)):
            line.truncate(room)
            yield Text.assemble((guide, "dim"), ("  ", "") if number else (f"{glyph[0]} ", glyph[1]), line)
