"""This room is for wrapping up: an agent that comes near a limit is told in time to finish with what it has."""

from dataclasses import dataclass

from mcc.contracts.journal import BudgetWarned

NEARLY = 0.7
"""The part of a limit that may be used before its agent is told."""


@dataclass(frozen=True, slots=True)
class Use:
    """How much of a limit is used, by one agent or by its whole tree."""

    limit: str
    used: float
    allowed: float
    of_tree: bool = False


def near(limit: str, used: float, allowed: float | None, *, of_tree: bool = False) -> tuple[Use, ...]:
    """The use, when it is near the limit."""
    if not allowed or used < NEARLY * allowed:
        return ()
    return (Use(limit, used, allowed, of_tree),)


def near_in_rounds(done: int, rounds: int) -> bool:
    """Whether so many rounds are nearly all of them: `NEARLY`, and at the latest all but the last one."""
    return done >= min(-(-7 * rounds // 10), rounds - 1)


def wrap_up(use: Use, *, finish: str | None, last: bool) -> BudgetWarned:
    """The warning, in words for the model. `finish` is the tool that ends its work; `last`: no further round comes."""
    counts = f"{_plain(use.used)} of {_plain(use.allowed)}"
    how = "a reply without tool calls" if finish is None else f"the tool {finish}"
    if use.limit == "rounds" and last:
        said = f"The limit rounds ({counts} used) leaves you this one reply. Finish now, by {how}, with what you have."
    else:
        left = "nearly used up" if use.used < use.allowed else "used up"
        said = (
            f"The limit {use.limit} is {left}: {counts}. Start nothing new. "
            f"Do only what your answer cannot be without, then finish, by {how}, with what you have."
        )
    return BudgetWarned(limit=use.limit, used=round(use.used, 6), allowed=use.allowed, message=said)


def unpriced(model: str, allowed: float) -> BudgetWarned:
    """That a limit in US dollars cannot be held; what was used of it is not known."""
    said = f"The price of {model} is unknown: the limit cost_usd cannot be held."
    return BudgetWarned(limit="cost_usd", used=None, allowed=allowed, message=said)


def _plain(number: float) -> str:
    return f"{number:.10g}" if isinstance(number, int) else f"{number:.4g}"
