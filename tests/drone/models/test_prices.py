"""What tokens cost and how many a provider is believed to have used."""

import math
import subprocess
import sys

import pytest

from drone.models.prices import FREE, MOST_TOKENS, Price, Spent, count
from drone.models.providers import known_price


def test_cached_tokens_cost_their_own_price_or_that_of_others() -> None:
    assert Price(1.0, 2.0, 0.5).cost(10, 4, 3) == pytest.approx((6 * 1.0 + 4 * 0.5 + 3 * 2.0) / 1e6)
    assert Price(1.0, 2.0).cost(10, 4, 3) == pytest.approx((10 * 1.0 + 3 * 2.0) / 1e6)
    assert FREE.cost(10**6, 0, 10**6) == 0.0


@pytest.mark.parametrize("value", [None, True, "5", [], math.nan, math.inf, 10**18, MOST_TOKENS + 1])
def test_what_is_no_believable_number_of_tokens_is_none(value: object) -> None:
    assert count(value) is None


@pytest.mark.parametrize(("value", "tokens"), [(0, 0), (7, 7), (7.9, 7), (-3, 0), (-math.inf, 0)])
def test_numbers_of_tokens_are_whole_and_not_negative(value: float, tokens: int) -> None:
    assert count(value) == tokens


def test_what_was_not_said_is_counted_at_four_bytes_a_token() -> None:
    usage = Spent(output=5).usage(None, request_bytes=41, reply_characters=1000)
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (11, 5, None)


def test_the_list_of_prices_knows_well_known_models_and_no_others() -> None:
    pytest.importorskip("genai_prices", reason="the extra `cost` is not installed")
    price = known_price("openai", "gpt-4.1")
    assert price is not None and price.cached_input is not None
    assert 0 < price.cached_input < price.input < price.output
    assert known_price("openai", "no-such-model") is None


def test_looking_for_models_by_name_loads_no_network() -> None:
    network = ("httpx", "aiohttp", "genai_prices")
    program = f"import sys, drone.models.registry; print([name for name in {network} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
