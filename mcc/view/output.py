"""What both command lines write to standard output: tables for people, JSON for machines."""

import sys
from collections.abc import Iterable, Sequence


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """Rows under headings; `empty` is said when there are none. Wide cells are cut only on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mcc.view.clean import one_line

    rows = list(rows)
    if not rows:
        print(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(one_line(str(cell), 200)) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=1_000)
    console.print(table)


def print_json(value: object) -> None:
    """`value` (contracts included) as one line of JSON, with escapes for what a terminal would obey or hide."""
    from mcc.contracts.shape import to_json
    from mcc.view.clean import clean_json

    sys.stdout.buffer.write(clean_json(to_json(value)) + b"\n")
    sys.stdout.buffer.flush()
