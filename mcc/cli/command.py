"""What commands share: options, exit codes, sentences on stderr, JSON and tables on stdout."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mcc.view.output import print_json as print_json
from mcc.view.tables import print_table as print_table

if TYPE_CHECKING:
    from mcc.settings import Settings

DONE, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3
INTERRUPTED = 130
"""Stopped from the keyboard: what shells say of a program that SIGINT ended."""

AsJson = Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")]
DataDir = Annotated[Path | None, typer.Option(help="Where everything is kept; MCC_DATA_DIR if left out.")]
Url = Annotated[
    str | None,
    typer.Option(envvar="MCC_URL", help="The service to talk to; the family on this machine if left out."),
]


def say(sentence: str) -> None:
    """One line for people, on stderr so that stdout holds only what was asked for; lost when nobody reads stderr."""
    from mcc.view.output import clean

    # In `mcc up 2>&1 | tee log` a Ctrl-C ends tee first, and the family has still to stop.
    with suppress(BrokenPipeError):
        print(clean(sentence), file=sys.stderr, flush=True)


def say_configuration(settings: "Settings") -> None:
    """Say which configuration files count, and what in these was passed over; nothing where there is no file."""
    from mcc.view.output import one_line

    if sentence := settings.configuration.summary:
        say(one_line(sentence, 2_000))


def fail(sentence: str, code: int = FAILED) -> NoReturn:
    say(f"mcc: {sentence}")
    raise typer.Exit(code)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what a family, a store or a setting refuses into a sentence and an exit code."""
    from mcc.local.errors import FamilyError
    from mcc.settings import BadSettings
    from mcc.store.errors import StoreError

    try:
        yield
    except BadSettings as error:
        fail(str(error), USAGE)
    except (FamilyError, StoreError) as error:
        fail(str(error))


def print_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """A name and its value per line; what is None is left out."""
    from mcc.view.output import clean

    shown = [(name, clean(str(value))) for name, value in pairs if value is not None]
    width = max(len(name) for name, _ in shown)
    for name, value in shown:
        print(f"{name:<{width}}  {value}")


def print_markdown(text: str) -> None:
    """An answer: rendered on a terminal, as it is elsewhere; nothing in it is obeyed by the terminal."""
    from mcc.view.output import clean

    safe = clean(text)
    if not sys.stdout.isatty():
        print(safe)
        return
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.theme import Theme

    # Code in the terminal's own colours: a black background would be a hole in a light window.
    colours = Theme({"markdown.code": "bold cyan", "markdown.code_block": "cyan"})
    Console(highlight=False, theme=colours).print(Markdown(safe, hyperlinks=False, code_theme="ansi_light"))


def clock(moment: datetime | None) -> str:
    """A time as this machine's clock shows it."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}" if moment else ""
