"""This room is for what several commands have in common: exit codes, options, and how to say a thing."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from mcc.settings import Settings

DONE, FAILED, USAGE, UNREACHABLE = 0, 1, 2, 3

AsJson = Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")]
DataDir = Annotated[Path | None, typer.Option(help="Where everything is kept; MCC_DATA_DIR if left out.")]
Url = Annotated[
    str | None,
    typer.Option(envvar="MCC_URL", help="The service to talk to; the family on this machine if left out."),
]


def say(sentence: str) -> None:
    """One line for people, on stderr so that stdout holds only what was asked for."""
    from mcc.view.clean import clean

    print(clean(sentence), file=sys.stderr, flush=True)


def say_configuration(settings: "Settings") -> None:
    """Which files count for a process that starts, and what was passed over; nothing where there is no file."""
    from mcc.view.clean import one_line

    if told := settings.configuration.told:
        say(one_line(told, 2_000))


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
