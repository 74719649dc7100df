"""xAI: two efforts, and models that always or never think."""

from drone.models.dialects.differences import NOTHING, Differences, Levels, efforts

_LEVELS = efforts("", "low", "low", "high", "high", "high", "high")
_NEVER_THINKS: Levels = {"off": NOTHING}


def _levels(model: str) -> Levels:
    return _NEVER_THINKS if "non-reasoning" in model else _LEVELS


XAI = Differences(name="xai", levels=_levels, output_cap="max_completion_tokens", thinking_back="", leaks=False)
