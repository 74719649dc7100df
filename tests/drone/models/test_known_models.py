"""The table of known models: lookup by name, and the entries of default models."""

import json

import pytest

from drone.models.prices import TABLE, UNKNOWN, known_model, listed_price
from mcc.configuration.providers import PROVIDERS, Provider

NAMED = [one for one in PROVIDERS if one.name in ("anthropic", "openai", "gemini") and one.first_model]


@pytest.mark.parametrize(
    "name", ["claude-sonnet-5", "claude-sonnet-5-20260630", "claude-sonnet-5@20260630", "Claude-Sonnet-5"]
)
def test_a_date_at_the_end_of_a_name_leads_to_the_same_row(name: str) -> None:
    known = known_model("anthropic", name)
    assert (known.context_tokens, known.max_output_tokens) == (1_000_000, 128_000)
    assert known.thinks_by_default and "xhigh" in known.thinking and known.thinking_off == "disabled"


def test_a_name_that_begins_as_another_one_has_a_row_of_its_own() -> None:
    assert known_model("anthropic", "claude-sonnet-5-5").thinking_off == "between_tools"
    assert "off" not in known_model("anthropic", "claude-opus-5-5").thinking
    assert known_model("anthropic", "claude-opus-5").thinking_off == "disabled"
    assert known_model("openai", "gpt-5.4-mini").context_tokens == 400_000
    assert known_model("openai", "gpt-5.4").context_tokens == 1_050_000


@pytest.mark.parametrize(
    ("provider", "name"),
    [
        ("openrouter", "anthropic/claude-opus-5.5"),
        ("bedrock", "us.anthropic.claude-opus-5-5-v1:0"),
        ("vertex", "claude-opus-5-5@20260922"),
    ],
)
def test_the_maker_s_facts_hold_at_every_provider_of_the_model(provider: str, name: str) -> None:
    known = known_model(provider, name)
    assert known.max_output_tokens == 128_000
    assert known.thinking == ("low", "medium", "high", "xhigh", "max")


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("gpt-5", "minimal low medium high"),
        ("gpt-5-codex", "low medium high"),
        ("gpt-5-chat-latest", ""),
        ("gpt-5.1-2025-11-13", "off low medium high"),
        ("gpt-5.1-codex", "low medium high"),
        ("gpt-5.1-codex-max", "low medium high xhigh"),
        ("gpt-5.2-chat-latest", "medium"),
        ("gpt-5.6-cyber", ""),
        ("gpt-6.1-sol", "low medium high xhigh max"),
        ("gpt-6.1-terra", "off low medium high xhigh max"),
    ],
)
def test_a_model_priced_as_another_one_has_its_own_levels(name: str, levels: str) -> None:
    known = known_model("openai", name)
    assert known.thinking == tuple(levels.split())
    assert listed_price("openai", name) is not None


def test_a_model_outside_the_table_is_unknown() -> None:
    assert known_model("openai", "qwen3-coder-next") is UNKNOWN
    assert known_model("nobody", "model") is UNKNOWN


def test_each_row_names_its_source_and_the_sources_version() -> None:
    table = json.loads(TABLE.read_text())
    assert table["written"] >= "2026-11-22"
    assert [row["names"][0] for row in table["models"] if "genai-prices 0." not in row["source"]] == []


@pytest.mark.parametrize("provider", NAMED, ids=lambda one: one.name)
def test_the_first_model_of_a_provider_is_known(provider: Provider) -> None:
    known = known_model(provider.name, provider.first_model)
    assert known.source
    if provider.form != "chat":
        assert known.context_tokens is not None and known.max_output_tokens is not None
