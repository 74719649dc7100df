"""Shared by all commands: options, exit codes, errors as sentences on stderr, pairs and Markdown on stdout."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mcc.view.output import print_json as print_json
from mcc.view.output import say as say
from mcc.view.tables import print_table as print_table

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from mcc.settings import ServiceSettings

DONE, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3
INTERRUPTED = 130
"""Stopped from the keyboard: the exit code that shells report for a program ended by SIGINT (128 + 2)."""

AsJson = Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")]
DataDir = Annotated[Path | None, typer.Option(help="Where everything is kept; MCC_DATA_DIR if left out.")]
Url = Annotated[
    str | None,
    typer.Option(envvar="MCC_URL", help="The service to talk to; the family on this machine if left out."),
]


def say_configuration(settings: "ServiceSettings") -> None:
    """Print which configuration files are in force, and what of them and of the environment is ignored."""
    from mcc.view.output import brief

    for sentence in filter(None, (settings.configuration.summary, settings.passed_over)):
        say(brief(sentence, 2_000))


def fail(sentence: str, code: int = FAILED) -> NoReturn:
    say(f"mcc: {sentence}")
    raise typer.Exit(code)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of settings, of the local processes and of the store into a sentence and an exit code."""
    from mcc.local.errors import FamilyError, UnfitRedis, UnusableDatabase
    from mcc.settings import BadSettings
    from mcc.store.database.errors import StoreError, Unfit

    try:
        yield
    except BadSettings as error:
        fail(str(error), USAGE)
    except (UnfitRedis, UnusableDatabase, Unfit) as error:
        fail(str(error), UNREACHABLE)
    except (FamilyError, StoreError) as error:
        fail(str(error))


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print a name and its value per line, wrapped to the terminal; pairs whose value is None are left out."""
    from mcc.view.output import clean, window, wrapped

    shown, columns = [(name, clean(str(value))) for name, value in pairs if value is not None], window()
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        # Further lines of a value are indented, so that none of them looks like a pair of its own.
        for line in f"{name:<{width}}  {value}".replace("\n", "\n" + " " * (width + 2)).split("\n"):
            for part in wrapped(line, columns, width + 2):
                print(part)


def print_markdown(text: str) -> None:
    """Print an answer: rendered on a terminal, else as it is; `clean`, and with all that Markdown would leave out."""
    from mcc.view.output import clean

    safe = clean(text)
    if not sys.stdout.isatty():
        print(safe)
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Code in the terminal's own colours: rich's default is a black background, which stands out in a light window.
    colours = Theme({"markdown.code": "bold cyan", "markdown.code_block": "cyan"})
    shown = Markdown(safe, hyperlinks=False, code_theme="ansi_light")
    shown.parsed = _everything_shown().parse(safe)
    Console(highlight=False, theme=colours).print(shown)


def _everything_shown() -> "MarkdownIt":
    """A parser for rich that leaves to be shown as text what would not be shown: HTML, the addresses of pictures,
    definitions of links, and character references, which could stand for what `clean` has just escaped."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["entity", "html_block", "html_inline", "image", "reference"])


def clock(moment: datetime | None) -> str:
    """A time in this machine's time zone; "" for None."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""
