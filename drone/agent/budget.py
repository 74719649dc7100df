"""This room is for the budget: what a turn may still spend, counted over its whole tree."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from drone.agent.report import LimitReached
from mcc.contracts.agents import AgentLimits
from mcc.contracts.limits import Limits
from mcc.contracts.usage import Usage

N = TypeVar("N", int, float)


class Budget:
    """One per turn, shared by every agent of its tree. `clock` answers monotonic seconds."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.spent = Usage()
        self.spawned = 0
        self.calls = 0
        self._clock = clock
        self._deadline = clock() + limits.wall_seconds

    def seconds_left(self) -> float:
        return self._deadline - self._clock()

    def before_model_call(self) -> None:
        """Raises `LimitReached` when the tree may not ask a model again."""
        limits, spent = self.limits, self.spent
        if self.seconds_left() <= 0:
            raise LimitReached("wall_seconds", limits.wall_seconds)
        if spent.output_tokens >= limits.output_tokens:
            raise LimitReached("output_tokens", limits.output_tokens)
        if limits.total_tokens is not None and spent.total_tokens >= limits.total_tokens:
            raise LimitReached("total_tokens", limits.total_tokens)
        if limits.cost_usd is not None and spent.cost_usd is not None and spent.cost_usd >= limits.cost_usd:
            raise LimitReached("cost_usd", limits.cost_usd)

    def charge(self, usage: Usage) -> None:
        self.spent = self.spent.plus(usage)

    def take_tool_call(self) -> bool:
        """False: no tool call is left; the model is told."""
        if self.calls >= self.limits.tool_calls:
            return False
        self.calls += 1
        return True

    def take_spawn(self) -> bool:
        """False: no subagent is left; the model is told."""
        if self.spawned >= self.limits.spawns:
            return False
        self.spawned += 1
        return True


@dataclass(frozen=True, slots=True)
class Share:
    """The most that one agent may use of its turn's limits."""

    rounds: int
    output_tokens: int
    tool_calls: int
    tool_seconds: float
    model_call_seconds: float
    wall_seconds: float

    @classmethod
    def of(cls, limits: Limits, own: AgentLimits, depth: int) -> "Share":
        """The turn's limits, for a child the smaller ones; `own`, those of the agent's file, can only lower them."""
        return cls(
            rounds=_least(limits.rounds if depth == 0 else limits.subagent_rounds, own.rounds),
            output_tokens=_least(
                limits.output_tokens if depth == 0 else limits.subagent_output_tokens, own.output_tokens
            ),
            tool_calls=_least(limits.tool_calls, own.tool_calls),
            tool_seconds=_least(limits.tool_seconds, own.tool_seconds),
            model_call_seconds=_least(limits.model_call_seconds, own.model_call_seconds),
            wall_seconds=_least(limits.wall_seconds, own.wall_seconds),
        )


def _least(allowed: N, own: N | None) -> N:
    return allowed if own is None else min(allowed, own)


class Allowance:
    """What one agent of the tree may still use: its own share, within the tree's budget."""

    def __init__(self, budget: Budget, share: Share) -> None:
        self.share = share
        self.usage = Usage()
        self._budget = budget
        self._calls = 0
        self._left_at_end = budget.seconds_left() - share.wall_seconds

    def before_round(self, number: int) -> None:
        """Raises `LimitReached`. `number` counts from 1."""
        if number > self.share.rounds:
            raise LimitReached("rounds", self.share.rounds)
        if self.usage.output_tokens >= self.share.output_tokens:
            raise LimitReached("output_tokens", self.share.output_tokens)
        if self.seconds_left() <= 0:
            raise LimitReached("wall_seconds", self.share.wall_seconds)
        self._budget.before_model_call()

    def charge(self, usage: Usage) -> None:
        self.usage = self.usage.plus(usage)
        self._budget.charge(usage)

    def take_tool_call(self) -> bool:
        """False: no tool call is left; the model is told."""
        if self._calls >= self.share.tool_calls or not self._budget.take_tool_call():
            return False
        self._calls += 1
        return True

    def output_tokens_left(self) -> int:
        tree = self._budget.limits.output_tokens - self._budget.spent.output_tokens
        return max(1, min(tree, self.share.output_tokens - self.usage.output_tokens))

    def seconds_left(self) -> float:
        left = self._budget.seconds_left()
        return min(left, left - self._left_at_end)

    def model_call_seconds(self) -> float:
        """The time limit of a model call that begins now."""
        return min(self.share.model_call_seconds, max(0.001, self.seconds_left()))
