"""Tokens, calls and money that a record or an order spent."""

from operator import attrgetter
from typing import Annotated

from pydantic import Field

from mcc.contracts.shape import Closed, unchecked

Tokens = Annotated[int, Field(ge=0)]


class Usage(Closed):
    """Usage in tokens, calls and US dollars.

    `input_tokens` includes tokens read from a cache and tokens written to one; `output_tokens` includes reasoning
    tokens. `tool_calls` counts all calls that were answered, refused ones too; the limit of that name counts only those
    that ran. `cost_usd` is None as soon as one price in the sum is unknown.
    """

    input_tokens: Tokens = 0
    cached_input_tokens: Tokens = 0
    cache_write_tokens: Tokens = 0
    output_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0
    model_calls: Tokens = 0
    tool_calls: Tokens = 0
    cost_usd: float | None = 0.0

    @property
    def cached_share(self) -> float | None:
        """The share of its input that came from the provider's cache; None without input."""
        return round(self.cached_input_tokens / self.input_tokens, 4) if self.input_tokens else None

    def plus(self, other: "Usage") -> "Usage":
        input_1, cached_1, cache_write_1, output_1, reasoning_1, model_calls_1, tool_calls_1, cost_1 = _values(self)
        input_2, cached_2, cache_write_2, output_2, reasoning_2, model_calls_2, tool_calls_2, cost_2 = _values(other)
        return unchecked(
            Usage,
            input_tokens=input_1 + input_2,
            cached_input_tokens=cached_1 + cached_2,
            cache_write_tokens=cache_write_1 + cache_write_2,
            output_tokens=output_1 + output_2,
            reasoning_tokens=reasoning_1 + reasoning_2,
            model_calls=model_calls_1 + model_calls_2,
            tool_calls=tool_calls_1 + tool_calls_2,
            cost_usd=None if cost_1 is None or cost_2 is None else cost_1 + cost_2,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


# One attrgetter call for all fields, because reading an attribute of a pydantic model takes several times as long as of
# a plain object. Not `__dict__`: Python keeps that dictionary for as long as the model lives.
_values = attrgetter(*Usage.model_fields)
