"""Estimates: how many tokens a question will take, learnt from what the run's earlier ones took."""

from dataclasses import dataclass

from mcc.contracts.usage import Usage

CHARACTERS_PER_TOKEN = 4
"""What is assumed until two replies have shown what it really is."""

ENOUGH = 400
"""Characters by which a question must have grown before its growth tells anything."""

LEAST, MOST = 0.125, 1.5
"""Tokens per character that are believed: from packed prose to scripts whose characters take more than one."""


@dataclass(slots=True)
class Estimate:
    """The input tokens of one run's next question: those of the last one, and what was said since."""

    _characters: int = 0
    _tokens: int = 0
    _per_character: float = 1 / CHARACTERS_PER_TOKEN

    def tokens(self, characters: int, before: int = 0) -> int:
        """What a question takes in which so many characters were said since the run began with `before` of them."""
        grown = characters - self._characters if self._tokens else characters + before
        return max(0, self._tokens + int(grown * self._per_character))

    def learn(self, characters: int, usage: Usage) -> None:
        """A question with so many characters said took this; a usage of several tries counts as one of them."""
        taken = usage.input_tokens // max(1, usage.model_calls)
        if taken == 0:
            return
        grown = characters - self._characters
        if self._tokens and grown >= ENOUGH:
            self._per_character = min(MOST, max(LEAST, (taken - self._tokens) / grown))
        self._characters, self._tokens = characters, taken
