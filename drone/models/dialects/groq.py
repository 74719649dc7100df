"""Groq: thinking comes in a field of its own when it is asked for there, and is refused when it is sent back."""

from collections.abc import Mapping

from drone.models.dialects.differences import OPEN_WEIGHTS, THINKING_LEVELS, Differences, Levels, Parameters, efforts

_PARSED: Parameters = {"reasoning_format": "parsed"}
_QWEN: Mapping[str, Parameters] = {
    "off": {"reasoning_effort": "none"},
    **{level: {"reasoning_effort": "default", **_PARSED} for level in THINKING_LEVELS},
}
_GPT_OSS: Levels = {level: {**asked, "include_reasoning": True} for level, asked in OPEN_WEIGHTS.items()}
_OTHERS = efforts("none", "low", "low", "medium", "high", "high", "high")


def _levels(model: str) -> Levels:
    """The words for an effort are those of the model's makers."""
    if "gpt-oss" in model:
        return _GPT_OSS
    return _QWEN if "qwen" in model else _OTHERS


GROQ = Differences(name="groq", levels=_levels, output_cap="max_completion_tokens", thinking_back="")
