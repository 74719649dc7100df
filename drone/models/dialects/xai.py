"""xAI: efforts that go by the model, and models that never think."""

from collections.abc import Mapping

from drone.models.dialects.differences import NOTHING, Differences, Levels, efforts

_LEVELS = efforts("", "low", "low", "medium", "high", "xhigh", "xhigh")
_OF_4_5 = efforts("", "low", "low", "medium", "high", "high", "high")
_SWITCHED_OFF = efforts("none", "low", "low", "medium", "high", "high", "high")
_LOW_AND_HIGH = efforts("", "low", "low", "high", "high", "high", "high")
_NEVER_THINKS: Levels = {"off": NOTHING}
_OF_MODELS: Mapping[str, Levels] = {
    "non-reasoning": _NEVER_THINKS,
    "grok-3": _LOW_AND_HIGH,
    "grok-4.3": _SWITCHED_OFF,
    "grok-build": _SWITCHED_OFF,
    "grok-4.5": _OF_4_5,
}
"""By a part of the name; those since 4.6 always think."""


def _levels(model: str) -> Levels:
    known = (levels for part, levels in _OF_MODELS.items() if part in model)
    return next(known, _LEVELS)


XAI = Differences(name="xai", levels=_levels, output_cap="max_completion_tokens", thinking_back="", leaks=False)
