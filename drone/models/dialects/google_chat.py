"""Google's models in OpenAI's form, at Gemini's API and at Vertex: calls carry signatures that must go back."""

from dataclasses import replace

from drone.models.dialects.differences import NOTHING, Differences, Levels, Parameters, efforts
from drone.models.dialects.gemini import UNSIGNED, signs_its_calls

_LEVELS = efforts("none", "minimal", "low", "medium", "high", "high", "high")
_LEVELS_AT_VERTEX = efforts("", "low", "low", "medium", "high", "high", "high")
_NOT_ITS_OWN: Parameters = {"extra_content": {"google": {"thought_signature": UNSIGNED}}}


def _levels(model: str) -> Levels:
    return _LEVELS


def _levels_at_vertex(model: str) -> Levels:
    return _LEVELS_AT_VERTEX


def _unsigned(model: str) -> Parameters:
    return _NOT_ITS_OWN if signs_its_calls(model) else NOTHING


GOOGLE = Differences(name="google", levels=_levels, thinking_back="", unsigned_call=_unsigned, leaks=False)
VERTEX = replace(GOOGLE, name="vertex", levels=_levels_at_vertex)
