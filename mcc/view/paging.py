"""Long output: in colours and page by page on a terminal, plain where it goes elsewhere."""

import sys
from collections.abc import Iterable, Iterator

from mcc.view.output import wrapped


def show_paged(lines: Iterable[tuple[str, str]], indent: int = 0) -> None:
    """Print lines that are `clean` already, each with the style before it; in a pager where a terminal is too low.

    What does not fit a line goes on in the next one, indented by so many columns.
    """
    if not sys.stdout.isatty():
        for _, line in lines:
            print(line)
        return
    from rich.console import Console

    console = Console(highlight=False)
    made = list(lines)
    rendered = list(_rendered(made, console.width, indent))
    if sum(text.count("\n") for text in rendered) < console.height:
        print("".join(rendered), end="", flush=True)
        return
    import click

    # Whether the pager shows colours is decided by click: to `less` it says so, which would else print the codes.
    click.echo_via_pager(rendered)


def _rendered(lines: Iterable[tuple[str, str]], width: int, indent: int) -> Iterator[str]:
    """The lines as a terminal of this many columns takes them; a word that is longer than a line is not cut."""
    import io

    from rich.console import Console
    from rich.text import Text

    for style, line in lines:
        screen = Console(file=(written := io.StringIO()), force_terminal=True, width=width, highlight=False)
        for part in wrapped(line, width, indent) if indent else (line,):
            screen.print(Text(part, style), overflow="fold")
        yield written.getvalue()
