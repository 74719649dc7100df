"""Chat completions at OpenAI itself, which are strict about names and never take thinking back."""

from drone.models.dialects.differences import Differences, Levels, efforts

_LEVELS = efforts("none", "minimal", "low", "medium", "high", "xhigh", "xhigh")


def levels(model: str) -> Levels:
    return _LEVELS


OPENAI = Differences(
    name="openai",
    levels=levels,
    output_cap="max_completion_tokens",
    no_effort="none",
    thinking_back="",
    leaks=False,
)
