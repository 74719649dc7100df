"""How much a model of Anthropic's form is asked to think: levels as efforts or budgets, and the room that they take."""

from collections.abc import Iterator
from dataclasses import dataclass

from drone.models.known import KnownModel

OUTPUT_TOKENS = 16_384
"""The API wants a cap on output; this much is left for the answer when nobody sets another."""

LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")

_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 32_000}
_LEAST_BUDGET = 1_024
_ROOM = {**_BUDGETS, "xhigh": 32_768, "max": 49_152}
"""Tokens that thinking may take besides the answer. An effort sets no bound of its own: high ones need more."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a model is asked for: `wanted` by the agent, `level` that it takes; both empty where nobody asks."""

    known: KnownModel
    wanted: str
    level: str

    @classmethod
    def asked(cls, known: KnownModel, wanted: str) -> "Thinking":
        return cls(known, "", "") if wanted == "inherit" else cls(known, wanted, _nearest(wanted, known))

    @property
    def room(self) -> int:
        if self.level:
            return _ROOM.get(self.level, 0)
        return _ROOM["high"] if self.known.thinks_by_default else 0

    def options(self, most: int) -> dict[str, object]:
        """Parameters of a request whose output, thinking included, has at most `most` tokens."""
        known = self.known
        if self.level == "off":
            told = known.thinking_off or ("disabled" if known.thinks_by_default is None else "")
            return {"thinking": {"type": told}} if told else {}
        if not self.level:
            # Models that think anyway leave the words of it out unless they are told to sum them up.
            return {"thinking": _ADAPTIVE} if known.thinks_by_default else {}
        if known.thinks_by != "budget":
            return {"thinking": _ADAPTIVE, "output_config": {"effort": self.level}}
        budget = min(_BUDGETS[self.level], most - min(OUTPUT_TOKENS, most // 2))
        return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}

    def not_sent(self, name: str) -> Iterator[str]:
        if self.level == self.wanted:
            return
        if self.level == "off":
            yield f"{name} does not think: it is not told to think as much as {self.wanted}."
        elif self.wanted == "off":
            yield f"{name} cannot be kept from thinking: it is told to think as little as it can ({self.level})."
        else:
            yield f"{name} does not know how to think as much as {self.wanted}: it is told {self.level}."


_ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def _nearest(wanted: str, known: KnownModel) -> str:
    """The level itself, else the next one below it that the model takes, else its least."""
    taken = known.thinking or ("off", *LEVELS[1:])
    if wanted in taken:
        return wanted
    own = [level for level in LEVELS if level in taken]
    below = [level for level in own if wanted != "off" and LEVELS.index(level) < LEVELS.index(wanted)]
    return below[-1] if below else own[0] if own else "off"
