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
        # Attributes of pydantic's models take several times as long to read as those of a dictionary.
        mine, more = self.__dict__, other.__dict__
        cost, further = mine["cost_usd"], more["cost_usd"]
        return unchecked(
            Usage,
            input_tokens=mine["input_tokens"] + more["input_tokens"],
            cached_input_tokens=mine["cached_input_tokens"] + more["cached_input_tokens"],
            cache_write_tokens=mine["cache_write_tokens"] + more["cache_write_tokens"],
            output_tokens=mine["output_tokens"] + more["output_tokens"],
            reasoning_tokens=mine["reasoning_tokens"] + more["reasoning_tokens"],
            model_calls=mine["model_calls"] + more["model_calls"],
            tool_calls=mine["tool_calls"] + more["tool_calls"],
            cost_usd=None if cost is None or further is None else cost + further,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens
