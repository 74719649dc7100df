"""This room is for prices: what a model's tokens cost, as far as it is known."""

from dataclasses import dataclass

PER = 1_000_000


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
