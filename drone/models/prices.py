"""Known facts about models by name, their prices, and the usage and cost of calls."""

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple

from mcc.configuration.providers import FAMILIES, LISTED_AS, MAKERS
from mcc.contracts.shape import unchecked
from mcc.contracts.usage import Usage
from mcc.rules.patterns import Pattern

TABLE = Path(__file__).with_name("known_models.json")
"""Written by `python -m scripts.known_models`; each row names its source and the source's version."""

_ENDING = Pattern(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}|latest|default))?(-v\d+(:\d+)?)?$")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Known facts about one model; None or empty where unknown.

    `context_tokens` is the limit for question and reply together, `max_output_tokens` for a reply with its thinking.
    `thinking`: the levels it accepts, with "off" if thinking can be switched off. `thinks_by`: an effort, or a budget
    of tokens. `thinking_off`: the value that switches thinking off in a model that thinks by default. `cache_seconds`:
    how long its provider keeps the beginning of a request.
    """

    context_tokens: int | None = None
    max_output_tokens: int | None = None
    thinking: tuple[str, ...] = ()
    thinks_by_default: bool | None = None
    thinks_by: Literal["effort", "budget"] | None = None
    thinking_off: str = ""
    tools: bool | None = None
    images: bool | None = None
    files: bool | None = None
    cache_seconds: int | None = None
    source: str = ""


UNKNOWN = KnownModel()


def known_model(provider: str, model: str) -> KnownModel:
    """The provider's row, completed from the row of the model's maker; `UNKNOWN` if neither exists.

    Dates and versions at the end of a name (`-20251001`, `@latest`, `-v1:0`) may be missing in the table.
    """
    own = _row(provider, model.lower())
    made = [row for vendor, name in _makers(model.lower()) if (row := _row(vendor, name))]
    rows: list[Mapping[str, Any]] = [*made, *([own] if own else [])]
    fields = {name: value for row in rows for name, value in row.items() if name in _FIELDS}
    if fields:  # What the maker's own service keeps says nothing of another one.
        fields["cache_seconds"] = own.get("cache_seconds") if own else None
    return KnownModel(**fields | {"thinking": tuple(fields.get("thinking", ()))}) if fields else UNKNOWN


def unsupported_level(name: str, level: str) -> str | None:
    """What is wrong with this thinking level for the model `name` (`provider/model`), and which levels it accepts; None
    if it accepts the level or nothing is known."""
    provider, _, model = name.partition("/")
    taken = known_model(provider, model).thinking
    if level == "inherit" or not taken or level in taken:
        return None
    return f"does not take thinking {level}; it takes {', '.join(taken)}"


def listed_price(provider: str, model: str) -> Mapping[str, Any] | None:
    """US dollars per million tokens in this provider's own row; None if there is none."""
    row = _row(provider, model.lower())
    return row.get("price") if row else None


_FIELDS = frozenset(field.name for field in fields(KnownModel))


def _makers(model: str) -> Iterator[tuple[str, str]]:
    """Possible makers of the model, each with the maker's name for it."""
    for prefix, vendor in MAKERS.items():
        for mark in (f"{prefix}/", f"{prefix}."):
            if mark in model:
                yield vendor, model.partition(mark)[2]
    name = model.rpartition("/")[2]
    yield from ((maker, name) for family, maker in FAMILIES.items() if name.startswith(family))


def _row(provider: str, model: str) -> Mapping[str, Any] | None:
    rows = _table().get(provider, ())
    for name in dict.fromkeys((model, _ENDING.sub("", model))):
        for row in rows:
            if name in row["names"]:
                return row
    near = [(len(one), row) for row in rows for one in row["names"] if one[-1] == "*" and model.startswith(one[:-1])]
    return max(near, key=lambda found: found[0])[1] if near else None


@functools.cache
def _table() -> Mapping[str, list[Mapping[str, Any]]]:
    by_provider: dict[str, list[Mapping[str, Any]]] = {}
    for row in json.loads(TABLE.read_text())["models"]:
        by_provider.setdefault(row["provider"], []).append(row)
    return by_provider


TOKENS_PER_PRICE = 1_000_000

MOST_TOKENS = 100_000_000
"""Bound for a single call; a larger count from a provider is not believed."""

MOST_DOLLARS = 10_000
"""Bound for the cost of a single call as reported by its provider."""

BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """US dollars per million tokens. A None field costs as much as plain input; `cache_write_1h` as much as
    `cache_write`.

    `above`: prices for the whole call if its input exceeds that many tokens, in ascending order.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    above: tuple[tuple[int, "TokenPrices"], ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether no call costs anything."""
        prices = (self.input, self.output, self.cached, self.cache_write, self.cache_write_1h)
        return not any(prices) and all(price.is_free for _, price in self.above)

    def cost(self, tokens: "TokenCounts") -> float:
        """Cost of one call in US dollars."""
        for more_than, price in reversed(self.above):
            if tokens.input > more_than:
                return price.cost(tokens)
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        written_1h = written if self.cache_write_1h is None else self.cache_write_1h
        short = tokens.written - tokens.written_1h
        fresh = tokens.input - tokens.cached - tokens.written
        taken = fresh * self.input + tokens.cached * cached + short * written + tokens.written_1h * written_1h
        return (taken + tokens.output * self.output) / TOKENS_PER_PRICE


class TokenCounts(NamedTuple):
    """Token counts of one call. `input` includes tokens read from a cache and written to one (`written`); `written_1h`
    is the part of `written` that is cached for an hour; `output` includes the thinking."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0


FREE = TokenPrices(0.0, 0.0)
"""Price of models that run inside the drone: offline and scripted ones."""


def count(value: object) -> int | None:
    """A token count, 0 for a negative one; None for an implausible value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= MOST_TOKENS:
        return None
    return int(max(0, value))


def dollars(value: object) -> float | None:
    """A cost in US dollars; None for an implausible value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_DOLLARS:
        return None
    return float(value)


@dataclass(slots=True)
class Spent:
    """What the provider reported so far; None means nothing plausible. Token counts as in `TokenCounts`.

    `cost_usd` is the provider's own figure. Unless it is 0, it takes precedence over any price known here.
    """

    input: int | None = None
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    output: int | None = None
    reasoning: int = 0
    cost_usd: float | None = None

    def usage(self, price: TokenPrices | None, request_bytes: int, reply_characters: int) -> Usage:
        """The usage of one call. Unreported tokens are estimated at four bytes each, so that budgets still hold."""
        taken = estimated(request_bytes) if self.input is None else self.input
        output = estimated(reply_characters) if self.output is None else self.output
        cached = min(self.cached, taken)
        written = min(self.written, taken - cached)
        tokens = TokenCounts(taken, output, cached, written, min(self.written_1h, written))
        cost = self.cost_usd
        if not cost and price is not None:
            cost = price.cost(tokens)
        return unchecked(
            Usage,
            input_tokens=taken,
            cached_input_tokens=cached,
            cache_write_tokens=written,
            output_tokens=output,
            reasoning_tokens=min(self.reasoning, output),
            model_calls=1,
            tool_calls=0,
            cost_usd=cost,
        )


def estimated(size: int) -> int:
    """Estimated tokens for this many bytes or characters."""
    return -(-size // BYTES_PER_TOKEN)


FIELDS: Mapping[str, str] = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
}
"""Price fields of genai-prices, and our names for them."""


def known_price(provider: str, model: str) -> TokenPrices | None:
    """The price of this model at its provider's own address; None if no list has it."""
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return _price(listed_price(provider, model))
    theirs = LISTED_AS.get(provider, provider)
    try:
        price = calc_price(Usage(input_tokens=1), model_ref=model, provider_id=theirs).model_price
    except LookupError:
        return _price(listed_price(provider, model))
    return _price(as_listed(price))


def as_listed(prices: object) -> dict[str, Any] | None:
    """Prices of genai-prices in the form of the table; None without prices of plain input and output."""
    rates = {ours: value for theirs, ours in FIELDS.items() if (value := getattr(prices, theirs, None)) is not None}
    if not {"input", "output"} <= rates.keys():
        return None
    above = [{"tokens": start, **_rates_at(rates, start)} for start in sorted({*_tier_starts(rates.values())})]
    return {**_rates_at(rates, 0), **({"above": above} if above else {})}


def _tier_starts(values: Any) -> Iterator[int]:
    for value in values:
        if not isinstance(value, Decimal):
            yield from (tier.start for tier in value.tiers)


def _rates_at(said: Mapping[str, Any], start: int) -> dict[str, float]:
    return {name: round(float(_rate_at(value, start)), 6) for name, value in said.items()}


def _rate_at(value: Any, start: int) -> Decimal:
    """The price that applies from this many input tokens on."""
    if isinstance(value, Decimal):
        return value
    steps = (tier.price for tier in sorted(value.tiers, key=lambda tier: -int(tier.start)) if tier.start <= start)
    found: Decimal = next(steps, value.base)
    return found


def _price(said: Mapping[str, Any] | None) -> TokenPrices | None:
    if said is None:
        return None
    plain = {name: value for name, value in said.items() if name in FIELDS.values()}
    return TokenPrices(**plain, above=_above(said))


def _above(said: Mapping[str, Any]) -> tuple[tuple[int, TokenPrices], ...]:
    return tuple(
        (step["tokens"], TokenPrices(**{name: value for name, value in step.items() if name != "tokens"}))
        for step in said.get("above", ())
    )
