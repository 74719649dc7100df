"""The page on commands: the help of every one of them, as it is printed."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.testing import CliRunner

import drone.cli
import mcc.cli.main

APPS = {"mcc": mcc.cli.main.app, "drone": drone.cli.app}
WIDTH = {"COLUMNS": "100"}


def paths(name: str) -> Iterator[tuple[str, ...]]:
    """The words of every command, groups included; the first is the program itself."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for word, inside in getattr(command, "commands", {}).items():
            yield from below(inside, (*words, word))

    yield from below(typer.main.get_command(APPS[name]), ())


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
    done = CliRunner().invoke(APPS[name], [*words, "--help"], prog_name=name, env=WIDTH)
    return done.output.strip()
