"""The allowance of one agent: its own share within the budget of its tree, and the room kept for its last reply."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from drone.agent.budget import NOTHING_KEPT, Budget, Reservation, Share
from drone.agent.record import RecordState
from drone.agent.report import LimitReached
from mcc.contracts.entry import ORDER
from mcc.contracts.journal import BudgetWarned
from mcc.contracts.limits import TOKENS
from mcc.contracts.usage import Usage

ROOM = 4_096
"""Tokens that are kept for the last reply."""

LONGEST_SECONDS = 60.0
SHORTEST_WALL = 60.0
"""Of an agent that has at least so many seconds a tenth is kept for its last reply, at most a minute."""

PART = 4
"""At most a fourth of a limit is kept."""


def kept(room: float, limit: float | None, question: float = 0) -> float:
    """How much of a limit on all tokens, or on money, ordinary rounds leave for the last question and its reply.

    `question`: what is asked now will cost so much at least; where that uses the limit up, it is the last one.
    """
    return 0 if limit is None else max(min(room, limit / PART), min(question, limit))


def kept_of_kind(kind: str, question: float, limit: float | None) -> float:
    """The same of a limit on one kind of tokens: those read go by the last question, those thought by its reply."""
    room = ROOM if kind == "reasoning_tokens" else question
    return kept(room, limit, question if kind == "input_tokens" else 0)


def kept_output(room: int, limit: int) -> int:
    """How many output tokens ordinary rounds leave; of a small limit none, which a small last reply passes instead."""
    return 0 if room * PART > limit else room


def kept_seconds(wall_seconds: float) -> float:
    return 0.0 if wall_seconds < SHORTEST_WALL else min(LONGEST_SECONDS, wall_seconds / 10)


def reply_tokens(limit: int) -> int:
    """The most tokens of the last reply under a limit on output tokens."""
    return ROOM if limit >= ROOM * PART else max(64, limit // 5)


def landing(reached: LimitReached, finish: str | None) -> BudgetWarned:
    """The word to the model; `finish` is the tool that hands its result in, the only one that still runs."""
    how = "write your answer" if finish is None else f"hand in your result with {finish}"
    said = (
        f"The limit {reached.limit} ({reached.allowed:.10g}) is reached. This is your last reply, and no "
        f"{'tool' if finish is None else 'other tool'} runs any more: {how} now, from what you have, and say what is "
        "missing in it."
    )
    allowed = reached.allowed
    return BudgetWarned(limit=reached.limit, used=allowed, allowed=allowed, message=said, landing=True, in_results=True)


LAST_TOKENS = 4096
"""Room set aside for a reply. A cap on output is sent only when less than this is left: many servers refuse caps larger
than their own."""


OWN_CLOCK_SECONDS = 1.0
"""The clock of an agent ends a call that outlives it, so that its limit is named: the call's own comes later."""


class Use(NamedTuple):
    """How much of a limit is used, by one agent or by its whole tree; `allowed` 0 where there is none."""

    limit: str
    used: float
    allowed: float
    of_tree: bool = False


class _Kept(NamedTuple):
    """What is kept for the last reply: of the agent's own limits, and of its tree's."""

    output_tokens: float = 0
    tree_output_tokens: float = 0
    total_tokens: float = 0
    usd: float = 0
    seconds: float = 0
    kinds: Mapping[str, float] = NOTHING_KEPT
    tree_kinds: Mapping[str, float] = NOTHING_KEPT


class Allowance:
    """Of one run, whose `state` says what it has used. `finish` is the tool that hands its result in, None for an
    agent without a gate.
    """

    def __init__(
        self, budget: Budget, share: Share, state: RecordState | None = None, *, finish: str | None = None
    ) -> None:
        self.share = share
        self.state = state or RecordState(ORDER)
        self._budget = budget
        self._finish = finish
        self._room = LAST_TOKENS
        self._calling: set[str] = set()
        # Few orders limit a kind of tokens, and every round asks for all limits several times.
        self._kinds = tuple((name, allowed) for name in TOKENS if (allowed := getattr(share, name)) is not None)
        limits = budget.limits
        self._tree_kinds = tuple((name, most) for name in TOKENS if (most := getattr(limits, name)) is not None)
        self._left_at_end = budget.seconds_left() - share.wall_seconds
        if self.state.began_after is not None:  # its wall clock runs from where it began under an earlier drone
            at_end = budget.limits.wall_seconds - self.state.began_after - share.wall_seconds
            self._left_at_end = max(self._left_at_end, at_end)

    @property
    def must_wait(self) -> bool:
        """Whether the next call waits for those of other agents."""
        return self._budget.full

    async def reserve(self) -> Reservation:
        """Set aside what the next round may cost.

        Waits as long as only the calls of other agents that are under way fill a limit of the tree. Raises
        `LimitReached`.
        """
        budget = self._budget
        self._check()
        while budget.full:
            await budget.settled()
            self._check()
        self._room = room = self._reply_tokens()
        tokens = self.state.tokens_of_question() + room
        price = self._usd_per_token()
        reservation = Reservation(tokens, room, None if price is None else tokens * price)
        budget.hold(reservation)
        return reservation

    def settle(self, reservation: Reservation) -> None:
        """The call is over: give back what was set aside for it."""
        self._budget.settle(reservation)

    @property
    def _next_round(self) -> int:
        """The number that counts for its limit: rounds that another order paid for do not."""
        return self.state.rounds + 1 - self.state.rounds_before

    def _check(self) -> None:
        share, landing = self.share, self.state.landing
        if landing is not None:
            if not self._may_land:
                raise LimitReached(landing.limit, landing.allowed)
            return
        if self._next_round > share.rounds:
            raise LimitReached("rounds", share.rounds)
        if self.state.denied and share.tool_calls and not self._has_calls_left:
            raise LimitReached("tool_calls", share.tool_calls)
        kept = self._kept()
        if self._written >= share.output_tokens - kept.output_tokens:
            raise LimitReached("output_tokens", share.output_tokens)
        for name, allowed in self._kinds:
            if getattr(self.state.spent, name) >= allowed - kept.kinds.get(name, 0):
                raise LimitReached(name, allowed)
        if self.seconds_left() <= kept.seconds:
            raise LimitReached("wall_seconds", share.wall_seconds)
        self._budget.check(kept.tree_output_tokens, kept.total_tokens, kept.usd, kept.tree_kinds)

    @property
    def _may_land(self) -> bool:
        return self.seconds_left() > 0 and self._budget.has_money_left

    def landing(self, reached: LimitReached) -> BudgetWarned | None:
        """That one reply is left; None where there is nothing to tell yet, nothing to tell it with, or it has come."""
        if self._next_round == 1 or self.state.landing is not None or not self._may_land:
            return None
        return landing(reached, self._finish)

    def _kept(self) -> "_Kept":
        """What this round must leave for the last reply, and for those of agents above; a first one leaves nothing."""
        if self._next_round == 1:
            return _Kept()
        limits, agents = self._budget.limits, self.state.origin.depth + 1
        question = self.state.tokens_of_question()
        tokens, price = (question + ROOM) * agents, self._usd_per_token() or 0
        return _Kept(
            output_tokens=kept_output(ROOM, self.share.output_tokens),
            tree_output_tokens=kept_output(ROOM * agents, limits.output_tokens),
            total_tokens=kept(tokens, limits.total_tokens, question),
            usd=kept(tokens * price, limits.cost_usd, question * price),
            seconds=self._kept_seconds,
            kinds={name: kept_of_kind(name, question, allowed) for name, allowed in self._kinds},
            tree_kinds={name: kept_of_kind(name, question * agents, most) for name, most in self._tree_kinds},
        )

    @property
    def _kept_seconds(self) -> float:
        return 0.0 if self._next_round == 1 else kept_seconds(self.share.wall_seconds)

    @property
    def _written(self) -> int:
        """Output tokens that count for the agent's own limit: a child's answer is not eaten by its reasoning."""
        spent = self.state.spent
        reasoning = spent.reasoning_tokens if self.state.origin.depth > 0 else 0
        return max(0, spent.output_tokens - reasoning)

    def _reply_tokens(self) -> int:
        """The room of the next reply."""
        share, budget = self.share.output_tokens, self._budget
        if self.state.landing is not None:
            return min(reply_tokens(share), reply_tokens(budget.limits.output_tokens))
        return max(1, min(LAST_TOKENS, share - self._written, budget.output_tokens_left()))

    @property
    def _has_calls_left(self) -> bool:
        budget = self._budget
        return self.state.calls < self.share.tool_calls and budget.tree.calls < budget.limits.tool_calls

    def _usd_per_token(self) -> float | None:
        """The price that this run's calls had, before the first one that of the tree's."""
        spent = self.state.spent
        if spent.total_tokens == 0:
            return self._budget.usd_per_token()
        return None if spent.cost_usd is None else spent.cost_usd / spent.total_tokens

    def output_cap(self, wanted: int | None = None) -> int | None:
        """The most tokens that the reserved call may answer with, `wanted` at most; None when it needs no cap."""
        if self._room >= LAST_TOKENS:
            return wanted
        return min(self._room, wanted or self._room)

    def unpriced(self, usage: Usage, model: str) -> tuple[BudgetWarned, ...]:
        """That a limit in US dollars cannot be held, since what this `model` took has no price: people are told once
        in a turn."""
        budget = self._budget
        if usage.cost_usd is not None or budget.limits.cost_usd is None or budget.tree.unpriced_warned:
            return ()
        return (_unpriced(model, budget.limits.cost_usd),)

    def warning(self) -> BudgetWarned | None:
        """That the agent comes near a limit, each limit once; None when nothing is left to say.

        But for its rounds, an agent is warned from its second round on.
        """
        if self.state.landing is not None:
            return None
        for use in self._near(self._next_round - 1):
            if not self._was_warned(use):
                return _wrap_up(use, finish=self._finish, last=self._next_round >= self.share.rounds)
        return None

    def _was_warned(self, use: Use) -> bool:
        """Of a limit of the tree also in the conversation that this run goes on with."""
        state = self.state
        return use.limit in state.warned or (use.of_tree and state.warned_before.get(use.limit) == use.allowed)

    def _near(self, done: int) -> Iterator[Use]:
        """The limits that are nearly used up after so many rounds."""
        share, nearly = self.share, self._budget.limits.warn_share
        if _near_in_rounds(done, share.rounds, nearly):
            yield Use("rounds", done, share.rounds)
        if done == 0:
            return
        for limit, used, allowed in self._own_uses():
            if allowed and used >= nearly * allowed:
                yield Use(limit, used, allowed)
        for limit, used, allowed in self._uses_of_tree():
            if allowed and used >= nearly * allowed:
                yield Use(limit, used, allowed, of_tree=True)

    def _own_uses(self) -> tuple[tuple[str, float, float], ...]:
        share, spent, left = self.share, self.state.spent, self._budget.seconds_left()
        return (
            ("output_tokens", self._written, share.output_tokens),
            ("wall_seconds", share.wall_seconds - (left - self._left_at_end), share.wall_seconds),
            ("tool_calls", self.state.calls, share.tool_calls),
            *[(name, getattr(spent, name), allowed) for name, allowed in self._kinds],
        )

    def _uses_of_tree(self) -> tuple[tuple[str, float, float], ...]:
        budget = self._budget
        limits, spent, tree = budget.limits, budget.spent, budget.tree
        return (
            ("output_tokens", spent.output_tokens, limits.output_tokens),
            ("wall_seconds", limits.wall_seconds - budget.seconds_left(), limits.wall_seconds),
            ("tool_calls", tree.calls, limits.tool_calls),
            *[(name, getattr(spent, name), most) for name, most in self._tree_kinds],
            ("total_tokens", spent.total_tokens, limits.total_tokens or 0),
            ("cost_usd", tree.usd, limits.cost_usd or 0),
        )

    def take_tool_call(self, call_id: str) -> bool:
        """Whether one more tool call may run. False: none is left, and the model is told."""
        if self.state.calls + len(self._calling) >= self.share.tool_calls or not self._budget.take_tool_call(call_id):
            return False
        self._calling.add(call_id)
        return True

    def tool_call_ended(self, call_id: str) -> None:
        """The end of this call is being written: from here on the state counts it."""
        self._calling.discard(call_id)
        self._budget.tool_call_ended(call_id)

    @property
    def must_land(self) -> bool:
        """Whether only the time for a last reply is left."""
        return self.state.landing is None and self.seconds_left() <= self._kept_seconds

    def seconds_for_call(self) -> float:
        """How long the next call may take. An agent that could land on what it has keeps the time for that."""
        kept = self._kept_seconds if self.state.landing is None else 0.0
        return self.seconds_left() - kept if kept else self.seconds_left() + OWN_CLOCK_SECONDS

    def seconds_left(self) -> float:
        left = self._budget.seconds_left()
        return min(left, left - self._left_at_end)


def _near_in_rounds(done: int, rounds: int, nearly: float) -> bool:
    """Whether so many rounds are nearly all of them: this part, and at the latest all but the last one."""
    return done >= min(math.ceil(round(nearly * rounds, 6)), rounds - 1)


def _wrap_up(use: Use, *, finish: str | None, last: bool) -> BudgetWarned:
    """The warning, in words for the model. `finish` is the tool that ends its work; `last`: no further round comes."""
    counts = f"{_plain(use.used)} of {_plain(use.allowed)}"
    how = "a reply without tool calls" if finish is None else f"the tool {finish}"
    if use.limit == "rounds" and last:
        said = f"The limit rounds ({counts} used) leaves you this one reply. Finish now, by {how}, with what you have."
    else:
        left = "nearly used up" if use.used < use.allowed else "used up"
        said = (
            f"The limit {use.limit} is {left}: {counts}. Start nothing new. "
            f"Do only what your answer cannot be without, then finish, by {how}, with what you have."
        )
    return BudgetWarned(limit=use.limit, used=round(use.used, 6), allowed=use.allowed, message=said, in_results=True)


def _unpriced(model: str, allowed: float) -> BudgetWarned:
    """That a limit in US dollars cannot be held; what was used of it is not known."""
    said = f"The price of {model} is unknown: the limit cost_usd cannot be held."
    return BudgetWarned(limit="cost_usd", used=None, allowed=allowed, message=said)


def _plain(number: float) -> str:
    return f"{number:.10g}" if isinstance(number, int) else f"{number:.4g}"
