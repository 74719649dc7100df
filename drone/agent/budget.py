"""This room is for the budget: what a turn may still spend, counted over its whole tree."""

import time
from collections.abc import Callable

from drone.agent.report import LimitReached
from mcc.contracts.limits import Limits
from mcc.contracts.usage import Usage


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


class Allowance:
    """What one agent of the tree may still use: its own rounds and output tokens, within the tree's budget."""

    def __init__(self, budget: Budget, *, rounds: int, output_tokens: int) -> None:
        self.budget = budget
        self.usage = Usage()
        self._rounds = rounds
        self._output_tokens = output_tokens

    def before_round(self, number: int) -> None:
        """Raises `LimitReached`. `number` counts from 1."""
        if number > self._rounds:
            raise LimitReached("rounds", self._rounds)
        if self.usage.output_tokens >= self._output_tokens:
            raise LimitReached("output_tokens", self._output_tokens)
        self.budget.before_model_call()

    def charge(self, usage: Usage) -> None:
        self.usage = self.usage.plus(usage)
        self.budget.charge(usage)

    def output_tokens_left(self) -> int:
        tree = self.budget.limits.output_tokens - self.budget.spent.output_tokens
        return max(1, min(tree, self._output_tokens - self.usage.output_tokens))
