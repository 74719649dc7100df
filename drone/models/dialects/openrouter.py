"""OpenRouter: one key for many providers; it tells the cost and wants its reasoning details back unchanged."""

from drone.models.dialects.differences import LEVELS, Differences, Levels

_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "xhigh")
_LEVELS: Levels = {level: {"reasoning": {"effort": word}} for level, word in zip(LEVELS, _WORDS, strict=True)}


def _levels(model: str) -> Levels:
    return _LEVELS


def _caches(model: str) -> bool:
    """Claude caches nothing without marks; the others need none."""
    return "claude" in model


OPENROUTER = Differences(
    name="openrouter",
    levels=_levels,
    always={"usage": {"include": True}},
    thinking_back="",
    caches=_caches,
)
