"""Usage: tokens, calls and money that a record or an order spent."""

from typing import Annotated

from pydantic import Field

from mcc.contracts.shape import Closed, unchecked

Tokens = Annotated[int, Field(ge=0)]


class Usage(Closed):
    """What was spent. `input_tokens` includes those read from a cache and those written to one, `output_tokens` the
    reasoning ones.

    `cost_usd` is US dollars, None as soon as one price in the sum is unknown.
    """

    input_tokens: Tokens = 0
    cached_input_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    output_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    model_calls: Tokens = 0
    tool_calls: Tokens = 0
    cost_usd: float | None = 0.0

    def plus(self, other: "Usage") -> "Usage":
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return unchecked(
            Usage,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            model_calls=self.model_calls + other.model_calls,
            tool_calls=self.tool_calls + other.tool_calls,
            cost_usd=cost,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens
