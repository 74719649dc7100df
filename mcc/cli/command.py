"""Shared by all commands: options, exit codes, errors as sentences on stderr, pairs on stdout."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mcc.view.output import clock as clock
from mcc.view.output import listed_id as listed_id
from mcc.view.output import print_json as print_json
from mcc.view.output import print_markdown as print_markdown
from mcc.view.output import print_wrapped as print_wrapped
from mcc.view.output import say as say
from mcc.view.tables import print_table as print_table

if TYPE_CHECKING:
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
