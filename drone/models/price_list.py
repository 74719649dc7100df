"""Prices as lists have them: that of the extra `cost` (genai-prices) where it is there, else the table that ships."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from drone.models.known import listed_price
from drone.models.prices import Price
from mcc.configuration.providers import LISTED_AS

FIELDS: Mapping[str, str] = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
}
"""What genai-prices calls them, and what they are called here."""


def known_price(provider: str, model: str) -> Price | None:
    """Of this model at its provider's own address; None where no list has it."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return _price(listed_price(provider, model))
    theirs = LISTED_AS.get(provider, provider)
    try:
        found = calc_price(Usage(input_tokens=1), model_ref=model, provider_id=theirs).model_price
    except LookupError:
        return _price(listed_price(provider, model))
    return _price(as_listed(found))


def as_listed(prices: object) -> dict[str, Any] | None:
    """Prices of genai-prices as the table has them; None without those of plain input and output."""
    said = {ours: value for theirs, ours in FIELDS.items() if (value := getattr(prices, theirs, None)) is not None}
    if not {"input", "output"} <= said.keys():
        return None
    above = [{"tokens": start, **_from(said, start)} for start in sorted({*_starts(said.values())})]
    return {**_from(said, 0), **({"above": above} if above else {})}


def _starts(values: Any) -> Iterator[int]:
    for value in values:
        if not isinstance(value, Decimal):
            yield from (tier.start for tier in value.tiers)


def _from(said: Mapping[str, Any], start: int) -> dict[str, float]:
    return {name: round(float(_at(value, start)), 6) for name, value in said.items()}


def _at(value: Any, start: int) -> Decimal:
    """The price from so many tokens of input on."""
    if isinstance(value, Decimal):
        return value
    steps = (tier.price for tier in sorted(value.tiers, key=lambda tier: -int(tier.start)) if tier.start <= start)
    found: Decimal = next(steps, value.base)
    return found


def _price(said: Mapping[str, Any] | None) -> Price | None:
    if said is None:
        return None
    plain = {name: value for name, value in said.items() if name in FIELDS.values()}
    return Price(**plain, above=_above(said))


def _above(said: Mapping[str, Any]) -> tuple[tuple[int, Price], ...]:
    return tuple(
        (step["tokens"], Price(**{name: value for name, value in step.items() if name != "tokens"}))
        for step in said.get("above", ())
    )
