"""What a check of models showed, as a table with the sentences below it."""

import functools
from collections.abc import Iterable, Iterator, Sequence

from mcc.contracts.model_checks import ModelCheck
from mcc.contracts.usage import Usage
from mcc.view import figures
from mcc.view.clean import clean
from mcc.view.output import print_table

CHECKED = ("NAME", "STATE", "KEY", "WINDOW", "TOOLS", "STREAMING", "THINKING", "CACHING", "TIME", "MODEL", "DRONE")


def print_checks(checks: Sequence[ModelCheck]) -> None:
    """A row per model, below them what is wrong and what else is worth knowing, at the end what it cost."""
    print_table(CHECKED, map(_cells, checks), empty="No model: is there a drone? mcc drones says.")
    for said in (f"{one.name}: {sentence}" for one in checks for sentence in _sentences(one)):
        print(f"\n{clean(said)}")
    if spent := total(checks):
        print(f"\n{figures.spent(spent)}")


def total(checks: Iterable[ModelCheck]) -> Usage | None:
    """What all of the calls spent, None where none said anything of that."""
    spent = [one.usage for one in checks if one.usage is not None]
    return functools.reduce(Usage.plus, spent) if spent else None


def _cells(one: ModelCheck) -> Sequence[str]:
    window = "?" if one.context_tokens is None else f"{one.context_tokens:,} ({one.window_from})"
    seconds = "" if one.seconds is None else figures.seconds(one.seconds)
    found = map(_word, (one.tools, one.streaming, one.thinking))
    state = "ok" if one.problem is None else "problem"
    return (one.name, state, one.key, window, *found, one.caching or "?", seconds, one.model, one.drone)


def _word(found: bool | None) -> str:
    return "?" if found is None else "yes" if found else "no"


def _sentences(one: ModelCheck) -> Iterator[str]:
    if one.problem is not None:
        yield one.problem
    yield from one.notes
