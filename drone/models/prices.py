"""What model calls cost: prices, usage as providers tell it (checked, clamped, estimated where missing), bills."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from drone.agent.model import Reply
from mcc.contracts.shape import unchecked
from mcc.contracts.usage import Usage

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
        taken = _estimated(request_bytes) if self.input is None else self.input
        given = _estimated(reply_characters) if self.output is None else self.output
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


class Bill:
    """What failed tries cost so far; `usage` None: nothing that anybody spoke of."""

    def __init__(self) -> None:
        self.usage: Usage | None = None

    def add(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage.plus(usage)

    def on(self, reply: Reply) -> Reply:
        """The reply that came in the end, with everything that it took."""
        return reply if self.usage is None else replace(reply, usage=self.usage.plus(reply.usage))


def _estimated(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)
