"""OpenAI's models at Azure, where a resource of its user's answers: by deployment and api-version, or by /openai/v1."""

from drone.models.dialects.differences import Differences
from drone.models.dialects.openai import levels

AZURE = Differences(
    name="azure",
    key_header="api-key",
    levels=levels,
    output_cap="max_completion_tokens",
    no_effort="none",
    takes=frozenset(("service_tier", "prompt_cache_key")),
    thinking_back="",
    leaks=False,
)
