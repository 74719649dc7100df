"""Landing: the one reply that an agent still has when a limit is reached, and the room that is kept for it."""

from drone.agent.report import LimitReached
from mcc.contracts.journal import BudgetWarned

ROOM = 4_096
"""Tokens that are kept for the last reply."""

LONGEST_SECONDS = 60.0
SHORTEST_WALL = 60.0
"""Of an agent that has at least so many seconds a tenth is kept for its last reply, at most a minute."""

PART = 4
"""At most a fourth of a limit is kept."""


def kept(room: float, limit: float | None) -> float:
    """How much of a limit on all tokens, or on money, ordinary rounds leave for the last question and its reply."""
    return 0 if limit is None else min(room, limit / PART)


def kept_of_kind(kind: str, question: float, limit: float | None) -> float:
    """The same of a limit on one kind of tokens: those read go by the last question, those thought by its reply."""
    return kept(ROOM if kind == "reasoning_tokens" else question, limit)


def kept_output(room: int, limit: int) -> int:
    """How many output tokens ordinary rounds leave; of a small limit none, which a small last reply passes instead."""
    return 0 if room * PART > limit else room


def kept_seconds(wall_seconds: float) -> float:
    return 0.0 if wall_seconds < SHORTEST_WALL else min(LONGEST_SECONDS, wall_seconds / 10)


def reply_tokens(limit: int) -> int:
    """The most tokens of the last reply under a limit on output tokens."""
    return ROOM if limit >= ROOM * PART else max(64, limit // 5)


def landing(reached: LimitReached, finish: str | None) -> BudgetWarned:
    """The word to the model; `finish` is the tool that hands its result in, the only one that still runs."""
    how = "write your answer" if finish is None else f"hand in your result with {finish}"
    said = (
        f"The limit {reached.limit} ({reached.allowed:.10g}) is reached. This is your last reply, and no "
        f"{'tool' if finish is None else 'other tool'} runs any more: {how} now, from what you have, and say what is "
        "missing in it."
    )
    allowed = reached.allowed
    return BudgetWarned(limit=reached.limit, used=allowed, allowed=allowed, message=said, landing=True, in_results=True)
