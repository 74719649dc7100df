"""The table [memory]: which memories that agents write count without a person, and when one may be out of date."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from mcc.contracts.order import Rule
from mcc.rules.errors import ExpressionError
from mcc.rules.rule import CompiledRule, check, compiled

NAMES = ("name", "text", "agent", "tainted")
"""What `when` may use."""

CHARACTERS = 5_000


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A memory that an agent writes, or takes away (`text` empty). `tainted`: as in `mcc.contracts.notes.Note`."""

    name: str
    text: str
    agent: str
    tainted: bool


Accepts: TypeAlias = Callable[[MemoryChange], bool]
"""Answers whether a change counts at once, without a person. May block for up to 0.3 s."""


class MemorySettings(BaseModel):
    """The table [memory]. `accept`: who accepts what agents write: "people", a "rule" and otherwise people, or "all" of
    it counts at once; None: people where its agent was shown text from outside, else it counts at once. `when` is the
    rule, in CEL over `name`, `text`, `agent` and `tainted`. `stale_days`: a memory that nobody has verified for as long
    may be out of date."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accept: Literal["people", "rule", "all"] | None = None
    when: Annotated[str, StringConstraints(min_length=1, max_length=CHARACTERS)] | None = None
    stale_days: Annotated[float, Field(gt=0, le=36_500, allow_inf_nan=False)] = 90

    @model_validator(mode="after")
    def _rule_is_whole(self) -> "MemorySettings":
        if (self.accept == "rule") != (self.when is not None):
            raise ValueError('accept = "rule" and when belong together: the one names the rule that the other is')
        if self.when is not None:
            try:
                _rule(self.when)
            except ExpressionError as error:
                raise ValueError(f"when: {error}") from error
        return self

    def accepts(self, change: MemoryChange) -> bool:
        """As `Accepts`. A rule without a value, or with another than true, accepts nothing."""
        match self.accept:
            case "people":
                return False
            case "all":
                return True
            case "rule":
                assert self.when is not None
                values = {name: getattr(change, name) for name in NAMES}
                return not check([_rule(self.when)], values).errors
            case None:
                return not change.tainted


@functools.lru_cache(maxsize=8)
def _rule(when: str) -> CompiledRule:
    return compiled(Rule(cel=when, message="it waits for a person"), NAMES)
