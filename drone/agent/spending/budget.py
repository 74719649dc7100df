"""The budget of a turn: what its agent tree may still spend, and the share of each agent."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from drone.agent.ports.report import LimitReached
from drone.agent.state.tree import Tree
from mcc.contracts.limits import TOKENS, AgentLimits, Limits
from mcc.contracts.shape import unchecked
from mcc.contracts.usage import Usage

N = TypeVar("N", int, float)

NO_HEADROOM: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Reservation:
    """The estimated cost of one model call.

    `tokens`: request and reply together; `output_tokens`: the room for the reply; `usd`: None where no price is known.
    """

    tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None


class Budget:
    """One per turn, shared by every agent of its tree. `clock` returns monotonic seconds. Use on one event loop only.

    The tree's state says what is spent; this object holds the reservations of running calls. A model call is admitted
    while spending plus reservations fill no limit. So the tree exceeds a limit by at most one call per running agent,
    and by one call where the estimates hold.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.tree = Tree()
        self._spawning: set[str] = set()
        self._calling: set[str] = set()
        self._under_way = 0
        self._tokens = 0
        self._output_tokens = 0
        self._usd = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._clock = clock
        self._deadline = clock() + limits.wall_seconds
        self._stopped_at: float | None = None

    def follow(self, tree: Tree) -> None:
        """Count what this tree uses, and subtract the time that earlier drones worked on it from the wall clock."""
        self.tree = tree
        self._deadline -= tree.seconds

    @property
    def priced_only(self) -> bool:
        """Whether no model of unknown price may be asked."""
        return self.limits.unknown_price == "refuse"

    @property
    def free_only(self) -> bool:
        """Whether no model may be asked that costs anything: a limit in money lets one call pass, for which nothing was
        set aside then."""
        return self.priced_only and self.limits.cost_usd == 0

    @property
    def spent(self) -> Usage:
        return self.tree.spent

    def seconds_left(self) -> float:
        return self._deadline - (self._clock() if self._stopped_at is None else self._stopped_at)

    def set_idle(self, stands: bool) -> None:
        """Stop the wall clock while the tree is idle (`stands`), and start it again afterwards."""
        if self._stopped_at is not None:
            self._deadline += self._clock() - self._stopped_at
        self._stopped_at = self._clock() if stands else None

    def check(
        self,
        output_headroom: float = 0,
        tokens_headroom: float = 0,
        usd_headroom: float = 0,
        kinds_headroom: Mapping[str, float] = NO_HEADROOM,
    ) -> None:
        """Raises `LimitReached` when another model call would use what the `…_kept` arguments reserve of the limits.

        `kinds_headroom`: reserved tokens of one kind, by the limit's name.
        """
        limits, spent = self.limits, self.spent
        if self.seconds_left() <= 0:
            raise LimitReached("wall_seconds", limits.wall_seconds)
        if spent.output_tokens >= limits.output_tokens - output_headroom:
            raise LimitReached("output_tokens", limits.output_tokens)
        for name in TOKENS:
            allowed = getattr(limits, name)
            if allowed is not None and getattr(spent, name) >= allowed - kinds_headroom.get(name, 0):
                raise LimitReached(name, allowed)
        if limits.total_tokens is not None and spent.total_tokens >= limits.total_tokens - tokens_headroom:
            raise LimitReached("total_tokens", limits.total_tokens)
        # From the first cent on: a limit of 0 still admits models that cost nothing.
        if limits.cost_usd is not None and 0 < self.tree.usd >= limits.cost_usd - usd_headroom:
            raise LimitReached("cost_usd", limits.cost_usd)

    @property
    def has_money_left(self) -> bool:
        """Whether neither `total_tokens` nor `cost_usd` is used up."""
        limits = self.limits
        tokens = limits.total_tokens is None or self.spent.total_tokens < limits.total_tokens
        return tokens and (limits.cost_usd is None or not 0 < self.tree.usd >= limits.cost_usd)

    @property
    def full(self) -> bool:
        """Whether the running calls have reserved all that is left: one of them must settle before the next starts."""
        if not self._under_way:
            return False
        limits, spent = self.limits, self.spent
        input_tokens = self._tokens - self._output_tokens
        return (
            spent.output_tokens + self._output_tokens >= limits.output_tokens
            or (limits.total_tokens is not None and spent.total_tokens + self._tokens >= limits.total_tokens)
            or (limits.input_tokens is not None and spent.input_tokens + input_tokens >= limits.input_tokens)
            or (limits.cost_usd is not None and 0 < self.tree.usd + self._usd >= limits.cost_usd)
        )

    async def settled(self) -> None:
        """Wait until a running call has settled."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def output_tokens_left(self) -> int:
        """Output tokens that are neither spent nor reserved."""
        return self.limits.output_tokens - self.spent.output_tokens - self._output_tokens

    def usd_per_token(self) -> float | None:
        """The average price of a token so far; None before the first call with a known price."""
        tree = self.tree
        return tree.usd / tree.priced_tokens if tree.priced_tokens else None

    def hold(self, reservation: Reservation) -> None:
        """Add the reservation; the caller must `settle` it whatever happens to the call."""
        self._under_way += 1
        self._tokens += reservation.tokens
        self._output_tokens += reservation.output_tokens
        self._usd += reservation.usd or 0.0

    def settle(self, reservation: Reservation) -> None:
        """Release the reservation of a call that has ended, and let everyone waiting in `settled` check again."""
        self._under_way -= 1
        self._tokens -= reservation.tokens
        self._output_tokens -= reservation.output_tokens
        self._usd -= reservation.usd or 0.0
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for turn in waiting:
                if not turn.done():
                    turn.set_result(None)

    def take_tool_call(self, call_id: str) -> bool:
        """Reserve one tool call until its end is journaled; False when the limit is reached."""
        if self.tree.calls + len(self._calling) >= self.limits.tool_calls:
            return False
        self._calling.add(call_id)
        return True

    def tool_call_ended(self, call_id: str) -> None:
        self._calling.discard(call_id)

    def take_spawn(self, record_id: str) -> bool:
        """Reserve one subagent until its start is journaled; False when the limit is reached. One that is reserved
        already stays so."""
        if record_id in self._spawning:
            return True
        if self.tree.spawned + len(self._spawning) >= self.limits.spawns:
            return False
        self._spawning.add(record_id)
        return True

    def spawn_began(self, record_id: str) -> None:
        """Release the reservation: its start is being journaled, or it will never begin."""
        self._spawning.discard(record_id)


@dataclass(frozen=True, slots=True)
class Share:
    """The limits of one agent within its turn."""

    rounds: int
    output_tokens: int
    tool_calls: int
    tool_seconds: float
    model_call_seconds: float
    wall_seconds: float
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None

    @classmethod
    def of(cls, limits: Limits, own: AgentLimits, depth: int) -> "Share":
        """The turn's limits, those for subagents below the root; `own`, from the agent's file, can only lower them."""
        return cls(
            rounds=_least(limits.rounds if depth == 0 else limits.subagent_rounds, own.rounds),
            output_tokens=_least(
                limits.output_tokens if depth == 0 else limits.subagent_output_tokens, own.output_tokens
            ),
            tool_calls=_least(limits.tool_calls, own.tool_calls),
            tool_seconds=_least(limits.tool_seconds, own.tool_seconds),
            model_call_seconds=_least(limits.model_call_seconds, own.model_call_seconds),
            wall_seconds=_least(limits.wall_seconds, own.wall_seconds),
            **{name: _least_of(getattr(limits, name), getattr(own, name)) for name in TOKENS},
        )

    def within(self, wall_seconds: float | None) -> "Share":
        """The same with at most this wall clock."""
        return self if wall_seconds is None else replace(self, wall_seconds=_least(self.wall_seconds, wall_seconds))

    def as_limits(self) -> AgentLimits:
        return unchecked(
            AgentLimits,
            rounds=self.rounds,
            output_tokens=self.output_tokens,
            tool_calls=self.tool_calls,
            tool_seconds=self.tool_seconds,
            model_call_seconds=self.model_call_seconds,
            wall_seconds=self.wall_seconds,
            input_tokens=self.input_tokens,
            cached_input_tokens=self.cached_input_tokens,
            reasoning_tokens=self.reasoning_tokens,
        )


def _least_of(allowed: int | None, own: int | None) -> int | None:
    """The smaller of two optional limits; None is no limit."""
    return own if allowed is None else _least(allowed, own)


def _least(allowed: N, own: N | None) -> N:
    return allowed if own is None else min(allowed, own)
