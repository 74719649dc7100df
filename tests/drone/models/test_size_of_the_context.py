"""How much a model takes in: configuration, the table of models, the words of a refusal."""

import pytest

from drone.agent.model import context_tokens
from drone.models.registry import Models
from drone.models.scripted import ScriptedModel
from drone.models.windows import window_in
from drone.settings import ModelConfig, Settings


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("This model's maximum context length is 32768 tokens. However, you requested 40000 tokens", 32_768),
        ("This endpoint's maximum context length is 131,072 tokens.", 131_072),
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease input length", 200_000),
        ("request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            32_768,
        ),
        ("This model's maximum prompt length is 131072 but the request contains 200000 tokens.", 131_072),
        ("Please reduce the length of the messages or completion.", None),
        ("maximum context length is 12 tokens", None),
    ],
)
def test_a_refusal_tells_the_size_of_the_context(words: str, tokens: int | None) -> None:
    assert window_in(words) == tokens


def settings(**config: object) -> Settings:
    model = ModelConfig(provider="anthropic", model="claude-haiku-4-5", **config)
    return Settings(models={"cheap": model}, keys={"ANTHROPIC_API_KEY": "k" * 20, "OPENAI_API_KEY": "k" * 20})


def test_configuration_speaks_before_the_table_of_models() -> None:
    assert context_tokens(Models(settings()).get("cheap")) == 200_000
    assert context_tokens(Models(settings(context_tokens=50_000)).get("cheap")) == 50_000


def test_a_fallback_is_as_large_as_the_model_that_is_asked_next() -> None:
    assert context_tokens(Models(settings(fallback=("openai/gpt-6.1-sol",))).get("cheap")) == 200_000


def test_of_a_model_that_says_nothing_the_size_is_not_known() -> None:
    assert context_tokens(ScriptedModel([])) is None
    assert context_tokens(Models(settings()).get("openai/own-model-of-somebody")) is None
