"""This room is for the budget: what a turn may still spend, counted over its whole tree."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from drone.agent.past import Past
from drone.agent.report import LimitReached
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.usage import Usage

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one model call will cost, as far as it can be known before.

    `tokens` are all of them, `output_tokens` the room for its reply; US dollars None where no price is known.
    """

    tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None


class Budget:
    """One per turn, shared by every agent of its tree. `clock` answers monotonic seconds. Use on one event loop only.

    A model call is admitted when neither what is spent nor what the calls under way have set aside fills a limit, so
    that the tree overshoots a limit by at most the call of each agent that runs, and by one where estimates hold.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.spent = Usage()
        self.usd = 0.0
        """What was spent at known prices; `spent.cost_usd` is None as soon as one price was unknown."""
        self.unpriced_told = False
        """Whether people know that the limit `cost_usd` cannot be held."""
        self.spawned = 0
        self.calls = 0
        self._told: dict[str, set[str]] = {}
        self._priced_tokens = 0
        self._under_way = 0
        self._tokens = 0
        self._output_tokens = 0
        self._usd = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._clock = clock
        self._deadline = clock() + limits.wall_seconds
        self._stopped_at: float | None = None

    def seconds_left(self) -> float:
        return self._deadline - (self._clock() if self._stopped_at is None else self._stopped_at)

    def stand_still(self, stands: bool) -> None:
        """No wall clock goes on while the tree stands still."""
        if self._stopped_at is not None:
            self._deadline += self._clock() - self._stopped_at
        self._stopped_at = self._clock() if stands else None

    def recall(self, past: Past) -> None:
        """Take off what the turn spent before, and what was reserved for calls that were lost."""
        self._charge(past.usage)
        for lost in past.lost:
            output = lost.reserved_output_tokens
            asked = max(0, lost.reserved_tokens - output)
            self._charge(Usage(input_tokens=asked, output_tokens=output, cost_usd=lost.reserved_usd))
        self.spawned = past.spawned
        self.calls = past.calls
        self._deadline -= past.seconds

    def told_to(self, record_id: str, continues: str | None) -> set[str]:
        """Limits of the tree that this conversation was warned of, in the record that it continues too; add to it."""
        told = self._told[record_id] = set(self._told.get(continues or "", ()))
        return told

    def check(self) -> None:
        """Raises `LimitReached` when the tree may not ask a model again."""
        limits, spent = self.limits, self.spent
        if self.seconds_left() <= 0:
            raise LimitReached("wall_seconds", limits.wall_seconds)
        if spent.output_tokens >= limits.output_tokens:
            raise LimitReached("output_tokens", limits.output_tokens)
        if limits.total_tokens is not None and spent.total_tokens >= limits.total_tokens:
            raise LimitReached("total_tokens", limits.total_tokens)
        if limits.cost_usd is not None and 0 < self.usd >= limits.cost_usd:
            raise LimitReached("cost_usd", limits.cost_usd)

    @property
    def full(self) -> bool:
        """Whether the calls under way have set aside all that is left: one of them must settle before the next."""
        if not self._under_way:
            return False
        limits, spent = self.limits, self.spent
        return (
            spent.output_tokens + self._output_tokens >= limits.output_tokens
            or (limits.total_tokens is not None and spent.total_tokens + self._tokens >= limits.total_tokens)
            or (limits.cost_usd is not None and 0 < self.usd + self._usd >= limits.cost_usd)
        )

    async def settled(self) -> None:
        """Wait until a call that is under way has settled."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def output_tokens_left(self) -> int:
        """What neither is spent nor set aside."""
        return self.limits.output_tokens - self.spent.output_tokens - self._output_tokens

    def usd_per_token(self) -> float | None:
        """What a token cost on the average so far, None when no priced call was made."""
        return self.usd / self._priced_tokens if self._priced_tokens else None

    def hold(self, reservation: Reservation) -> None:
        """Set this aside; `settle` must follow whatever happens to the call."""
        self._under_way += 1
        self._tokens += reservation.tokens
        self._output_tokens += reservation.output_tokens
        self._usd += reservation.usd or 0.0

    def settle(self, reservation: Reservation, usage: Usage | None) -> None:
        """Charge what the call cost, None = nothing, give the rest back, and let those who wait look again."""
        self._under_way -= 1
        self._tokens -= reservation.tokens
        self._output_tokens -= reservation.output_tokens
        self._usd -= reservation.usd or 0.0
        if usage is not None:
            self._charge(usage)
        if self._waiting:
            self._wake()

    def _charge(self, usage: Usage) -> None:
        self.spent = self.spent.plus(usage)
        if usage.cost_usd is not None:
            self.usd += usage.cost_usd
            self._priced_tokens += usage.total_tokens

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for turn in waiting:
            if not turn.done():
                turn.set_result(None)

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

    def as_limits(self) -> AgentLimits:
        return AgentLimits(
            rounds=self.rounds,
            output_tokens=self.output_tokens,
            tool_calls=self.tool_calls,
            tool_seconds=self.tool_seconds,
            model_call_seconds=self.model_call_seconds,
            wall_seconds=self.wall_seconds,
        )


def _least(allowed: N, own: N | None) -> N:
    return allowed if own is None else min(allowed, own)
