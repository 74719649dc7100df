"""Prices, costs and plausible token counts."""

import math
import subprocess
import sys
from dataclasses import replace

import pytest

from drone.models.prices import (
    FREE,
    MOST_TOKENS,
    Spent,
    TokenCounts,
    TokenPrices,
    count,
    dollars,
    known_price,
    listed_price,
)


def test_cached_tokens_cost_their_own_price_or_that_of_others() -> None:
    asked = TokenCounts(input=10, output=3, cached=4)
    assert TokenPrices(1.0, 2.0, 0.5).cost(asked) == pytest.approx((6 * 1.0 + 4 * 0.5 + 3 * 2.0) / 1e6)
    assert TokenPrices(1.0, 2.0).cost(asked) == pytest.approx((10 * 1.0 + 3 * 2.0) / 1e6)


def test_cache_writes_have_one_price_for_minutes_and_another_for_an_hour() -> None:
    asked = TokenCounts(input=10_000, output=0, cached=1_000, written=6_000, written_1h=2_000)
    price = TokenPrices(3.0, 15.0, cached=0.3, cache_write=3.75, cache_write_1h=6.0)
    assert price.cost(asked) == pytest.approx((3_000 * 3 + 1_000 * 0.3 + 4_000 * 3.75 + 2_000 * 6) / 1e6)
    assert replace(price, cache_write_1h=None).cost(asked) == pytest.approx(
        (3_000 * 3 + 1_000 * 0.3 + 6_000 * 3.75) / 1e6
    )


def test_a_long_input_raises_the_price_of_the_whole_call() -> None:
    price = TokenPrices(1.0, 2.0, above=((200_000, TokenPrices(2.0, 3.0)),))
    assert price.cost(TokenCounts(200_000, 1_000)) == pytest.approx(0.202)
    assert price.cost(TokenCounts(200_001, 1_000)) == pytest.approx(0.403002)


def test_a_cost_reported_by_the_provider_precedes_any_price() -> None:
    spent = Spent(input=1_000_000, output=0, cost_usd=0.25)
    assert spent.usage(TokenPrices(1.0, 2.0), 1, 1).cost_usd == 0.25
    assert spent.usage(None, 1, 1).cost_usd == 0.25


@pytest.mark.parametrize("value", [True, "1", -0.1, math.nan, math.inf, 10_001])
def test_an_implausible_cost_is_none(value: object) -> None:
    assert dollars(value) is None


def test_models_inside_the_drone_are_free() -> None:
    assert FREE.cost(TokenCounts(10**6, 10**6)) == 0.0


@pytest.mark.parametrize("value", [None, True, "5", [], math.nan, math.inf, 10**18, MOST_TOKENS + 1])
def test_an_implausible_number_of_tokens_is_none(value: object) -> None:
    assert count(value) is None


@pytest.mark.parametrize(("value", "tokens"), [(0, 0), (7, 7), (7.9, 7), (-3, 0), (-math.inf, 0)])
def test_numbers_of_tokens_are_whole_and_not_negative(value: float, tokens: int) -> None:
    assert count(value) == tokens


def test_unreported_tokens_are_estimated_at_four_bytes_each() -> None:
    usage = Spent(output=5).usage(None, request_bytes=41, reply_characters=1000)
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (11, 5, None)


def test_the_list_of_prices_knows_well_known_models_and_no_others() -> None:
    pytest.importorskip("genai_prices", reason="the extra `cost` is not installed")
    price = known_price("openai", "gpt-4.1")
    assert price is not None and price.cached is not None
    assert 0 < price.cached < price.input < price.output
    assert known_price("openai", "no-such-model") is None
    assert known_price("gemini", "gemini-2.5-pro").above  # type: ignore[union-attr]


def test_the_shipped_table_agrees_with_the_price_list() -> None:
    pytest.importorskip("genai_prices", reason="the extra `cost` is not installed")
    for provider, model in (("anthropic", "claude-sonnet-5-5"), ("openai", "gpt-6-sol"), ("gemini", "gemini-2.5-pro")):
        price, listed = known_price(provider, model), listed_price(provider, model)
        assert price is not None and listed is not None
        assert {name: getattr(price, name) for name in listed if name != "above"} == {
            name: value for name, value in listed.items() if name != "above"
        }


def test_looking_for_models_by_name_loads_no_network() -> None:
    network = ("httpx", "aiohttp", "genai_prices")
    program = f"import sys, drone.models.registry; print([name for name in {network} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
