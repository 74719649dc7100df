"""What models are known to be by their names, what their calls cost, usage as providers tell it, bills."""

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
"""Written by `python -m scripts.known_models`; each row names its source and that source's version."""

_ENDING = Pattern(r"([-@](\d{8}|\d{4}-\d{2}-\d{2}|latest|default))?(-v\d+(:\d+)?)?$")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """What is known of one model; None and empty where nobody said.

    `context_tokens` hold question and reply together, `max_output_tokens` a reply with its thinking. `thinking`: the
    levels that it takes, "off" among them where it can be kept from thinking. `thinks_by`: an effort, or a budget of
    tokens. `thinking_off`: what says off to a model that thinks unless it is told.
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
    source: str = ""


UNKNOWN = KnownModel()


def known_model(provider: str, model: str) -> KnownModel:
    """The row of this provider, with what its maker's row says besides; `UNKNOWN` where there is none.

    Dates and versions at the end of a name (`-20251001`, `@latest`, `-v1:0`) need not be in the table.
    """
    own = _row(provider, model.lower())
    made = [row for vendor, name in _makers(model.lower()) if (row := _row(vendor, name))]
    rows: list[Mapping[str, Any]] = [*made, *([own] if own else [])]
    fields = {name: value for row in rows for name, value in row.items() if name in _FIELDS}
    return KnownModel(**fields | {"thinking": tuple(fields.get("thinking", ()))}) if fields else UNKNOWN


def not_thought(name: str, level: str) -> str | None:
    """What the model of this name (`provider/model`) does not take, and what it does; None where it takes this level,
    or nothing is known of it."""
    provider, _, model = name.partition("/")
    taken = known_model(provider, model).thinking
    if level == "inherit" or not taken or level in taken:
        return None
    return f"does not take thinking {level}; it takes {', '.join(taken)}"


def listed_price(provider: str, model: str) -> Mapping[str, Any] | None:
    """US dollars per million tokens as this provider's own row has them; None where there is none."""
    row = _row(provider, model.lower())
    return row.get("price") if row else None


_FIELDS = frozenset(field.name for field in fields(KnownModel))


def _makers(model: str) -> Iterator[tuple[str, str]]:
    """Who may have made it, and what they call it."""
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


PER = 1_000_000

MOST_TOKENS = 100_000_000
"""No single call spends more; a provider that says so is not believed."""

MOST_DOLLARS = 10_000
"""What a single call may cost by its provider's word."""

BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. What is None costs as other input does; `cache_write_1h` as `cache_write`.

    `above`: the price of a whole call whose input has more than so many tokens, the largest number last.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    above: tuple[tuple[int, "Price"], ...] = ()

    def cost(self, tokens: "Tokens") -> float:
        """US dollars of one call."""
        for more_than, price in reversed(self.above):
            if tokens.input > more_than:
                return price.cost(tokens)
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        written_1h = written if self.cache_write_1h is None else self.cache_write_1h
        short = tokens.written - tokens.written_1h
        fresh = tokens.input - tokens.cached - tokens.written
        taken = fresh * self.input + tokens.cached * cached + short * written + tokens.written_1h * written_1h
        return (taken + tokens.output * self.output) / PER


class Tokens(NamedTuple):
    """Of one call. `input` includes those read from a cache and those written to one (`written`), `written` those that
    are kept for an hour; `output` includes the thinking."""

    input: int
    output: int
    cached: int = 0
    written: int = 0
    written_1h: int = 0


FREE = Price(0.0, 0.0)
"""What runs inside the drone: offline and scripted models."""


def count(value: object) -> int | None:
    """A number of tokens, 0 for a negative one; None for what is no believable number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= MOST_TOKENS:
        return None
    return int(max(0, value))


def dollars(value: object) -> float | None:
    """A cost in US dollars; None for what is no believable one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_DOLLARS:
        return None
    return float(value)


@dataclass(slots=True)
class Spent:
    """What the provider said so far; None = nothing believable. Token counts as in `Tokens`.

    `cost_usd` is what the provider itself says that the call costs: it counts before any price that is known here,
    unless it is nothing.
    """

    input: int | None = None
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    output: int | None = None
    reasoning: int = 0
    cost_usd: float | None = None

    def usage(self, price: Price | None, request_bytes: int, reply_characters: int) -> Usage:
        """The usage of one call. Unsaid tokens are counted at four bytes each, so that budgets hold all the same."""
        taken = estimated(request_bytes) if self.input is None else self.input
        given = estimated(reply_characters) if self.output is None else self.output
        cached = min(self.cached, taken)
        written = min(self.written, taken - cached)
        tokens = Tokens(taken, given, cached, written, min(self.written_1h, written))
        cost = self.cost_usd
        if not cost and price is not None:
            cost = price.cost(tokens)
        return unchecked(
            Usage,
            input_tokens=taken,
            cached_input_tokens=cached,
            cache_write_tokens=written,
            output_tokens=given,
            reasoning_tokens=min(self.reasoning, given),
            model_calls=1,
            tool_calls=0,
            cost_usd=cost,
        )


def estimated(size: int) -> int:
    """Tokens of so many bytes or characters that nobody counted."""
    return -(-size // BYTES_PER_TOKEN)


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
    rates = {ours: value for theirs, ours in FIELDS.items() if (value := getattr(prices, theirs, None)) is not None}
    if not {"input", "output"} <= rates.keys():
        return None
    above = [{"tokens": start, **_from(rates, start)} for start in sorted({*_starts(rates.values())})]
    return {**_from(rates, 0), **({"above": above} if above else {})}


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
