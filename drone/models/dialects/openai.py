"""Chat completions at OpenAI itself, which are strict about names and never take thinking back."""

from drone.models.dialects.differences import Differences, Levels, efforts

_LEVELS = efforts("none", "minimal", "low", "medium", "high", "xhigh", "max")


def levels(model: str) -> Levels:
    return _LEVELS


OPENAI = Differences(
    name="openai",
    levels=levels,
    output_cap="max_completion_tokens",
    no_effort="none",
    takes=frozenset(("service_tier", "prompt_cache_key")),
    thinking_back="",
    leaks=False,
)
