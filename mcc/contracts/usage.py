"""Usage: tokens, calls and money that a record or an order spent."""

from operator import attrgetter
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
        taken, cached, written, given, thought, asked, called, cost = _parts(self)
        and_taken, and_cached, and_written, and_given, and_thought, and_asked, and_called, further = _parts(other)
        return unchecked(
            Usage,
            input_tokens=taken + and_taken,
            cached_input_tokens=cached + and_cached,
            cache_write_tokens=written + and_written,
            output_tokens=given + and_given,
            reasoning_tokens=thought + and_thought,
            model_calls=asked + and_asked,
            tool_calls=called + and_called,
            cost_usd=None if cost is None or further is None else cost + further,
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


# All in one go: each attribute of a pydantic model takes several times as long to read as that of another object, and a
# dictionary, once it was asked for, stays as long as its model.
_parts = attrgetter(*Usage.model_fields)
