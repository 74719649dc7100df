"""The page on commands: the help of every one of them, as it is printed."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import typer
from typer.testing import CliRunner

import drone.cli
import mcc.cli.main

APPS = {"mcc": mcc.cli.main.app, "drone": drone.cli.app}
WIDTH = {"COLUMNS": "100"}


@cache
def command(name: str) -> Any:
    """The program with all its commands, made once: each time takes longer than any help."""
    return typer.main.get_command(APPS[name])


def paths(name: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included; the first is the program itself."""

    def below(here: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for word, inside in getattr(here, "commands", {}).items():
            yield from below(inside, (*words, word))

    yield from below(command(name), ())


def page() -> Iterator[str]:
    yield from ("# Commands", "")
    yield (
        "Exit codes: 0 done, 1 failed, 2 usage, 3 no service reached (for `drone work`: the database cannot be used), "
        "130 stopped from the keyboard."
    )
    yield ""
    for name in APPS:
        for words in paths(name):
            yield from (f"## {' '.join((name, *words))}", "", "```text", _help(name, words), "```", "")


def _help(name: str, words: tuple[str, ...]) -> str:
    with CliRunner().isolation(env=WIDTH) as (said, *_):
        with suppress(SystemExit):
            command(name).main([*words, "--help"], prog_name=name)
        sys.stdout.flush()
        return said.getvalue().decode().strip()
