"""xAI: efforts that go by the model, and models that never think."""

from drone.models.dialects.differences import NOTHING, Differences, Levels, efforts

_LEVELS = efforts("none", "low", "low", "medium", "high", "high", "high")
_LOW_AND_HIGH = efforts("", "low", "low", "high", "high", "high", "high")
_NEVER_THINKS: Levels = {"off": NOTHING}


def _levels(model: str) -> Levels:
    if "non-reasoning" in model:
        return _NEVER_THINKS
    return _LOW_AND_HIGH if "grok-3" in model else _LEVELS


XAI = Differences(name="xai", levels=_levels, output_cap="max_completion_tokens", thinking_back="", leaks=False)
