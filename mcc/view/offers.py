"""Tables of what drones offer (agents, tools, models) and of model checks, for both command lines."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mcc.view.output import print_wrapped
from mcc.view.tables import print_table

if TYPE_CHECKING:
    from mcc.contracts.answers import ModelCheck, Offer
    from mcc.contracts.drones import Capability
    from mcc.contracts.usage import Usage


def print_offers(
    columns: Sequence[str], rows: Sequence[tuple["Offer | Capability", Sequence[object]]], *, empty: str
) -> None:
    """A row for each offer (its name, its state, and the cells given with it), then the problems of the broken ones."""
    states = [_state(offer) for offer, _ in rows]
    cells = [(offer.name, state, *more) for (offer, more), state in zip(rows, states, strict=True)]
    print_table(columns, cells, empty=empty)
    for offer in (offer for offer, _ in rows if offer.problem):
        print_wrapped(f"\n{offer.name}: {offer.problem}")


def _state(one: "Offer | Capability") -> str:
    """A tool has a state of its own; an agent or a model is usable, or broken."""
    state = one.state or (BROKEN if one.problem else USABLE)
    return f"{state}, default" if one.default else state


USABLE, BROKEN = "usable", "broken"

_WINDOW_FROM = {"configuration": "mcc.toml", "table": "the table of models", "server": "its server"}

CHECKED = ("NAME", "STATE", "KEY", "WINDOW", "TOOLS", "STREAM", "THINK", "CACHE", "TIME", "MODEL")


def print_checks(checks: Sequence["ModelCheck"]) -> None:
    """A row per model, then the problems and notes found, then what the checks cost."""
    from mcc.view import figures

    print_table(CHECKED, map(_cells, checks), empty="No model: is there a drone? mcc drones says.")
    for warning in (f"{checked.name}: {sentence}" for checked in checks for sentence in _sentences(checked)):
        print_wrapped(f"\n{warning}")
    if spent := total(checks):
        print(f"\n{figures.spent(spent)}")


def total(checks: Iterable["ModelCheck"]) -> "Usage | None":
    """What all checks spent together; None where no check has usage figures."""
    spent = [one.usage for one in checks if one.usage is not None]
    return functools.reduce(lambda one, other: one.plus(other), spent) if spent else None


def _cells(one: "ModelCheck") -> Sequence[str]:
    from mcc.view import figures

    window = "?" if one.context_tokens is None else f"{one.context_tokens:,}"
    seconds = "" if one.seconds is None else figures.seconds(one.seconds)
    found = map(_word, (one.tools, one.streaming, one.thinking))
    state = USABLE if one.problem is None else BROKEN
    return (one.name, state, one.key, window, *found, one.caching or "?", seconds, one.model)


def _word(found: bool | None) -> str:
    return "?" if found is None else "yes" if found else "no"


def _sentences(one: "ModelCheck") -> Iterator[str]:
    if one.problem is not None:
        yield one.problem
    if one.window_from:
        yield f"the window is what {_WINDOW_FROM[one.window_from]} says"
    yield from one.notes
