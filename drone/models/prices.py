"""What model calls cost: prices, usage as providers tell it (checked, clamped, estimated where missing), bills."""

from dataclasses import dataclass, replace

from drone.agent.model import Reply
from mcc.contracts.usage import Usage

PER = 1_000_000

MOST_TOKENS = 100_000_000
"""No single call spends more; a provider that says so is not believed."""

MOST_DOLLARS = 10_000
"""What a single call may cost by its provider's word."""

BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. `cached_input` None: cached tokens cost what others do."""

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        """US dollars; `input_tokens` includes the cached ones."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = input_tokens - cached_input_tokens
        return (fresh * self.input + cached_input_tokens * cached + output_tokens * self.output) / PER


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
    """What the provider said so far; None = nothing believable. `input` includes the cached tokens.

    `cost_usd` is what the provider itself says that the call costs: it counts before any price that is known here.
    """

    input: int | None = None
    cached: int = 0
    output: int | None = None
    reasoning: int = 0
    cost_usd: float | None = None

    def usage(self, price: Price | None, request_bytes: int, reply_characters: int) -> Usage:
        """The usage of one call. Unsaid tokens are counted at four bytes each, so that budgets hold all the same."""
        taken = _estimated(request_bytes) if self.input is None else self.input
        given = _estimated(reply_characters) if self.output is None else self.output
        cached = min(self.cached, taken)
        return Usage(
            input_tokens=taken,
            cached_input_tokens=cached,
            output_tokens=given,
            reasoning_tokens=min(self.reasoning, given),
            model_calls=1,
            cost_usd=self._cost(price, taken, cached, given),
        )

    def _cost(self, price: Price | None, taken: int, cached: int, given: int) -> float | None:
        if self.cost_usd is not None:
            return self.cost_usd
        return None if price is None else price.cost(taken, cached, given)


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
