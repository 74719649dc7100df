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
        more = other.__dict__
        return unchecked(
            Usage,
            **{
                name: None if used is None or more[name] is None else used + more[name]
                for name, used in self.__dict__.items()
            },
        )

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens
